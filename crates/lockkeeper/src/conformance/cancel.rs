//! Cancelling: a call that is dropped, at whichever of its awaits, leaves nothing behind.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::stage::{PATIENCE, Stage, acquires, gives_back};
use super::wrappers::Fate;
use crate::{Error, Lock};

/// Much longer than a law takes: what is freed sooner was freed by clean-up, not by its end.
const LEASE: Duration = Duration::from_secs(60);

/// Polls a future so many times, whenever it asks for it, and drops it if it is not ready by then.
async fn polled<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = times;
    let some_polls = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    // Whoever waits in line is not polled until something happens.
    timeout(Duration::from_millis(40), some_polls)
        .await
        .unwrap_or_default()
}

/// Cancels what `call` makes after each number of polls until it completes once.
async fn cancelled_at_every_poll<F>(stage: &Stage, call: impl Fn(usize) -> F)
where
    F: Future<Output = bool>,
{
    for times in 0..50 {
        let completed = call(times).await;
        stage.assert_all_given_back().await;
        if completed && times > 0 {
            return;
        }
        if times > 10 {
            // After an unknown outcome the keeper may still be clearing up, and answer *busy* till then.
            sleep(Duration::from_millis(100)).await;
        }
    }
    panic!("it never completes");
}

// proves: L9
// bug 8, bug 52, bug 62, bug 63, bug 66, bug 87
pub(super) async fn acquiring_at_every_await(stage: &Stage) {
    for delay in [Duration::ZERO, Duration::from_millis(2)] {
        let (keeper, faulty) = stage.faulty_keeper().await;
        faulty.all(Fate::Slow(delay), move |_| !delay.is_zero());
        let lock = || keeper.lock("a").lease(LEASE);
        cancelled_at_every_poll(stage, |times| {
            let lock = lock();
            async move { completes(polled(lock.acquire(), times).await).await }
        })
        .await;
        cancelled_at_every_poll(stage, |times| {
            let lock = lock();
            async move {
                let tried = polled(lock.try_acquire(), times).await;
                completes(tried.and_then(Result::transpose)).await
            }
        })
        .await;
        let other = stage.keeper().await;
        gives_back(acquires(other.lock("a").lease(LEASE)).await).await;
    }
}

async fn completes(outcome: Option<Result<crate::Guard, Error>>) -> bool {
    match outcome {
        Some(Ok(guard)) => {
            guard.check().expect("never a guard without the lock");
            gives_back(guard).await;
            true
        }
        Some(Err(error)) => {
            assert!(error.is_unknown(), "{error}");
            false
        }
        None => false,
    }
}

// proves: L9, L11
// bug 8, bug 51, bug 63, bug 87
pub(super) async fn waiting_at_every_await(stage: &Stage) {
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    for times in 0..6 {
        let guard = acquires(other.lock("a").lease(LEASE)).await;
        let dropped = polled(keeper.lock("a").lease(LEASE).acquire(), times).await;
        assert!(dropped.is_none(), "two holders");
        let name = guard.name().clone();
        let limit = stage.clock.now() + PATIENCE;
        while !stage.view(&name).await.expect("held").waiters.is_empty() {
            assert!(stage.clock.now() < limit, "it still stands in line");
            sleep(Duration::from_millis(5)).await;
        }
        guard.check().expect("untouched");
        gives_back(guard).await;
        stage.assert_all_given_back().await;
    }
}

// proves: L9
// bug 8, bug 63
pub(super) async fn at_any_moment_of_a_slow_exchange(stage: &Stage) {
    let (keeper, faulty) = stage.faulty_keeper().await;
    faulty.all(Fate::Slow(Duration::from_millis(4)), |_| true);
    for micros in (0..12_000).step_by(600) {
        let lock: Lock = keeper.lock("a").lease(LEASE);
        let moment = Duration::from_micros(micros);
        if let Ok(outcome) = timeout(moment, lock.acquire()).await {
            completes(Some(outcome)).await;
        }
        stage.assert_all_given_back().await;
    }
}

// proves: L9
pub(super) async fn releasing_goes_on_without_its_caller(stage: &Stage) {
    let (keeper, faulty) = stage.faulty_keeper().await;
    faulty.all(Fate::Slow(Duration::from_millis(2)), |_| true);
    for times in 0..4 {
        let guard = acquires(keeper.lock("a").lease(LEASE)).await;
        drop(polled(guard.release(), times).await);
        stage.assert_all_given_back().await;
    }
}

// proves: L9, L11
// bug 57
pub(super) async fn an_acquire_that_is_not_polled_blocks_for_one_lease_only(stage: &Stage) {
    let lease = stage.lease();
    let (idle, other) = (stage.keeper().await, stage.keeper().await);
    let guard = acquires(other.lock("a")).await;
    let mut sleeping = pin!(idle.lock("a").acquire());
    let first = poll_fn(|cx| Poll::Ready(sleeping.as_mut().poll(cx))).await;
    assert!(first.is_pending(), "two holders");
    sleep(lease / 2).await;
    gives_back(guard).await;
    // It is granted to the sleeper, who does not take it.
    let start = stage.clock.now();
    let guard = acquires(other.lock("a")).await;
    let waited = stage.clock.now() - start;
    assert!(waited < 3 * lease + Duration::from_secs(1), "{waited:?}");
    gives_back(guard).await;
    // And when it wakes up, it gets a hold of its own or none, never a dead one.
    let woken = timeout(PATIENCE, sleeping).await.expect("it is its turn");
    assert!(completes(Some(woken)).await);
}

// proves: L9
// bug 62, bug 77
pub(super) async fn a_timeout_beside_a_grant_is_one_of_both(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    for round in 0..20 {
        let guard = acquires(one.lock("a").lease(LEASE)).await;
        let patience = Duration::from_millis(10);
        let waiting = tokio::spawn(two.lock("a").lease(LEASE).acquire_within(patience));
        // The release comes just before, at, or just after the end of the waiter's patience.
        sleep(Duration::from_micros(9_000 + 100 * round)).await;
        gives_back(guard).await;
        match waiting.await.expect("no panic") {
            Ok(guard) => {
                guard.check().expect("never a guard without the lock");
                gives_back(guard).await;
            }
            // Which of the two depends on whether the engine had answered by then.
            Err(Error::Timeout { .. } | Error::Unreachable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        stage.assert_all_given_back().await;
    }
}

// bug 66
pub(super) async fn answers_belong_to_their_questions(stage: &Stage) {
    let keeper = stage.keeper().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..100_u64 {
        let lock = keeper.lock(format!("mixed/{}", number % 10)).lease(LEASE);
        let moment = Duration::from_micros(super::wrappers::mix(number) % 3_000);
        tasks.spawn(async move { drop(timeout(moment, lock.acquire()).await) });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    stage.assert_all_given_back().await;
    for number in 0..10 {
        let name = format!("mixed/{number}");
        let guard = acquires(keeper.lock(&name).lease(LEASE)).await;
        assert_eq!(guard.name().as_str(), name);
        let view = stage.view(guard.name()).await.expect("held");
        assert_eq!(view.holders[0].token.order(), guard.token().order());
        gives_back(guard).await;
    }
    stage.assert_all_given_back().await;
}
