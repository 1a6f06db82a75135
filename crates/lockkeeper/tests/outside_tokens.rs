//! Tokens from another engine: locks on a Redis that forgets, numbers from an etcd that does not.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Query, Released};
use lockkeeper::{Error, Keeper, Name, Validity};
use lockkeeper_testbed::{Etcd, Redis, Setup};

const LEASE: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_secs(15);

async fn keeper(url: &str) -> Keeper {
    let builder = Keeper::builder().label("test").lease(LEASE);
    builder.connect(url).await.expect("both engines answer")
}

fn with_tokens(redis: &Redis, etcd: &Etcd) -> String {
    format!("{}?tokens=etcd://{}", redis.url(), etcd.address())
}

/// Takes the lock, empties the server, sets its clock back by an hour, and takes the lock again.
async fn tokens_around_a_loss(keeper: &Keeper, redis: &Redis) -> [u64; 2] {
    let before = keeper.lock("n").acquire_within(SOON).await.unwrap();
    let token = before.token().get();
    redis
        .server()
        .clock()
        .unwrap()
        .back(Duration::from_secs(3600))
        .unwrap();
    redis.ask(&["FLUSHALL"]).unwrap();
    drop(before);
    let after = keeper.lock("n").acquire_within(SOON).await.unwrap();
    [token, after.token().get()]
}

// proves: F1, F5
#[tokio::test]
async fn they_rise_where_the_engines_own_fall() {
    let setup = Setup::new().movable_clock();
    let etcd = Etcd::start().unwrap();
    let naive = Redis::start_with(&setup).unwrap();
    let [first, second] = tokens_around_a_loss(&keeper(&naive.url()).await, &naive).await;
    assert!(second < first, "the harm is not there: {first}, {second}");
    let redis = Redis::start_with(&setup).unwrap();
    let numbered = keeper(&with_tokens(&redis, &etcd)).await;
    let [first, second] = tokens_around_a_loss(&numbered, &redis).await;
    assert!(second > first, "{second} after {first}");
    let promise = numbered.guarantees();
    assert!(promise.token.contains("etcd"), "{}", promise.token);
}

// proves: F5
#[tokio::test]
async fn what_is_shown_checked_and_broken_goes_by_them() {
    let (redis, etcd) = (Redis::start().unwrap(), Etcd::start().unwrap());
    let url = with_tokens(&redis, &etcd);
    let (one, two) = (keeper(&url).await, keeper(&url).await);
    let name = Name::new("n").unwrap();
    let guard = one.lock("n").acquire_within(SOON).await.unwrap();
    let sequencer = guard.sequencer();
    for query in [Query::One(name.clone()), Query::All] {
        let views = two.inspect(&query).await.unwrap();
        assert_eq!(views.len(), 1, "{views:?}");
        assert_eq!(views[0].holders[0].token.order(), guard.token().order());
    }
    assert_eq!(two.check(&sequencer).await.unwrap(), Validity::Valid);
    let broken = two.evict(&name, guard.token(), "a test breaks it").await;
    assert_eq!(broken.unwrap(), Released::Freed);
    let next = two.lock("n").acquire_within(SOON).await.unwrap();
    assert!(next.token() > guard.token());
    tokio::time::timeout(SOON, guard.lost())
        .await
        .expect("the break is told");
    assert_eq!(two.check(&next.sequencer()).await.unwrap(), Validity::Valid);
    next.release().await.unwrap();
    let gone = Instant::now() + SOON;
    while two.check(&sequencer).await.unwrap() == Validity::Valid {
        assert!(Instant::now() < gone, "the number outlives its hold");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// proves: F1
#[tokio::test]
async fn one_hold_has_one_number_and_its_steps_rise() {
    let (redis, etcd) = (Redis::start().unwrap(), Etcd::start().unwrap());
    let keeper = keeper(&with_tokens(&redis, &etcd)).await;
    let owner = keeper.owner();
    let outer = keeper.lock("n").owner(&owner).acquire().await.unwrap();
    let inner = keeper.lock("n").owner(&owner).acquire().await.unwrap();
    assert_eq!(outer.token(), inner.token(), "entered again");
    drop((inner, outer));
    let mut last = None;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(tokio::spawn(keeper.lock("n").acquire_within(SOON)));
    }
    for task in tasks {
        let guard = task.await.unwrap().unwrap();
        let token = guard.token();
        assert!(
            last.is_none_or(|last| token > last),
            "{token} after {last:?}"
        );
        last = Some(token);
        guard.release().await.unwrap();
    }
    let closing = keeper.close().await;
    assert!(closing.not_released.is_empty(), "{closing:?}");
    let left = etcd.ctl(&["get", "", "--prefix", "--keys-only"]).unwrap();
    assert!(!left.contains("token"), "left behind: {left}");
    assert_eq!(redis.ask(&["KEYS", "lk:*:k:*"]).unwrap().text(), "");
}

// proves: W2
#[tokio::test]
async fn without_a_number_nothing_is_granted() {
    let (redis, etcd) = (Redis::start().unwrap(), Etcd::start().unwrap());
    let keeper = keeper(&with_tokens(&redis, &etcd)).await;
    etcd.server().kill().unwrap();
    let lock = keeper.lock("n").lease(Duration::from_secs(2));
    let error = tokio::time::timeout(SOON, lock.acquire_within(SOON / 2))
        .await
        .expect("told in time")
        .unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let limit = Instant::now() + SOON;
    while !redis.ask(&["KEYS", "lk:*:k:*"]).unwrap().text().is_empty() {
        assert!(Instant::now() < limit, "the claim stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// proves: F5
#[tokio::test]
async fn numbers_that_are_no_better_are_refused() {
    let redis = Redis::start().unwrap();
    let address = redis.address();
    for source in ["memory:", &format!("redis://{address}")] {
        let url = format!("{}?tokens={source}", redis.url());
        let error = Keeper::connect(&url).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }
    let twice = format!("{}?tokens=memory:&tokens=memory:", redis.url());
    let error = Keeper::connect(&twice).await.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
}
