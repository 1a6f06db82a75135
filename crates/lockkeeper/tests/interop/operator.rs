//! What an operator sees of other clients, and can do about them; and keys that are no locks at all.

use lockkeeper::backend::{LockView, Query, Released};
use lockkeeper::{Error, Keeper, Name, Token};
use lockkeeper_testbed::Redis;

use crate::stage::{LOCK, LONG, REDIS_PY, REDISSON, Stage, keeper, takes, url};

pub(crate) async fn look(keeper: &Keeper) -> LockView {
    let name: Name = LOCK.parse().unwrap();
    keeper.inspect(&Query::One(name)).await.unwrap().remove(0)
}

async fn another_client_is_seen_and_can_be_broken(mut stage: Stage) {
    let keeper = stage.keeper().await;
    stage.foreign.takes();
    let view = look(&keeper).await;
    let [holder] = &view.holders[..] else {
        panic!("one holds: {view:?}");
    };
    assert_eq!(holder.party.label, "another client");
    assert!(holder.lease_left > LONG / 2 && holder.lease_left <= LONG);
    assert!(view.waiters.is_empty());

    let waiting = keeper.clone();
    let waiting = tokio::spawn(async move { takes(&waiting).await });
    while look(&keeper).await.waiters.is_empty() {
        tokio::task::yield_now().await;
    }
    let name = &view.name;
    let wrong = Token::new(holder.token.order() + 1, 0).unwrap();
    let told = keeper.evict(name, wrong, "not this one").await.unwrap();
    assert_eq!(told, Released::Gone);
    let told = keeper.evict(name, holder.token, "it hangs").await.unwrap();
    assert_eq!(told, Released::Freed);

    let guard = waiting.await.unwrap();
    assert!(guard.token() > holder.token);
    assert!(!stage.foreign.frees(), "it had been broken");
    guard.check().unwrap();
    let view = look(&keeper).await;
    assert_eq!(view.holders[0].party.label, "interop");
    guard.release().await.unwrap();
}

// proves: U3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_is_seen_and_can_be_broken() {
    if let Some(stage) = Stage::with(&REDIS_PY) {
        another_client_is_seen_and_can_be_broken(stage).await;
    }
}

// proves: U3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redisson_is_seen_and_can_be_broken() {
    if let Some(stage) = Stage::with(&REDISSON) {
        another_client_is_seen_and_can_be_broken(stage).await;
    }
}

/// Somebody's data under the lock's name: a clear refusal, and the data stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_no_lock_is_left_alone() {
    let redis = Redis::start().unwrap();
    for (dialect, write) in [
        ("simple", ["RPUSH", LOCK, "x"]),
        ("redisson", ["SADD", LOCK, "x"]),
    ] {
        redis.ask(&["DEL", LOCK]).unwrap();
        redis.ask(&write).unwrap();
        let keeper = keeper(&url(&redis, dialect)).await;
        let told = keeper.lock(LOCK).try_acquire().await;
        let Err(Error::Invalid { what }) = told else {
            panic!("{dialect}: {told:?}");
        };
        assert!(what.contains("in use for something else"), "{what}");
        let exists = redis.ask(&["EXISTS", LOCK]).unwrap().text();
        assert_eq!(exists, "1", "{dialect}");
        let line = redis.ask(&["KEYS", "lockkeeper.dialect:*"]).unwrap();
        assert_eq!(line.text(), "", "{dialect}: something was left");
    }
}

/// What is noted of a broken claim is bounded, in length and in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reason_is_cut_and_ends() {
    let redis = Redis::start().unwrap();
    let keeper = keeper(&url(&redis, "simple")).await;
    let guard = takes(&keeper).await;
    let why = "é".repeat(100_000);
    let name: Name = LOCK.parse().unwrap();
    let told = keeper.evict(&name, guard.token(), &why).await.unwrap();
    assert_eq!(told, Released::Freed);
    let noted = ["LINDEX", "lockkeeper.dialect:broken", "0"];
    let noted = redis.ask(&noted).unwrap().text();
    assert!(noted.contains(LOCK) && noted.contains("éé"), "{noted}");
    assert!(noted.len() < 1200, "{} bytes are kept", noted.len());
    let left = redis.ask(&["PTTL", "lockkeeper.dialect:broken"]).unwrap();
    let left: i64 = left.text().parse().unwrap();
    assert!(left > 0, "it is kept for ever");
}
