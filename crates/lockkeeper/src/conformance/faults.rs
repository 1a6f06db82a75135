//! A network that loses questions and answers, hangs, and comes back.

use std::time::Duration;

use tokio::time::sleep;

use super::stage::{PATIENCE, Stage, acquires, gives_back, tries};
use super::wrappers::{Fate, Lesser, Verb};
use crate::{Error, Keeper};

/// What a requirement allows a call to overrun its time by.
const LATE: Duration = Duration::from_millis(100);

// proves: L5
// bug 18, bug 22, bug 58, bug 64, bug 65
pub(super) async fn the_nth_call_fails_and_nothing_is_lost_or_left(stage: &Stage) {
    let fates = [
        Fate::ReplyLost,
        Fate::RequestLost,
        Fate::AppliedTwice,
        Fate::ReplyHangs,
    ];
    let other = stage.keeper().await;
    for fate in fates {
        for nth in 0..4 {
            let (keeper, faulty) = stage.faulty_keeper().await;
            faulty.replan(move |_, call| if call == nth { fate } else { Fate::Works });
            let guard = acquires(keeper.lock("a")).await;
            guard.check().expect("held");
            assert!(tries(other.lock("a")).await.is_none(), "two holders");
            gives_back(guard).await;
            gives_back(acquires(other.lock("a")).await).await;
            gives_back(acquires(keeper.lock("a")).await).await;
            stage.assert_all_given_back().await;
        }
    }
}

// proves: L5, L9
// bug 58
pub(super) async fn a_waiter_whose_answers_are_lost_keeps_its_place(stage: &Stage) {
    let (one, last) = (stage.keeper().await, stage.keeper().await);
    let (keeper, faulty) = stage.faulty_keeper().await;
    faulty.replan(|_, call| match call % 2 {
        0 => Fate::ReplyLost,
        _ => Fate::Works,
    });
    let guard = acquires(one.lock("a")).await;
    let name = guard.name().clone();
    let second = tokio::spawn(acquires(keeper.lock("a")));
    wait_for_waiters(stage, &name, 1).await;
    let third = tokio::spawn(acquires(last.lock("a")));
    wait_for_waiters(stage, &name, 2).await;
    gives_back(guard).await;
    let second = second.await.expect("granted");
    if stage.is_fair().await {
        assert!(!third.is_finished(), "it was overtaken");
    }
    let token = second.token();
    gives_back(second).await;
    let third = third.await.expect("granted");
    assert!(!stage.is_fair().await || third.token() > token);
    gives_back(third).await;
    stage.assert_all_given_back().await;
}

async fn wait_for_waiters(stage: &Stage, name: &crate::Name, count: usize) {
    let limit = stage.clock.now() + PATIENCE;
    while stage.view(name).await.expect("held").waiters.len() < count {
        assert!(stage.clock.now() < limit, "it never stood in line");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The least overrun of three runs: a busy machine may be late once, a broken wait is late each time.
async fn overrun<F>(stage: &Stage, allowed: Duration, call: impl Fn() -> F) -> Duration
where
    F: Future<Output = ()>,
{
    let mut least = Duration::MAX;
    for _ in 0..3 {
        let start = stage.clock.now();
        call().await;
        let took = stage.clock.now() - start;
        least = least.min(took.saturating_sub(allowed));
        if least <= LATE {
            break;
        }
    }
    least
}

// proves: L9
// bug 36, bug 41
pub(super) async fn an_engine_that_hangs_ends_no_call_late(stage: &Stage) {
    let lease = stage.lease();
    let (keeper, faulty) = stage.faulty_keeper().await;
    let held = acquires(keeper.lock("held").lease(3 * lease)).await;
    faulty.all(Fate::Hangs, |_| true);
    let patience = Duration::from_millis(150);
    let late = overrun(stage, patience, || async {
        let told = keeper.lock("a").acquire_within(patience).await;
        assert!(matches!(
            told,
            Err(Error::Timeout { .. } | Error::Unreachable { .. })
        ));
    })
    .await;
    assert!(late <= LATE, "a bounded wait ended {late:?} late");
    // Trying and releasing take as long as one call may: a third of the lease.
    let late = overrun(stage, lease / 3, || async {
        // A name of its own: the claim of the try before may still be on its way back.
        let told = keeper.lock(stage.name().as_str()).try_acquire().await;
        assert!(matches!(told, Err(Error::Unreachable { .. })), "{told:?}");
    })
    .await;
    assert!(late <= LATE, "a try ended {late:?} late");
    let start = stage.clock.now();
    let told = held.release().await;
    assert!(told.is_err(), "nobody could have said so");
    let took = stage.clock.now() - start;
    assert!(took < lease + Duration::from_secs(1), "{took:?}");
    faulty.all(Fate::Works, |_| true);
}

// proves: W5
// bug 39, bug 41
pub(super) async fn an_engine_that_comes_back_is_used_again(stage: &Stage) {
    let lease = stage.lease();
    for fate in [Fate::Hangs, Fate::RequestLost] {
        let (keeper, faulty) = stage.faulty_keeper().await;
        let other = stage.keeper().await;
        let guard = acquires(other.lock("a")).await;
        let lock = keeper.lock("a").lease(10 * lease);
        let waiting = tokio::spawn(acquires(lock));
        wait_for_waiters(stage, guard.name(), 1).await;
        faulty.all(fate, |_| true);
        sleep(lease).await;
        faulty.all(Fate::Works, |_| true);
        gives_back(guard).await;
        gives_back(waiting.await.expect("granted")).await;
        stage.assert_all_given_back().await;
    }
}

// proves: W5
// bug 37
pub(super) async fn a_lost_push_costs_bounded_time(stage: &Stage) {
    let lease = stage.lease();
    let one = stage.keeper().await;
    let deaf: Keeper = stage.keeper_on(Lesser::deaf(stage.backend().await));
    let guard = acquires(one.lock("a").lease(10 * lease)).await;
    let name = guard.name().clone();
    let waiting = tokio::spawn(acquires(deaf.lock("a")));
    wait_for_waiters(stage, &name, 1).await;
    gives_back(guard).await;
    let start = stage.clock.now();
    let guard = waiting.await.expect("granted");
    let took = stage.clock.now() - start;
    assert!(took < lease + Duration::from_secs(1), "{took:?}");
    gives_back(guard).await;
    stage.assert_all_given_back().await;
}

// proves: W5
// bug 42
pub(super) async fn waiting_asks_seldom(stage: &Stage) {
    let lease = stage.lease();
    let (keeper, faulty) = stage.faulty_keeper().await;
    let other = stage.keeper().await;
    let guard = acquires(other.lock("a")).await;
    let name = guard.name().clone();
    let lock = keeper.lock("a").lease(3 * lease);
    let waiting = tokio::spawn(lock.acquire_within(6 * lease + PATIENCE));
    wait_for_waiters(stage, &name, 1).await;
    let before = faulty.calls().len();
    sleep(6 * lease).await;
    let calls = faulty.calls();
    let asked = calls[before..]
        .iter()
        .filter(|call| call.verb == Verb::Renew);
    let asked = asked.count();
    // The holder's lease is renewed each third of it; looking again when it would end is enough.
    assert!(asked <= 40, "{asked} questions in six leases");
    assert!(asked >= 3, "a waiter that does not renew is dropped");
    gives_back(guard).await;
    let granted = waiting.await.expect("no panic").expect("granted");
    gives_back(granted).await;
}

// proves: L8, L3
// bug 17, bug 60
pub(super) async fn a_release_that_got_no_answer_is_repeated(stage: &Stage) {
    let other = stage.keeper().await;
    let long = Duration::from_secs(60);
    for fate in [Fate::RequestLost, Fate::ReplyLost] {
        let (keeper, faulty) = stage.faulty_keeper().await;
        let guard = acquires(keeper.lock("a").lease(long)).await;
        let calls = faulty.calls().len() as u64;
        faulty.replan(move |verb, call| match verb {
            Verb::Release if call < calls + 2 => fate,
            _ => Fate::Works,
        });
        gives_back(guard).await;
        // Long before the lease has ended.
        gives_back(acquires(other.lock("a")).await).await;
        stage.assert_all_given_back().await;
    }
}
