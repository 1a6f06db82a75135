//! One name that is not as it should be costs the other names nothing; and looking at all names costs
//! the server no long moment.

use std::collections::BTreeSet;

use lockkeeper::Error;
use lockkeeper::backend::{Entry, Query, Standing};
use lockkeeper_testbed::Redis;

use crate::stage::{backend, calls, claim, url};

const DIALECTS: [&str; 2] = ["simple", "redisson"];

/// Somebody's data at a key that we hold or wait for, or at a key of our own line.
// proves: L5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_name_fails_alone() {
    let redis = Redis::start().unwrap();
    for dialect in DIALECTS {
        for bad in [
            "bad",
            "lockkeeper.dialect:line:bad",
            "lockkeeper.dialect:claims:bad",
        ] {
            redis.ask(&["FLUSHALL"]).unwrap();
            let one = backend(&url(&redis, dialect)).await.unwrap();
            let all = [claim("first"), claim("bad"), claim("bad"), claim("last")];
            for claim in &all {
                one.enter(claim, Entry::Queue).await.unwrap();
            }
            redis.ask(&["DEL", bad]).unwrap();
            redis.ask(&["SADD", bad, "theirs"]).unwrap();
            let told = one.renew(&all).await.unwrap();
            let (first, last) = (told[0], told[3]);
            assert!(matches!(first, Standing::Holds { .. }), "{bad}: {told:?}");
            assert!(matches!(last, Standing::Holds { .. }), "{bad}: {told:?}");
            assert_eq!(told[1..3], [Standing::Gone, Standing::Gone], "{bad}");
            let theirs = redis.ask(&["SCARD", bad]).unwrap();
            assert_eq!(theirs.text(), "1", "{bad}: it is not ours to touch");

            if bad == "bad" {
                let told = one.inspect(&Query::One(all[1].name.clone())).await;
                assert!(matches!(told, Err(Error::Invalid { .. })), "{told:?}");
            }
            let seen = one.inspect(&Query::All).await.unwrap();
            let seen: BTreeSet<&str> = seen.iter().map(|view| view.name.as_str()).collect();
            assert!(seen.contains("first") && seen.contains("last"), "{seen:?}");
        }
    }
}

/// A server that is full has lost nothing: who holds is told to ask again, not that it is gone.
// proves: L5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_is_no_loss() {
    let redis = Redis::start().unwrap();
    for dialect in DIALECTS {
        let one = backend(&url(&redis, dialect)).await.unwrap();
        let held = claim(dialect);
        one.enter(&held, Entry::Queue).await.unwrap();
        redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
        let told = one.renew(std::slice::from_ref(&held)).await;
        assert!(matches!(told, Err(Error::Refused { .. })), "{told:?}");
        redis.ask(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
        let told = one.renew(&[held]).await.unwrap();
        assert!(matches!(told[0], Standing::Holds { .. }), "{told:?}");
    }
}

/// All names, in calls that each look at a few: a script of all would hold up everybody's renewals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_names_are_seen_in_pages() {
    const NAMES: usize = 300;
    let redis = Redis::start().unwrap();
    for dialect in DIALECTS {
        let base = url(&redis, dialect);
        let one = backend(&format!("{base}&prefix={dialect}.")).await.unwrap();
        for number in 0..NAMES {
            let claim = claim(&format!("lock{number}"));
            one.enter(&claim, Entry::Queue).await.unwrap();
        }
        let before = calls(&redis, "evalsha");
        let seen = one.inspect(&Query::All).await.unwrap();
        assert_eq!(seen.len(), NAMES);
        assert!(seen.iter().all(|view| view.holders.len() == 1));
        let pages = calls(&redis, "evalsha") - before;
        assert!(pages >= NAMES.div_ceil(64) as u64, "{pages} calls");
    }
}
