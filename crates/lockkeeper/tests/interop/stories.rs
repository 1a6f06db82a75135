//! What must be so between lockkeeper and any client that it shares locks with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use lockkeeper::{Clock, Error, Keeper, LostReason, Moment};

use crate::stage::{Foreign, Holder, LOCK, LONG, PATIENCE, Stage, is_busy, takes};

const SHORT: Duration = Duration::from_millis(400);
/// A lease that is renewed in time even when everything on the machine is late by a second.
const KEPT: Duration = Duration::from_millis(2400);
/// Clients that do not listen come round every 100 ms or so: everybody leaves them a gap.
const GAP: Duration = Duration::from_millis(30);

// proves: L1, W5
pub(crate) async fn it_waits_for_us(mut stage: Stage) {
    let keeper = stage.keeper().await;
    let guard = takes(&keeper).await;
    assert!(!stage.foreign.gets(SHORT, LONG), "two holders");
    stage.foreign.begins_to_wait();
    guard.check().unwrap();
    let released = stage.now();
    guard.release().await.unwrap();
    // Our lease would have gone on for long: it is the release that lets it in.
    stage.foreign.has_got();
    println!("told after {:?}", stage.now() - released);
    assert!(is_busy(&keeper).await, "two holders");
    assert!(stage.foreign.frees());
    assert!(!is_busy(&keeper).await, "nobody holds it any more");
}

// proves: L1, L9, W5
pub(crate) async fn we_wait_for_it(mut stage: Stage) {
    let keeper = stage.keeper().await;
    stage.foreign.takes();
    assert!(is_busy(&keeper).await, "two holders");
    let told = keeper.lock(LOCK).acquire_within(SHORT).await;
    let Err(Error::Timeout { holder, .. }) = told else {
        panic!("two holders: {told:?}");
    };
    assert_eq!(holder.unwrap().label, "another client");
    let waiting = tokio::spawn(async move { takes(&keeper).await });
    tokio::time::sleep(SHORT).await;
    assert!(!waiting.is_finished(), "two holders");
    let released = stage.now();
    assert!(stage.foreign.frees());
    let guard = waiting.await.unwrap();
    println!("told after {:?}", stage.now() - released);
    assert!(!stage.foreign.gets(SHORT, LONG), "two holders");
    guard.release().await.unwrap();
}

// proves: L4, L8
// bug 15
pub(crate) async fn it_cannot_free_our_lock(mut stage: Stage) {
    let keeper = stage.keeper().await;
    assert!(stage.foreign.gets(PATIENCE, SHORT));
    // Its lease ends while it is stopped.
    stage.foreign.pause();
    let guard = takes(&keeper).await;
    stage.foreign.resume();
    assert!(!stage.foreign.frees(), "it freed what was not its own");
    guard.check().unwrap();
    assert!(!stage.foreign.gets(SHORT, LONG), "two holders");
    guard.release().await.unwrap();
}

// proves: L4, L8, L16
// bug 15
pub(crate) async fn we_cannot_free_its_lock(mut stage: Stage) {
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    let lock = keeper.lock(LOCK).lease(SHORT).fixed();
    let guard = lock.acquire_within(PATIENCE).await.unwrap();
    stage.foreign.takes();
    let told = guard.release().await;
    assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
    assert!(is_busy(&other).await, "it was freed under the other client");
    assert!(stage.foreign.frees(), "it was freed under the other client");
}

/// Somebody deletes the key under us, and the other client takes the lock: we notice, and neither our
/// renewals nor our release touch what is not ours any more.
// proves: L4, L8, W2
// bug 4, bug 15
pub(crate) async fn what_was_taken_from_us_is_not_ours(mut stage: Stage) {
    let (keeper, other) = (stage.keeper().await, stage.keeper().await);
    for noticed in [true, false] {
        // Renewed each third of it, so either soon or not before the story ends.
        let lease = if noticed { KEPT } else { LONG };
        let lock = keeper.lock(LOCK).lease(lease);
        let guard = lock.acquire_within(PATIENCE).await.unwrap();
        stage.redis.ask(&["DEL", LOCK]).unwrap();
        stage.foreign.takes();
        if noticed {
            let lost = tokio::time::timeout(PATIENCE, guard.lost()).await;
            assert_eq!(lost.unwrap(), LostReason::Gone);
        }
        let told = guard.release().await;
        assert!(matches!(told, Err(Error::Lost { .. })), "{told:?}");
        let left = stage.redis.ask(&["PTTL", LOCK]).unwrap().text();
        assert!(
            left.parse::<u128>().unwrap() > LONG.as_millis() / 2,
            "{left}"
        );
        assert!(is_busy(&other).await, "it was freed under the other client");
        assert!(stage.foreign.frees(), "it was freed under the other client");
    }
}

// proves: W1
pub(crate) async fn our_watchdog_outlasts_its_wait(mut stage: Stage) {
    let keeper = stage.keeper().await;
    let lock = keeper.lock(LOCK).lease(KEPT);
    let guard = lock.acquire_within(PATIENCE).await.unwrap();
    assert!(!stage.foreign.gets(KEPT * 2, LONG), "two holders");
    guard.check().unwrap();
    guard.release().await.unwrap();
    stage.foreign.takes();
    assert!(stage.foreign.frees());
}

// proves: L3
pub(crate) async fn its_crash_frees_after_its_lease(mut stage: Stage) {
    let keeper = stage.keeper().await;
    let lease = 4 * SHORT;
    let (clock, asked) = (Clock::system(), stage.now());
    assert!(stage.foreign.gets(PATIENCE, lease));
    stage.foreign.kill();
    let guard = takes(&keeper).await;
    let took = clock.now() - asked;
    println!("free after {took:?} of a lease of {lease:?}");
    assert!(took + Duration::from_millis(5) >= lease, "two holders");
    guard.release().await.unwrap();
}

// proves: L3
pub(crate) async fn our_crash_frees_after_our_lease(mut stage: Stage) {
    let lease = KEPT;
    let holder = Holder::start(&stage.url(), lease);
    // It is renewed for as long as we live.
    assert!(!stage.foreign.gets(lease * 3 / 2, LONG), "two holders");
    drop(holder);
    let killed = stage.now();
    stage.foreign.takes();
    println!(
        "free after {:?} of a lease of {lease:?}",
        stage.now() - killed
    );
    assert!(stage.foreign.frees());
}

// proves: F1, F2
pub(crate) async fn tokens_rise_over_its_holds(mut stage: Stage) {
    let mut last = None;
    for _ in 0..3 {
        let keeper = stage.keeper().await;
        let guard = takes(&keeper).await;
        let token = guard.token();
        assert!(last < Some(token), "{token} after {last:?}");
        last = Some(token);
        guard.release().await.unwrap();
        stage.foreign.takes();
        assert!(stage.foreign.frees());
    }
}

/// Who is inside, and how often anybody was.
#[derive(Default)]
struct Section {
    busy: AtomicBool,
    ours: AtomicU32,
    theirs: AtomicU32,
}

impl Section {
    fn enter(&self, who: &AtomicU32) {
        assert!(!self.busy.swap(true, Ordering::SeqCst), "two holders");
        who.fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        assert!(self.busy.swap(false, Ordering::SeqCst), "two holders");
    }
}

// proves: L1
pub(crate) async fn together_they_never_hold_at_once(stage: Stage) {
    const LENGTH: Duration = Duration::from_secs(4);
    let section = Arc::new(Section::default());
    let clock = Clock::system();
    let keepers = [
        stage.keeper().await,
        stage.keeper().await,
        stage.keeper().await,
    ];
    let foreign = [stage.another(), stage.foreign];
    let end = clock.now() + LENGTH;
    let foreign = foreign.map(|mut foreign: Foreign| {
        let (section, clock) = (section.clone(), clock.clone());
        tokio::task::spawn_blocking(move || {
            while clock.now() < end {
                assert!(foreign.gets(LONG, LONG), "starved");
                section.enter(&section.theirs);
                std::thread::sleep(Duration::from_millis(2));
                section.leave();
                assert!(foreign.frees(), "it was freed under the other client");
                std::thread::sleep(GAP);
            }
        })
    });
    let keepers = keepers.map(|keeper| tokio::spawn(cycle(keeper, section.clone(), end)));
    for task in keepers.into_iter().chain(foreign) {
        task.await.unwrap();
    }
    let (ours, theirs) = (
        section.ours.load(Ordering::SeqCst),
        section.theirs.load(Ordering::SeqCst),
    );
    println!("in {LENGTH:?} lockkeeper held {ours} times, the others {theirs} times");
    assert!(ours > 0 && theirs > 0, "{ours} and {theirs}");
}

async fn cycle(keeper: Keeper, section: Arc<Section>, end: Moment) {
    let clock = Clock::system();
    while clock.now() < end {
        let guard = keeper.lock(LOCK).acquire_within(LONG).await.unwrap();
        section.enter(&section.ours);
        tokio::time::sleep(Duration::from_millis(2)).await;
        section.leave();
        guard.release().await.unwrap();
        tokio::time::sleep(GAP).await;
    }
}
