//! What a user must be allowed: no more than the documentation says, and nothing of it less.

use std::time::Duration;

use lockkeeper::Error;
use lockkeeper::backend::{Entry, Query, Released, Standing};
use lockkeeper_testbed::Redis;

use crate::operator::look;
use crate::stage::{LOCK, PATIENCE, backend, claim, keeper, takes, url};

/// As documented, with the prefix `orders`.
const RECIPE: &str = "~orders* ~lockkeeper.dialect:* &lockkeeper.dialect:* &redisson_lock__channel:* \
    +eval +evalsha +time +exists +get +set +del +hset +hget +hdel +hexists +hkeys +zadd +zrem +zrank \
    +zscore +zrange +zrangebyscore +zremrangebyscore +zscan +pexpire +pttl +publish +subscribe \
    +unsubscribe +lpush +ltrim +ping +info +config|get";

/// Makes anew the user `locks` with these rights alone.
fn allow(redis: &Redis, rights: &[&str]) {
    let mut command = vec!["ACL", "SETUSER", "locks", "reset", "on", ">hush"];
    command.extend(rights);
    redis.ask(&command).unwrap();
}

fn url_of_user(redis: &Redis, dialect: &str) -> String {
    format!("redis://locks:hush@{}?dialect={dialect}", redis.address())
}

// proves: S3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn least_privilege_is_enough() {
    let redis = Redis::start().unwrap();
    allow(&redis, &RECIPE.split_whitespace().collect::<Vec<_>>());
    for (dialect, stranger) in [
        ("simple", vec!["SET", LOCK, "somebody"]),
        ("redisson", vec!["HSET", LOCK, "somebody:1", "1"]),
    ] {
        let keeper = keeper(&url_of_user(&redis, dialect)).await;
        redis.ask(&stranger).unwrap();
        let waiting = keeper.clone();
        let waiting = tokio::spawn(async move { takes(&waiting).await });
        while look(&keeper).await.waiters.is_empty() {
            tokio::task::yield_now().await;
        }
        let view = look(&keeper).await;
        let token = view.holders[0].token;
        let told = keeper.evict(&view.name, token, "it hangs").await.unwrap();
        assert_eq!(told, Released::Freed);
        waiting.await.unwrap().release().await.unwrap();
        assert!(keeper.inspect(&Query::All).await.unwrap().is_empty());
    }
}

/// A script that may not run its last command has still run the others. So whoever lacks any one right
/// is told which, before there is a lock, and nothing is left of the question.
// proves: S3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_right_is_named_when_connecting() {
    let redis = Redis::start().unwrap();
    // What only lets the server be asked about itself; and which names a user may lock is its own affair.
    let spared = ["~orders*", "+ping", "+info", "+config|get"];
    let needed = |right: &&str| !spared.contains(right);
    for right in RECIPE.split_whitespace().filter(needed) {
        let others = RECIPE.split_whitespace().filter(|other| *other != right);
        allow(&redis, &others.collect::<Vec<_>>());
        for dialect in ["simple", "redisson"] {
            let told = backend(&url_of_user(&redis, dialect)).await;
            let foreign = right.starts_with("&redisson") || right == "+unsubscribe";
            if foreign && dialect == "simple" {
                told.expect("it needs no word of strangers");
                continue;
            }
            let Err(Error::Denied { what, .. }) = told else {
                panic!("{dialect} is let in without {right}");
            };
            // These the server refuses by itself, in words of its own.
            let refused = ["~", "&lock", "+eval", "+subscribe", "+unsubscribe"];
            let refused = refused.iter().any(|start| right.starts_with(start));
            assert!(refused || what.contains(right), "{right}: {what}");
        }
        // Without the right to delete it is gone within a second.
        let nothing_left = tokio::time::timeout(PATIENCE, async {
            while !redis.ask(&["KEYS", "*"]).unwrap().text().is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        nothing_left.await.expect(right);
    }
}

/// Strangers' channels are forbidden while we wait: the wait goes on without their word, a connection
/// that breaks comes back all the same, and once they are allowed again somebody listens.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forbidden_channel_breaks_nothing() {
    let redis = Redis::start().unwrap();
    let rights: Vec<&str> = RECIPE.split_whitespace().collect();
    allow(&redis, &rights);
    let one = backend(&url_of_user(&redis, "redisson")).await.unwrap();
    let channels = |rule: &[&str]| {
        let mut command = vec!["ACL", "SETUSER", "locks"];
        command.extend(rule);
        redis.ask(&command).unwrap();
    };
    channels(&["resetchannels", "&lockkeeper.dialect:*"]);
    redis.ask(&["HSET", LOCK, "somebody:1", "1"]).unwrap();
    let waiter = claim(LOCK);
    let told = one.enter(&waiter, Entry::Queue).await.unwrap();
    assert!(matches!(told, Standing::Waits { .. }), "{told:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;

    redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let waiter = std::slice::from_ref(&waiter);
    let back = tokio::time::timeout(PATIENCE, async {
        while one.renew(waiter).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    back.await.expect("the connection comes back");

    channels(&["&redisson_lock__channel:*"]);
    let channel = format!("redisson_lock__channel:{{{LOCK}}}");
    let heard = tokio::time::timeout(PATIENCE, async {
        while !redis
            .ask(&["PUBSUB", "CHANNELS"])
            .unwrap()
            .text()
            .contains(&channel)
        {
            let _asked_again = one.renew(waiter).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    heard.await.expect("somebody listens again");
}

/// The right to tell strangers is taken away from a holder: its release is refused, and really has
/// changed nothing.
// proves: L5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_refused_has_freed_nothing() {
    let redis = Redis::start().unwrap();
    allow(&redis, &RECIPE.split_whitespace().collect::<Vec<_>>());
    let one = backend(&url_of_user(&redis, "redisson")).await.unwrap();
    let held = claim(LOCK);
    one.enter(&held, Entry::Queue).await.unwrap();
    let forbid = ["ACL", "SETUSER", "locks", "-publish"];
    redis.ask(&forbid).unwrap();
    let told = one.release(&held).await;
    // From inside a script it is not known how far it came; here it came nowhere.
    assert!(
        told.as_ref().is_err_and(Error::is_unknown),
        "the release was {told:?}"
    );
    let other = backend(&url(&redis, "redisson")).await.unwrap();
    let told = other.renew(&[held]).await.unwrap();
    assert!(matches!(told[0], Standing::Holds { .. }), "{told:?}");
}
