//! Holding through a keeper: trying, waiting, re-entering, and what a guard says about itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use super::stage::{PATIENCE, REPEATS, Stage, acquires, gives_back, tries};
use super::wrappers::{Fate, Verb};
use crate::guarantees::Class;
use crate::{Error, HoldState, Keeper, Lock, Purpose, Validity};

const SHORT: Duration = Duration::from_millis(150);

// proves: L1, L8, F1
pub(super) async fn a_guard_excludes_until_it_is_given_back(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let mut last = None;
    let mut told = 0;
    for _ in 0..4 {
        let guard = acquires(one.lock("a")).await;
        assert!(Some(guard.token()) > last, "the token rises");
        last = Some(guard.token());
        assert_eq!(guard.state(), HoldState::Held);
        assert!(tries(two.lock("a")).await.is_none(), "two holders");
        match guard.release().await {
            Ok(()) => told += 1,
            Err(error) => assert!(error.is_unknown(), "{error}"),
        }
        let guard = acquires(two.lock("a")).await;
        assert!(Some(guard.token()) > last, "the token rises");
        last = Some(guard.token());
        gives_back(guard).await;
    }
    assert!(told > 0, "no release ever told its outcome");
    stage.assert_all_given_back().await;
}

// proves: L9
// bug 40, bug 51
pub(super) async fn a_bounded_wait_ends_in_time_and_names_the_holder(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let guard = acquires(one.lock("a")).await;
    let mut error = None;
    for _ in 0..REPEATS {
        let start = stage.clock.now();
        error = two.lock("a").acquire_within(SHORT).await.err();
        let waited = stage.clock.now() - start;
        assert!(waited >= SHORT, "gave up after {waited:?}");
        assert!(waited < SHORT + PATIENCE / 4, "waited for {waited:?}");
        // Whether the name is busy is known once the engine has answered; it does not always do so in time.
        if !error.as_ref().is_some_and(Error::is_unknown) {
            break;
        }
    }
    match error {
        Some(Error::Timeout { name, holder, .. }) => {
            assert_eq!(&name, guard.name());
            let named = holder.is_none_or(|party| party.label == "conformance");
            assert!(named, "somebody else is named");
        }
        other => panic!("a timeout was expected: {other:?}"),
    }
    // Nothing of the wait stays in line, long before its lease has ended.
    let name = guard.name().clone();
    let limit = stage.clock.now() + PATIENCE;
    while !stage.view(&name).await.expect("held").waiters.is_empty() {
        assert!(stage.clock.now() < limit, "it still stands in line");
        sleep(Duration::from_millis(5)).await;
    }
    gives_back(guard).await;
    stage.assert_all_given_back().await;
}

// proves: L9
pub(super) async fn attempts_are_counted(stage: &Stage) {
    let (one, faulty) = stage.faulty_keeper().await;
    let guard = acquires(stage.keeper().await.lock("a")).await;
    // Attempts whose answer is lost end the call; those that are answered are counted.
    let lock = one.lock("a");
    let error = loop {
        match lock
            .clone()
            .acquire_attempts(3, Duration::from_millis(5))
            .await
        {
            Err(error) if error.is_unknown() => {}
            other => break other.err(),
        }
    };
    assert!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    let entered = |call: &&super::wrappers::Call| call.verb == Verb::Enter;
    assert!(faulty.calls().iter().filter(entered).count() >= 3);
    gives_back(guard).await;
    stage.assert_all_given_back().await;
}

// proves: L9, L11
// bug 40
pub(super) async fn everybody_gets_it_before_their_time_is_up(stage: &Stage) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let keeper = stage.keeper().await;
        tasks.spawn(async move {
            let guard = acquires(keeper.lock("a")).await;
            sleep(Duration::from_millis(30)).await;
            guard.check().expect("held meanwhile");
            gives_back(guard).await;
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("acquired in time");
    }
    stage.assert_all_given_back().await;
}

// proves: L6
// bug 26, bug 49
pub(super) async fn a_long_wait_still_gives_a_whole_lease(stage: &Stage) {
    let lease = stage.lease();
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let guard = acquires(one.lock("a")).await;
    let waiting = tokio::spawn(acquires(two.lock("a")));
    sleep(3 * lease).await;
    guard.check().expect("kept by the watchdog");
    gives_back(guard).await;
    let guard = waiting.await.expect("acquired");
    let left = guard.remaining();
    assert!(left <= lease, "{left:?} are left of {lease:?}");
    assert!(!left.is_zero(), "it came with nothing left");
    guard.check().expect("held");
    gives_back(guard).await;
}

// proves: L6
// bug 26, bug 27
pub(super) async fn the_time_of_asking_counts_against_the_lease(stage: &Stage) {
    let lease = stage.lease();
    let (keeper, faulty) = stage.faulty_keeper().await;
    faulty.all(Fate::Slow(lease / 5), |verb| verb == Verb::Enter);
    let guard = acquires(keeper.lock("a").fixed().min_validity(lease / 10)).await;
    let left = guard.remaining();
    assert!(left <= lease - lease / 5, "{left:?} of {lease:?} are left");
    gives_back(guard).await;
    // With too little left it is no success, and it is given back.
    let whole = keeper.guarantees().believed(lease);
    let picky = keeper.lock("b").fixed().min_validity(whole / 10 * 9);
    let error = picky.acquire_within(lease).await.err();
    let refused = matches!(
        error,
        Some(Error::Timeout { .. } | Error::Unreachable { .. })
    );
    assert!(refused, "{error:?}");
    stage.assert_all_given_back().await;
}

// proves: L1, L10
// bug 16, bug 23
pub(super) async fn guards_of_one_process_exclude_each_other(stage: &Stage) {
    let keeper = stage.keeper().await;
    for fair in [false, true] {
        let lock = || match fair {
            true => keeper.lock("a").fair(),
            false => keeper.lock("a"),
        };
        let guard = acquires(lock()).await;
        assert!(tries(keeper.lock("a")).await.is_none(), "two holders");
        assert!(tries(keeper.clone().lock("a").fair()).await.is_none());
        gives_back(guard).await;
        stage.assert_all_given_back().await;
    }
}

// proves: L1, L9, F1
// bug 50
pub(super) async fn many_tasks_of_many_keepers_never_hold_together(stage: &Stage) {
    let inside = Arc::new(AtomicU64::new(0));
    let highest = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..3 {
        let keeper = stage.keeper().await;
        for task in 0..4 {
            let lock = keeper.lock("a");
            let lock = match (number + task) % 3 {
                0 => lock.fair(),
                _ => lock,
            };
            tasks.spawn(takes_turns(lock, inside.clone(), highest.clone()));
        }
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    stage.assert_all_given_back().await;
}

async fn takes_turns(lock: Lock, inside: Arc<AtomicU64>, highest: Arc<AtomicU64>) {
    for _ in 0..4 {
        let guard = acquires(lock.clone()).await;
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
        let token = guard.token().get();
        let before = highest.fetch_max(token, Ordering::SeqCst);
        assert!(before < token, "token {token} after {before}");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::SeqCst);
        gives_back(guard).await;
    }
}

// proves: L10
// bug 5, bug 21
pub(super) async fn an_owner_enters_again_and_the_last_release_frees(stage: &Stage) {
    let lease = stage.lease();
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let owner = keeper.owner();
    let lock = || keeper.lock("a").owner(&owner).lease(2 * lease);
    let outer = acquires(lock()).await;
    for depth in 1..=3 {
        let mut inner = Vec::new();
        for _ in 0..depth {
            // A shorter lease of an inner entry must not shorten the outer hold.
            inner.push(acquires(lock().lease(lease)).await);
        }
        assert!(inner.iter().all(|guard| guard.token() == outer.token()));
        assert!(tries(keeper.lock("a")).await.is_none(), "others wait");
        for guard in inner {
            guard.release().await.expect("no round trip, no doubt");
        }
    }
    sleep(4 * lease).await;
    outer.check().expect("still renewed");
    assert!(tries(other.lock("a")).await.is_none(), "two holders");
    gives_back(outer).await;
    gives_back(acquires(other.lock("a")).await).await;
    stage.assert_all_given_back().await;
}

// proves: F5
pub(super) async fn a_sequencer_is_valid_exactly_while_it_is_held(stage: &Stage) {
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let mut old = Vec::new();
    for _ in 0..2 {
        let guard = acquires(keeper.lock("a")).await;
        let text = guard.sequencer().to_string();
        let sequencer = text.parse().expect("what it printed");
        assert_eq!(check(&other, &sequencer).await, Validity::Valid);
        for stale in &old {
            assert_eq!(check(&other, stale).await, Validity::Stale);
        }
        gives_back(guard).await;
        stage.assert_all_given_back().await;
        assert_eq!(check(&other, &sequencer).await, Validity::Stale);
        old.push(sequencer);
    }
}

async fn check(keeper: &Keeper, sequencer: &crate::Sequencer) -> Validity {
    loop {
        match keeper.check(sequencer).await {
            Ok(validity) => return validity,
            Err(error) => assert!(error.is_unknown(), "{error}"),
        }
    }
}

// proves: C1
pub(super) async fn correctness_is_refused_where_it_is_not_given(stage: &Stage) {
    let backend = stage.backend().await;
    let class = backend.guarantees().class;
    let correct = Keeper::builder()
        .purpose(Purpose::Correctness)
        .on(backend.clone());
    match correct {
        Err(Error::Refused { why, .. }) => {
            assert_eq!(class, Class::BestEffort, "refused without need");
            assert!(why.contains(&backend.guarantees().class_reason), "{why}");
        }
        Ok(_) => assert!(class > Class::BestEffort, "granted without the means"),
        Err(error) => panic!("{error}"),
    }
}

// proves: L2, L16
// bug 35
pub(super) async fn what_cannot_be_kept_is_refused_before_it_is_asked(stage: &Stage) {
    let (keeper, faulty) = stage.faulty_keeper().await;
    let promised = keeper.guarantees().clone();
    let tick = Duration::from_nanos(1);
    let leases = [
        Duration::ZERO,
        promised.shortest_lease - tick,
        promised.longest_lease + tick,
        Duration::MAX,
    ];
    for lease in leases {
        let error = keeper.lock("a").lease(lease).try_acquire().await.err();
        let invalid = matches!(error, Some(Error::Invalid { .. }));
        assert!(invalid, "a lease of {lease:?}: {error:?}");
    }
    for name in [String::new(), "x".repeat(257)] {
        let error = keeper.lock(name).try_acquire().await.err();
        assert!(matches!(error, Some(Error::Invalid { .. })), "{error:?}");
    }
    for (take, of) in [(0, 3), (4, 3), (1, 0)] {
        let permits = keeper.semaphore("a", of).permits(take);
        let error = permits.try_acquire().await.err();
        assert!(matches!(error, Some(Error::Invalid { .. })), "{error:?}");
    }
    assert_eq!(faulty.calls(), [], "the engine was asked");
}
