//! What waiting costs the server, and what happens to it when the connection breaks.

use std::collections::HashSet;
use std::time::Duration;

use lockkeeper::backend::{Entry, Standing, Wake};
use lockkeeper_testbed::Redis;

use crate::stage::{LOCK, LONG, PATIENCE, backend, calls, claim, keeper, takes, url};

const WAITERS: usize = 20;

/// All commands that the server has carried out, those inside of scripts too.
fn commands(redis: &Redis) -> u64 {
    let info = redis.ask(&["INFO", "stats"]).unwrap().text();
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().trim().parse().unwrap()
}

/// A client that tells nobody when it is done: only the head of our line looks, ten times a second, and
/// the rest of the line costs nothing.
// proves: W5, W6
// bug 42, bug 43
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_behind_another_client_looks_seldom() {
    let redis = Redis::start().unwrap();
    let stranger = ["SET", LOCK, "somebody", "PX", "120000"];
    redis.ask(&stranger).unwrap();
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let keeper = keeper(&url(&redis, "simple")).await;
        waiting.spawn(async move {
            let guard = keeper.lock(LOCK).acquire_within(LONG).await.unwrap();
            guard.release().await.unwrap();
        });
    }
    let line = format!("lockkeeper.dialect:line:{LOCK}");
    while redis.ask(&["ZCARD", &line]).unwrap().text() != WAITERS.to_string() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let scripts = |redis: &Redis| calls(redis, "evalsha");
    let (before, all_before) = (scripts(&redis), commands(&redis));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (looks, all) = (scripts(&redis) - before, commands(&redis) - all_before);
    println!("{WAITERS} wait: {looks} looks and {all} commands in 3 s");
    assert!(looks <= 60, "{looks} looks in 3 s");
    assert!(looks >= 3, "nobody looks: {looks}");
    redis.ask(&["DEL", LOCK]).unwrap();
    while let Some(done) = waiting.join_next().await {
        done.unwrap();
    }
}

/// Connections that break while somebody waits for Redisson's word: the word of the release may be lost
/// with them, so everybody looks when the connection is back.
// proves: W5
// bug 39
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_listens_again() {
    let redis = Redis::start().unwrap();
    let hold = || {
        redis.ask(&["HSET", LOCK, "somebody:1", "1"]).unwrap();
        redis.ask(&["PEXPIRE", LOCK, "120000"]).unwrap();
    };
    let free = || {
        redis.ask(&["DEL", LOCK]).unwrap();
        let channel = format!("redisson_lock__channel:{{{LOCK}}}");
        redis.ask(&["PUBLISH", &channel, "0"]).unwrap();
    };
    let keeper = keeper(&url(&redis, "redisson")).await;
    for before in [true, false] {
        hold();
        let waiting = keeper.clone();
        let waiting = tokio::spawn(async move { takes(&waiting).await });
        let line = format!("lockkeeper.dialect:line:{LOCK}");
        while redis.ask(&["ZCARD", &line]).unwrap().text() != "1" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
        if before {
            // Said into the gap.
            free();
        } else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!waiting.is_finished(), "two holders");
            free();
        }
        waiting.await.unwrap().release().await.unwrap();
    }
}

/// Many who find a stranger ahead of them at once: the renewal of all is one question, its answer waits
/// for nothing, and each is told to look once somebody listens.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_does_not_wait_for_ears() {
    let redis = Redis::start().unwrap();
    let one = backend(&url(&redis, "redisson")).await.unwrap();
    let mut wakes = one.wakes();
    let (mut claims, mut waiting) = (Vec::new(), HashSet::new());
    for number in 0..WAITERS {
        let name = format!("lock{number}");
        let (holder, waiter) = (claim(&name), claim(&name));
        one.enter(&holder, Entry::Queue).await.unwrap();
        one.enter(&waiter, Entry::Queue).await.unwrap();
        redis.ask(&["DEL", &name]).unwrap();
        redis.ask(&["HSET", &name, "somebody:1", "1"]).unwrap();
        waiting.insert(waiter.id);
        claims.extend([holder, waiter]);
    }
    let before = calls(&redis, "evalsha");
    let told = one.renew(&claims).await.unwrap();
    assert_eq!(calls(&redis, "evalsha") - before, 1, "questions");
    for both in told.chunks(2) {
        assert_eq!(both[0], Standing::Gone);
        assert!(matches!(both[1], Standing::Waits { .. }), "{both:?}");
    }
    while !waiting.is_empty() {
        let wake = tokio::time::timeout(PATIENCE, wakes.next()).await;
        if let Some(Wake::Look(claim)) = wake.expect("all are told to look") {
            waiting.remove(&claim);
        }
    }
    // Whoever leaves listens no more.
    for claim in &claims {
        one.release(claim).await.unwrap();
    }
    let heard = ["PUBSUB", "CHANNELS", "redisson_lock__channel:*"];
    let until = tokio::time::timeout(PATIENCE, async {
        while !redis.ask(&heard).unwrap().text().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    until.await.expect("nobody listens any more");
}
