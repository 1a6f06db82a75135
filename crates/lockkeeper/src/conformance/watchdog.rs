//! The watchdog: it renews, it repeats, it reports a loss no later than the local deadline, and it
//! stops when it must.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::stage::{PATIENCE, Stage, acquires, gives_back, tries};
use super::wrappers::{Call, Fate, Faulty, Verb};
use crate::backend::Query;
use crate::guarantees::DeadAfter;
use crate::{Error, Guard, HoldState, Keeper, LostReason, Moment};

/// What a busy machine may add to a deadline; three tries are had.
const LATE: Duration = Duration::from_millis(100);

// proves: W1
// bug 3, bug 4, bug 9
pub(super) async fn a_guard_is_kept_beyond_its_lease(stage: &Stage) {
    let lease = stage.lease();
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    // Released and taken again at once: the second hold is kept as well.
    gives_back(acquires(one.lock("a")).await).await;
    let guard = acquires(one.lock("a")).await;
    let token = guard.token();
    for _ in 0..6 {
        sleep(lease * 2 / 3).await;
        guard.check().expect("renewed in time");
        assert!(tries(two.lock("a")).await.is_none(), "two holders");
    }
    assert_eq!(guard.token(), token);
    gives_back(guard).await;
    stage.assert_all_given_back().await;
}

// proves: L7, L16, L8
pub(super) async fn a_fixed_guard_ends_with_its_lease(stage: &Stage) {
    let lease = stage.lease();
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let sent = stage.clock.now();
    let guard = Arc::new(acquires(one.lock("a").fixed()).await);
    let waiting = tokio::spawn(successor(two, guard.clone()));
    timeout(PATIENCE, guard.lost()).await.expect("reported");
    assert!(stage.clock.now() - sent >= lease * 8 / 10, "lost too early");
    assert!(matches!(guard.state(), HoldState::Lost(_)));
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(matches!(guard.check(), Err(Error::Lost { .. })));
    let next = waiting.await.expect("the next one gets it");
    assert!(next.token() > guard.token());
    let guard = Arc::into_inner(guard).expect("the successor is done with it");
    let told = guard.release().await;
    assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    next.check().expect("a late release does not touch it");
    gives_back(next).await;
}

/// Acquires after somebody whose hold ends by itself, who must know by then that it is over.
async fn successor(keeper: Keeper, before: Arc<Guard>) -> Guard {
    let guard = acquires(keeper.lock(before.name().as_str())).await;
    let told = before.check();
    assert!(
        matches!(told, Err(Error::Lost { .. })),
        "two believe to hold"
    );
    guard
}

// proves: L7, W2
// bug 3
pub(super) async fn a_silent_engine_means_lost_by_the_local_deadline(stage: &Stage) {
    // Repeated renewals, which fail at once, come close to the deadline; hanging ones do not.
    for fate in [Fate::Hangs, Fate::RequestLost] {
        let mut late = lost_in_silence(stage, fate).await;
        for _ in 0..2 {
            if late > LATE {
                late = lost_in_silence(stage, fate).await;
            }
        }
        assert!(
            late <= LATE,
            "{fate:?}: reported {late:?} after the deadline"
        );
    }
}

// proves: F6
pub(super) async fn a_lock_delay_holds_back_what_was_lost(stage: &Stage) {
    let (keeper, faulty) = stage.faulty_keeper().await;
    let name = stage.name();
    let next = stage.contender(&name).await;
    let promise = next.backend.guarantees();
    let delay = promise.believed(2 * stage.lease()) / 2;
    let lock = || keeper.lock(name.as_str()).lock_delay(delay);
    if promise.dead_after == DeadAfter::ProcessEnd {
        let refused = lock().try_acquire().await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
        return;
    }
    let refused = lock().lock_delay(promise.longest_lease).try_acquire().await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    // Given back: free at once, long before its lease and the delay.
    gives_back(acquires(lock()).await).await;
    next.takes().await;
    next.leaves().await;
    let guard = acquires(lock()).await;
    let good_for = promise.believed(stage.lease() + delay) - delay;
    assert!(
        guard.remaining() <= good_for,
        "the delay is not the holder's"
    );
    faulty.all(Fate::RequestLost, |_| true);
    sleep(Duration::from_millis(5)).await;
    let until = stage.clock.now() + guard.remaining() + delay;
    timeout(PATIENCE, guard.lost()).await.expect("reported");
    // The way is free again, and yet nothing may take the claim out.
    faulty.all(Fate::Works, |_| true);
    guard.release().await.expect_err("it is lost");
    let next = next.sibling();
    next.obtains().await;
    let now = stage.clock.now();
    assert!(now >= until, "{:?} too early", until - now);
    next.leaves().await;
}

/// Cuts the holder off; gives how long after its deadline the loss was reported.
async fn lost_in_silence(stage: &Stage, fate: Fate) -> Duration {
    let (keeper, faulty) = stage.faulty_keeper().await;
    let other = stage.keeper().await;
    let name = stage.name();
    let guard = Arc::new(acquires(keeper.lock(name.as_str())).await);
    faulty.all(fate, |_| true);
    // A renewal that was under way may still have been answered.
    sleep(Duration::from_millis(5)).await;
    let deadline = stage.clock.now() + guard.remaining();
    let next = tokio::spawn(successor(other, guard.clone()));
    let reason = timeout(PATIENCE, guard.lost()).await.expect("reported");
    let lost = stage.clock.now();
    assert_eq!(reason, LostReason::Expired);
    let next = next.await.expect("the next one gets it");
    gives_back(next).await;
    lost - deadline
}

// proves: W2
pub(super) async fn a_failing_renewal_is_a_risk_first(stage: &Stage) {
    let (keeper, faulty) = stage.faulty_keeper().await;
    let guard = acquires(keeper.lock("a")).await;
    faulty.all(Fate::RequestLost, |verb| verb == Verb::Renew);
    let state = timeout(PATIENCE, guard.changed_from(&HoldState::Held)).await;
    assert_eq!(state.expect("it changes"), HoldState::AtRisk);
    guard.check().expect("at risk is not lost");
    faulty.all(Fate::Works, |_| true);
    let state = timeout(PATIENCE, guard.changed_from(&HoldState::AtRisk)).await;
    assert_eq!(state.expect("it changes"), HoldState::Held);
    gives_back(guard).await;
}

// proves: W2
// bug 7
pub(super) async fn a_renewal_that_failed_is_repeated(stage: &Stage) {
    let lease = stage.lease();
    for fate in [Fate::RequestLost, Fate::ReplyLost] {
        let (keeper, faulty) = stage.faulty_keeper().await;
        let guard = acquires(keeper.lock("a")).await;
        let calls = faulty.calls().len() as u64;
        // Two in a row fail, again and again.
        faulty.replan(move |verb, call| match verb {
            Verb::Renew if (call - calls) % 6 < 2 => fate,
            _ => Fate::Works,
        });
        sleep(3 * lease).await;
        guard.check().expect("repeated in time");
        gives_back(guard).await;
        stage.assert_all_given_back().await;
    }
}

// proves: W2, L8
// bug 47, bug 71
pub(super) async fn a_broken_hold_is_reported_and_never_renewed(stage: &Stage) {
    let lease = stage.lease();
    let (keeper, faulty) = stage.faulty_keeper().await;
    let operator = stage.keeper().await;
    let guard = acquires(keeper.lock("a")).await;
    let (name, token) = (guard.name().clone(), guard.token());
    while let Err(error) = operator.evict(&name, token, "a law breaks it").await {
        assert!(error.is_unknown(), "{error}");
    }
    let reason = timeout(lease + PATIENCE, guard.lost()).await;
    assert_eq!(reason.expect("reported"), LostReason::Gone);
    let told = guard.release().await;
    assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    // The same process takes it again, and that hold is kept.
    let again = acquires(keeper.lock("a")).await;
    assert!(again.token() > token, "the token rises");
    let lost = broken(&faulty.calls());
    sleep(3 * lease).await;
    again.check().expect("kept");
    let calls = faulty.calls();
    let revived = |call: &Call| call.verb == Verb::Renew && call.claims.contains(&lost);
    let after = calls.iter().skip_while(|call| call.verb != Verb::Release);
    assert_eq!(after.filter(|call| revived(call)).count(), 0);
    gives_back(again).await;
    stage.assert_all_given_back().await;
}

// proves: F1, W2
pub(super) async fn a_renewal_under_another_number_is_a_loss(stage: &Stage) {
    let (keeper, faulty) = stage.faulty_keeper().await;
    let guard = acquires(keeper.lock("a")).await;
    faulty.renumber(1);
    let reason = timeout(PATIENCE, guard.lost()).await;
    assert_eq!(reason.expect("reported"), LostReason::Renumbered);
    // Also when the engine reports the right number again.
    faulty.renumber(0);
    sleep(stage.lease()).await;
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Renumbered));
    let told = guard.release().await;
    assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    gives_back(acquires(keeper.lock("a")).await).await;
    stage.assert_all_given_back().await;
}

/// The claim that entered first.
fn broken(calls: &[Call]) -> crate::claim::ClaimId {
    let entered = calls.iter().find(|call| call.verb == Verb::Enter);
    entered.expect("it entered").claims[0]
}

// proves: W1
// bug 1, bug 8, bug 12
pub(super) async fn no_renewal_follows_a_release(stage: &Stage) {
    let lease = stage.lease();
    let (keeper, faulty) = stage.faulty_keeper().await;
    for round in 0..20 {
        let guard = acquires(keeper.lock("a")).await;
        if round % 4 == 0 {
            // Release while a renewal is about to start or under way.
            sleep(lease / 3).await;
        }
        match round % 2 {
            0 => gives_back(guard).await,
            _ => drop(guard),
        }
    }
    sleep(lease).await;
    assert_none_renewed_after_release(&faulty);
    stage.assert_all_given_back().await;
    assert_eq!(
        keeper.load().claims,
        0,
        "the watchdog still looks after some"
    );
}

fn assert_none_renewed_after_release(faulty: &Arc<Faulty>) {
    let mut released = Vec::new();
    for call in faulty.calls() {
        match call.verb {
            Verb::Release => released.extend(call.claims),
            Verb::Renew => {
                let revived = call.claims.iter().any(|id| released.contains(id));
                assert!(!revived, "renewed after its release");
            }
            _ => {}
        }
    }
}

// proves: W3
pub(super) async fn renewals_go_in_batches(stage: &Stage) {
    const GUARDS: usize = 40;
    let lease = stage.lease();
    let (keeper, faulty) = stage.faulty_keeper().await;
    let mut guards = Vec::new();
    for number in 0..GUARDS {
        guards.push(acquires(keeper.lock(format!("many/{number}"))).await);
    }
    let before = renewals(&faulty);
    sleep(3 * lease).await;
    for guard in &guards {
        guard.check().expect("kept");
    }
    let sent = renewals(&faulty) - before;
    assert!(sent < 4 * GUARDS, "{sent} renewals for {GUARDS} guards");
    let calls = faulty.calls();
    let largest = calls.iter().map(|call| call.claims.len()).max();
    assert!(largest > Some(GUARDS / 4), "the largest batch: {largest:?}");
    for guard in guards {
        gives_back(guard).await;
    }
    stage.assert_all_given_back().await;
}

fn renewals(faulty: &Faulty) -> usize {
    let calls = faulty.calls();
    calls.iter().filter(|call| call.verb == Verb::Renew).count()
}

// proves: W4, L3
// bug 2, bug 85
pub(super) async fn a_guard_that_is_dropped_is_given_back(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let long = Duration::from_secs(60);
    for panics in [false, true] {
        let guard = acquires(one.lock("a").lease(long)).await;
        let task = tokio::spawn(async move {
            let start = crate::Clock::system().now();
            if panics {
                let _guard = guard;
                std::panic::resume_unwind(Box::new("the owner panics"));
            }
            drop(guard);
            crate::Clock::system().now() - start
        });
        if let Ok(took) = task.await {
            assert!(
                took < Duration::from_millis(100),
                "dropping blocked: {took:?}"
            );
        }
        gives_back(acquires(two.lock("a")).await).await;
    }
    stage.assert_all_given_back().await;
}

// proves: W4
// bug 86
pub(super) async fn closing_tells_waiters_and_guards(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let guard = acquires(one.lock("a")).await;
    let waiting = tokio::spawn(two.lock("a").acquire());
    let query = Query::One(guard.name().clone());
    let limit = stage.clock.now() + PATIENCE;
    loop {
        let views = one.inspect(&query).await.unwrap_or_default();
        if views.first().is_some_and(|view| !view.waiters.is_empty()) {
            break;
        }
        assert!(stage.clock.now() < limit, "it never stood in line");
        sleep(Duration::from_millis(5)).await;
    }
    let closing = two.close().await;
    assert!(closing.not_released.is_empty(), "{closing:?}");
    let told = waiting.await.expect("no panic");
    assert!(matches!(told, Err(Error::Closed)), "{told:?}");
    let told = two.lock("b").try_acquire().await;
    assert!(matches!(told, Err(Error::Closed)), "{told:?}");
    guard.check().expect("another keeper's");

    let closing = one.close().await;
    assert_eq!(closing.not_released.len(), 1, "the guard still lives");
    assert_eq!(&closing.not_released[0].name, guard.name());
    assert_eq!(guard.lost().await, LostReason::Closed);
    // Its claim is left to its lease, since its work may still run.
    let asked: Moment = stage.clock.now();
    stage.assert_swept().await;
    assert!(stage.clock.now() - asked < stage.lease() + PATIENCE);
}
