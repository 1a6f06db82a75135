//! Tokens that rise whatever happens to the server: its clock is set back, or all its data is gone.

use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_testbed::{Redis, Setup};

use crate::operator::look;
use crate::stage::{LOCK, PATIENCE, keeper, takes, url};

const HOUR: Duration = Duration::from_secs(3600);

async fn next(keeper: &Keeper) -> u64 {
    let guard = takes(keeper).await;
    let token = guard.token().get();
    guard.release().await.unwrap();
    token
}

// proves: F1, F2
// bug 31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_and_data_that_is_lost() {
    let redis = Redis::start_with(&Setup::new().movable_clock()).unwrap();
    let clock = redis.server().clock().unwrap();
    for dialect in ["simple", "redisson"] {
        let keeper = keeper(&url(&redis, dialect)).await;
        let first = next(&keeper).await;
        redis.ask(&["FLUSHALL"]).unwrap();
        let after_loss = next(&keeper).await;
        assert!(after_loss > first, "{after_loss} after {first}");
        clock.back(HOUR).unwrap();
        let after_step = next(&keeper).await;
        assert!(after_step > after_loss, "{after_step} after {after_loss}");
        clock.set_true().unwrap();
    }
}

/// One key, reached through two prefixes: it is one lock with one line, and its token rises.
// proves: F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_by_two_prefixes_is_one_line() {
    let redis = Redis::start().unwrap();
    for (dialect, stranger) in [
        ("simple", vec!["SET", LOCK, "somebody"]),
        ("redisson", vec!["HSET", LOCK, "somebody:1", "1"]),
    ] {
        redis.ask(&stranger).unwrap();
        let whole = keeper(&url(&redis, dialect)).await;
        let (prefix, rest) = LOCK.split_at(3);
        let split = keeper(&format!("{}&prefix={prefix}", url(&redis, dialect))).await;

        let first = whole.clone();
        let first = tokio::spawn(async move { takes(&first).await });
        while look(&whole).await.waiters.is_empty() {
            tokio::task::yield_now().await;
        }
        let second = tokio::spawn(async move {
            let lock = split.lock(rest);
            lock.acquire_within(PATIENCE).await.unwrap()
        });
        let both = tokio::time::timeout(PATIENCE, async {
            while look(&whole).await.waiters.len() < 2 {
                tokio::task::yield_now().await;
            }
        });
        both.await.expect("both wait in one line");
        redis.ask(&["DEL", LOCK]).unwrap();
        let channel = format!("redisson_lock__channel:{{{LOCK}}}");
        redis.ask(&["PUBLISH", &channel, "0"]).unwrap();

        let first = first.await.unwrap();
        let token = first.token();
        assert_eq!(look(&whole).await.holders[0].token, token);
        first.release().await.unwrap();
        let second = second.await.unwrap();
        assert!(second.token() > token, "{} after {token}", second.token());
        second.release().await.unwrap();
    }
}
