//! The lifecycle on `memory:`: what a caller sees of lines, leases, losses and closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::backends::memory::Memory;
use lockkeeper::conformance::wrappers::{Fate, Faulty, Verb};
use lockkeeper::{Clock, Error, HoldState, Keeper, LostReason, MultiLock};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn keeper_on(memory: &Memory) -> Keeper {
    Keeper::builder()
        .lease(millis(600))
        .on(memory.backend())
        .unwrap()
}

// proves: L1, L9
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_exclude_each_other_and_tokens_rise() {
    let memory = Memory::default();
    let keepers = [keeper_on(&memory), keeper_on(&memory)];
    let inside = Arc::new(AtomicUsize::new(0));
    let last = Arc::new(std::sync::Mutex::new(0));
    let tasks: Vec<_> = (0..1000)
        .map(|number: usize| {
            let (keeper, inside, last) =
                (keepers[number % 2].clone(), inside.clone(), last.clone());
            tokio::spawn(async move {
                let guard = keeper.lock("n").acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two inside");
                {
                    let mut last = last.lock().unwrap();
                    assert!(
                        guard.token().get() > *last,
                        "{} after {last}",
                        guard.token()
                    );
                    *last = guard.token().get();
                }
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for keeper in &keepers {
        assert!(keeper.close().await.not_released.is_empty());
        assert_eq!((keeper.load().claims, keeper.load().lines), (0, 0));
    }
    assert_eq!(memory.claims(), 0);
}

// proves: L9
#[tokio::test]
async fn busy_is_no_error_and_a_timeout_names_the_holder() {
    let memory = Memory::default();
    let (ours, theirs) = (keeper_on(&memory), keeper_on(&memory));
    let guard = theirs.lock("n").acquire().await.unwrap();
    assert!(ours.lock("n").try_acquire().await.unwrap().is_none());
    let error = ours.lock("n").acquire_within(millis(50)).await.unwrap_err();
    let Error::Timeout {
        holder: Some(holder),
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(holder.pid, std::process::id());
    assert!(
        error.to_string().contains(&format!("pid {}", holder.pid)),
        "{error}"
    );
    guard.release().await.unwrap();
    assert!(ours.lock("n").try_acquire().await.unwrap().is_some());
}

/// An engine that does not answer is not a busy name: the caller is told which of the two it is.
// proves: L9
#[tokio::test]
async fn a_wait_without_an_answer_does_not_blame_another_holder() {
    for fate in [Fate::Hangs, Fate::RequestLost] {
        let memory = Memory::default();
        let faulty = Faulty::over(memory.backend(), move |_, _| fate);
        let keeper = Keeper::builder().on(faulty).unwrap();
        let told = keeper.lock("n").acquire_within(millis(100)).await;
        assert!(matches!(told, Err(Error::Unreachable { .. })), "{told:?}");
    }
}

/// No call takes longer than a third of its lease, whatever the engine does.
// proves: L9 // bug 41
#[tokio::test]
async fn a_call_that_hangs_is_given_up_in_time() {
    let memory = Memory::default();
    let faulty = Faulty::over(memory.backend(), |_, _| Fate::Works);
    let keeper = Keeper::builder()
        .lease(millis(600))
        .on(faulty.clone())
        .unwrap();
    // The watchdog has something on its agenda that is later than the limit of the calls.
    let held = keeper.lock("held").fixed().acquire().await.unwrap();
    faulty.all(Fate::Hangs, |_| true);
    let tried = |name: &'static str, after: u64| {
        let keeper = keeper.clone();
        tokio::spawn(async move {
            tokio::time::sleep(millis(after)).await;
            let since = Instant::now();
            let told = keeper.lock(name).try_acquire().await;
            given_up_in_time(since, told.map(drop));
        })
    };
    // The second begins while the first is under way.
    let both = [tried("n", 0), tried("m", 90)];
    for one in both {
        one.await.unwrap();
    }
    let since = Instant::now();
    given_up_in_time(since, held.release().await);
}

#[track_caller]
fn given_up_in_time(since: Instant, told: Result<(), Error>) {
    assert!(matches!(told, Err(Error::Unreachable { .. })), "{told:?}");
    let took = since.elapsed();
    assert!((millis(200)..millis(300)).contains(&took), "{took:?}");
}

/// A caller of another runtime is told when the keeper's own has gone, though the engine never answers.
// bug 85
#[test]
fn a_call_that_hangs_ends_with_the_runtime_of_its_keeper() {
    let memory = Memory::default();
    let faulty = Faulty::over(memory.backend(), |verb, _| match verb {
        Verb::Release => Fate::Hangs,
        _ => Fate::Works,
    });
    let home = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let guard = home.block_on(async {
        let keeper = Keeper::builder().on(faulty).unwrap();
        keeper.lock("n").acquire().await.unwrap()
    });
    let visiting = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let told = visiting.block_on(async {
        let releasing = tokio::spawn(guard.release());
        tokio::time::sleep(millis(50)).await;
        home.shutdown_background();
        tokio::time::timeout(Duration::from_secs(2), releasing).await
    });
    let told = told.expect("it does not wait for its limit of five seconds");
    assert!(matches!(told.unwrap(), Err(Error::Closed)));
}

// proves: W1, L16
#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_keeps_a_hold_and_a_fixed_one_ends() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let kept = keeper
        .lock("kept")
        .lease(millis(150))
        .acquire()
        .await
        .unwrap();
    let fixed = keeper
        .lock("fixed")
        .lease(millis(150))
        .fixed()
        .acquire()
        .await
        .unwrap();
    tokio::time::sleep(millis(700)).await;
    assert_eq!(kept.state(), HoldState::Held);
    assert_eq!(fixed.state(), HoldState::Lost(LostReason::Expired));
    kept.release().await.unwrap();
    assert!(matches!(fixed.release().await, Err(Error::Lost { .. })));
}

/// A hold that was paused for longer than its lease knows it before its owner goes on.
// proves: L7 // bug 33
#[tokio::test]
async fn after_an_hour_of_sleep_the_hold_is_lost_at_once() {
    let clock = Clock::manual();
    let memory = Memory::new(clock.clone());
    let keeper = Keeper::builder()
        .clock(clock.clone())
        .on(memory.backend())
        .unwrap();
    let guard = keeper.lock("n").acquire().await.unwrap();
    assert!(guard.remaining() > Duration::from_secs(29));
    clock.advance(Duration::from_secs(3600));
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(matches!(guard.check(), Err(Error::Lost { .. })));
    assert_eq!(guard.lost().await, LostReason::Expired);
}

// proves: L10
#[tokio::test]
async fn an_owner_enters_again_and_only_the_last_release_frees() {
    let memory = Memory::default();
    let (ours, theirs) = (keeper_on(&memory), keeper_on(&memory));
    let owner = ours.owner();
    let mut guards = Vec::new();
    for _ in 0..5 {
        guards.push(ours.lock("n").owner(&owner).acquire().await.unwrap());
    }
    assert_eq!(memory.claims(), 1);
    for guard in guards {
        assert!(theirs.lock("n").try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
    }
    assert!(theirs.lock("n").try_acquire().await.unwrap().is_some());
}

// proves: L12
#[tokio::test]
async fn downgrade_lets_readers_in_and_no_writer() {
    let memory = Memory::default();
    let (ours, theirs) = (keeper_on(&memory), keeper_on(&memory));
    let writer = ours.rw_lock("n").write().acquire().await.unwrap();
    let token = writer.token();
    let waiting = theirs.clone();
    let reads = tokio::spawn(async move { waiting.rw_lock("n").read().acquire().await });
    while memory.claims() < 2 {
        tokio::time::sleep(millis(5)).await;
    }
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.token(), token);
    let other_reader = reads.await.unwrap().unwrap();
    assert!(
        theirs
            .rw_lock("n")
            .write()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    reader.release().await.unwrap();
    other_reader.release().await.unwrap();
    assert!(
        theirs
            .rw_lock("n")
            .write()
            .try_acquire()
            .await
            .unwrap()
            .is_some()
    );
}

// proves: L12
#[tokio::test]
async fn two_readers_who_upgrade_do_not_wait_for_each_other() {
    let memory = Memory::default();
    let (ours, theirs) = (keeper_on(&memory), keeper_on(&memory));
    let one = ours.rw_lock("n").read().acquire().await.unwrap();
    let other = theirs.rw_lock("n").read().acquire().await.unwrap();
    let upgrade = |guard: lockkeeper::Guard| async move {
        guard
            .upgrade_within(Duration::from_secs(5))
            .await?
            .release()
            .await
    };
    let (one, other) = tokio::join!(upgrade(one), upgrade(other));
    one.unwrap();
    other.unwrap();
    let owner = ours.owner();
    let _reads = ours
        .rw_lock("n")
        .read()
        .owner(&owner)
        .acquire()
        .await
        .unwrap();
    let error = ours
        .rw_lock("n")
        .write()
        .owner(&owner)
        .acquire()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
}

// proves: L14
#[tokio::test(flavor = "multi_thread")]
async fn multi_locks_in_opposite_order_never_deadlock() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let pairs = [["a", "b"], ["b", "a"]];
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let (keeper, [one, other]) = (keeper.clone(), pairs[number % 2]);
            tokio::spawn(async move {
                let both = MultiLock::new().and(&keeper, one).and(&keeper, other);
                both.acquire_within(Duration::from_secs(20))
                    .await
                    .unwrap()
                    .release()
                    .await
                    .unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let twice = MultiLock::new()
        .and(&keeper, "a")
        .and(&keeper, "a")
        .acquire()
        .await;
    assert!(matches!(twice, Err(Error::Invalid { .. })));
}

// proves: L15
#[tokio::test(flavor = "multi_thread")]
async fn a_barrier_lets_nobody_pass_early_round_after_round() {
    let memory = Memory::default();
    let arrived = Arc::new(AtomicUsize::new(0));
    let parties: Vec<_> = (0..4)
        .map(|_| {
            let (keeper, arrived) = (keeper_on(&memory), arrived.clone());
            tokio::spawn(async move {
                let barrier = keeper.barrier("b", 4);
                for round in 1..=5 {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    barrier.wait_within(Duration::from_secs(20)).await.unwrap();
                    assert!(arrived.load(Ordering::SeqCst) >= 4 * round);
                }
                keeper.close().await;
            })
        })
        .collect();
    for party in parties {
        party.await.unwrap();
    }
}

// proves: L15
#[tokio::test(flavor = "multi_thread")]
async fn a_latch_opens_by_push_for_all_who_wait() {
    let memory = Memory::default();
    // A long lease: if only the lease woke the waiters, this test would take ten seconds.
    let keeper = || Keeper::builder().on(memory.backend()).unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let keeper = keeper();
            tokio::spawn(async move { keeper.latch("l", 2).wait().await })
        })
        .collect();
    let counting = keeper();
    let _one = counting.latch("l", 2).count_down().await.unwrap();
    tokio::time::sleep(millis(50)).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    let _two = counting.latch("l", 2).count_down().await.unwrap();
    for waiter in waiters {
        tokio::time::timeout(Duration::from_secs(5), waiter)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
    }
}

// proves: L15
#[tokio::test]
async fn leaders_follow_each_other() {
    let memory = Memory::default();
    let keeper = |label: &str| Keeper::builder().label(label).on(memory.backend()).unwrap();
    let (one, two) = (keeper("one").election("e"), keeper("two").election("e"));
    let first = one.campaign().await.unwrap();
    let known = two.leader().await.unwrap();
    assert_eq!(
        known.as_ref().map(|leader| leader.party.label.as_str()),
        Some("one")
    );
    let first_token = first.token();
    let (second, changed) = tokio::join!(
        async {
            first.resign().await.unwrap();
            two.campaign().await.unwrap()
        },
        one.changed_from(known.as_ref()),
    );
    assert!(second.token() > first_token);
    assert_ne!(changed.unwrap(), known);
}

// bug 19
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_hold_does_not_block_others_of_the_process() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let fixed = keeper
        .lock("n")
        .lease(millis(120))
        .fixed()
        .acquire()
        .await
        .unwrap();
    let next = keeper
        .lock("n")
        .acquire_within(Duration::from_secs(5))
        .await
        .unwrap();
    assert!(matches!(fixed.check(), Err(Error::Lost { .. })));
    assert!(next.token() > fixed.token());
    drop(fixed);
    tokio::time::sleep(millis(50)).await;
    next.check().unwrap();
    next.release().await.unwrap();
}

/// An acquire that is never polled again holds others up for one lease only.
// bug 57
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_nobody_picks_up_ends_with_its_lease() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let first = keeper.lock("n").lease(millis(200)).acquire().await.unwrap();
    let mut forgotten = Box::pin(keeper.lock("n").lease(millis(200)).acquire());
    let _pending = tokio::time::timeout(millis(20), &mut forgotten).await;
    first.release().await.unwrap();
    let next = keeper
        .lock("n")
        .acquire_within(Duration::from_secs(5))
        .await
        .unwrap();
    next.release().await.unwrap();
    let late = forgotten.await.unwrap();
    late.check().unwrap();
}

/// An acquire that waits in line, is kept, and is not polled any more: a caller may do that.
async fn set_aside(keeper: &Keeper) -> impl Sized + use<> {
    let lock = keeper.lock("n").lease(Duration::from_secs(2));
    let mut waits = Box::pin(lock.acquire());
    let _pending = tokio::time::timeout(millis(20), &mut waits).await;
    waits
}

/// The first of a line drives its claim itself; whoever joins does not depend on it.
// proves: L9
// bug 57
#[tokio::test(flavor = "multi_thread")]
async fn whoever_joins_a_line_does_not_wait_for_the_first_to_be_polled() {
    let memory = Memory::default();
    let (keeper, other) = (keeper_on(&memory), keeper_on(&memory));
    let held = other.lock("n").acquire().await.unwrap();
    let _forgotten = set_aside(&keeper).await;
    let next = keeper.lock("n").acquire_within(Duration::from_secs(20));
    let next = tokio::spawn(next);
    tokio::time::sleep(millis(20)).await;
    held.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

// proves: L9
#[tokio::test(flavor = "multi_thread")]
async fn closing_withdraws_a_claim_whose_caller_is_not_polled_any_more() {
    let memory = Memory::default();
    let (keeper, other) = (keeper_on(&memory), keeper_on(&memory));
    let held = other.lock("n").acquire().await.unwrap();
    let _forgotten = set_aside(&keeper).await;
    assert_eq!(memory.claims(), 2);
    assert!(keeper.close().await.not_released.is_empty());
    assert_eq!((memory.claims(), keeper.load().lines), (1, 0));
    held.release().await.unwrap();
}

// bug 85, bug 86
#[test]
fn guards_dropped_without_a_runtime_or_during_its_end_do_no_harm() {
    let memory = Memory::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let guards: Vec<_> = runtime.block_on(async {
        let keeper = keeper_on(&memory);
        let mut guards = Vec::new();
        for number in 0..1000 {
            guards.push(keeper.lock(format!("n{number}")).acquire().await.unwrap());
        }
        guards
    });
    let mut guards = guards.into_iter();
    drop(guards.next());
    runtime.block_on(async { tokio::time::sleep(millis(20)).await });
    assert_eq!(memory.claims(), 999);
    drop(runtime);
    guards.for_each(drop);
}

#[tokio::test]
async fn closing_says_what_was_not_released() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let held = keeper.lock("held").acquire().await.unwrap();
    drop(keeper.lock("dropped").acquire().await.unwrap());
    let closing = keeper.close().await;
    assert_eq!(closing.not_released.len(), 1);
    assert_eq!(closing.not_released[0].name.as_str(), "held");
    assert_eq!(held.state(), HoldState::Lost(LostReason::Closed));
    assert!(matches!(
        keeper.lock("n").acquire().await,
        Err(Error::Closed)
    ));
}

#[test]
fn the_blocking_face() {
    let keeper = lockkeeper::blocking::Keeper::connect("memory:").unwrap();
    let guard = keeper.lock("n").lease(millis(200)).acquire().unwrap();
    std::thread::sleep(millis(600));
    guard.check().unwrap();
    assert!(keeper.lock("n").try_acquire().unwrap().is_none());
    guard.release().unwrap();
    let permit = keeper
        .of(keeper.face().semaphore("s", 1).permits(1))
        .acquire()
        .unwrap();
    drop(permit);
    let again = keeper.of(keeper.face().semaphore("s", 1).permits(1));
    again
        .acquire_within(millis(2000))
        .unwrap()
        .release()
        .unwrap();
}

/// The body of `hold` is dropped when the lock is lost; and a spawned `hold` compiles.
// proves: W2
#[tokio::test(flavor = "multi_thread")]
async fn hold_drops_its_body_when_the_lock_is_lost() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let held = keeper.clone();
    let label = String::from("captured");
    let body = tokio::spawn(async move {
        let lock = held.lock("n").lease(millis(150)).fixed();
        lock.hold(async |guard| {
            assert!(guard.token().get() > 0 && !label.is_empty());
            std::future::pending::<()>().await;
        })
        .await
    });
    assert!(matches!(body.await.unwrap(), Err(Error::Lost { .. })));
    let sum = keeper.lock("n").hold(async |_| 1 + 1).await.unwrap();
    assert_eq!(sum, 2);
}

// proves: L10 // bug 21
#[tokio::test(flavor = "multi_thread")]
async fn an_inner_entry_never_shortens_the_lease_and_may_lengthen_it() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let owner = keeper.owner();
    let lock = |lease| keeper.lock("n").owner(&owner).lease(lease);
    let outer = lock(millis(600)).acquire().await.unwrap();
    drop(lock(millis(150)).acquire().await.unwrap());
    assert!(outer.remaining() > millis(400));
    let inner = lock(Duration::from_secs(20)).acquire().await.unwrap();
    tokio::time::sleep(millis(100)).await;
    assert!(
        inner.remaining() > Duration::from_secs(15),
        "{:?}",
        inner.remaining()
    );
}

/// A caller that is driven by something else than tokio, or by a runtime that ends before the answer
/// comes, does not leave a line behind that others wait in for ever.
#[test]
fn callers_from_other_runtimes_leave_the_line_in_order() {
    let memory = Memory::default();
    let home = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let keeper = home.block_on(async { keeper_on(&memory) });
    let held = home.block_on(keeper.lock("n").acquire()).unwrap();
    let visiting = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let visitor = keeper.clone();
    let waiting = visiting.spawn(async move { visitor.lock("n").acquire().await.map(drop) });
    visiting.block_on(async { tokio::time::sleep(millis(30)).await });
    drop(visiting);
    drop(waiting);
    drop(held);
    let next = home
        .block_on(keeper.lock("n").acquire_within(Duration::from_secs(5)))
        .unwrap();
    home.block_on(next.release()).unwrap();
    // No runtime at all around the first poll.
    let plain = std::thread::spawn({
        let keeper = keeper.clone();
        move || {
            let mut acquire = Box::pin(keeper.lock("plain").acquire());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _first = std::future::Future::poll(acquire.as_mut(), &mut context);
        }
    });
    plain.join().unwrap();
    let next = home
        .block_on(keeper.lock("plain").acquire_within(Duration::from_secs(5)))
        .unwrap();
    home.block_on(next.release()).unwrap();
}

/// Whoever drops its guard and then its keeper has released all the same.
#[tokio::test]
async fn a_release_outlives_the_keeper_that_queued_it() {
    let memory = Memory::default();
    let keeper = Keeper::builder().on(memory.backend()).unwrap();
    let guard = keeper.lock("n").acquire().await.unwrap();
    drop(keeper);
    drop(guard);
    for _ in 0..100 {
        tokio::time::sleep(millis(5)).await;
        if memory.claims() == 0 {
            return;
        }
    }
    panic!("still {} claims", memory.claims());
}

#[tokio::test]
async fn an_owner_finds_its_downgraded_hold_again() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let owner = keeper.owner();
    let lock = keeper.rw_lock("n");
    let reader = lock
        .write()
        .owner(&owner)
        .acquire()
        .await
        .unwrap()
        .downgrade()
        .await
        .unwrap();
    let again = lock.read().owner(&owner).acquire().await.unwrap();
    assert_eq!(again.token(), reader.token());
    let error = lock.write().owner(&owner).acquire().await.unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
}

/// Thousands who gave up in the middle of a line are not kept.
#[tokio::test]
async fn a_long_line_forgets_those_who_gave_up() {
    let memory = Memory::default();
    let keeper = keeper_on(&memory);
    let held = keeper.lock("n").acquire().await.unwrap();
    let mut patient = Box::pin(keeper.lock("n").acquire());
    let _waits = tokio::time::timeout(millis(5), &mut patient).await;
    for _ in 0..2000 {
        // A fresh budget, or tokio makes this task yield before it has joined the line.
        tokio::task::yield_now().await;
        let mut impatient = Box::pin(keeper.lock("n").acquire());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let _first = std::future::Future::poll(impatient.as_mut(), &mut context);
    }
    let seen = format!("{keeper:?}").matches("Ticket {").count();
    assert!(seen < 200, "{seen} tickets for one who waits");
    held.release().await.unwrap();
    patient.await.unwrap().release().await.unwrap();
}

/// A push that overtakes the answer to `enter` is for a claim that nobody knows yet. It counts all the
/// same: the waiter must not sleep until a third of its lease is over.
// proves: W5
#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_comes_before_the_answer_is_not_lost() {
    let memory = Memory::default();
    let holder = Keeper::builder().on(memory.backend()).unwrap();
    let slow = Faulty::over(memory.backend(), |verb, _| match verb {
        Verb::Enter => Fate::Slow(millis(200)),
        _ => Fate::Works,
    });
    let waiter = Keeper::builder().on(slow).unwrap();
    // Its watchdog listens before the push comes.
    waiter
        .lock("other")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let held = holder.lock("n").acquire().await.unwrap();
    let waiting = tokio::spawn(async move { waiter.lock("n").acquire().await.map(drop) });
    while memory.claims() < 2 {
        tokio::time::sleep(millis(1)).await;
    }
    held.release().await.unwrap();
    // The lease is 30 s: without the push it would be 10 s.
    tokio::time::timeout(Duration::from_secs(5), waiting)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
}

/// A future is moved, and often boxed, by those who pass it on: its size is part of what a lock costs.
#[tokio::test]
async fn the_futures_of_a_lock_are_small() {
    let keeper = Keeper::connect("memory:").await.unwrap();
    let acquire = keeper.lock("n").acquire();
    assert!(size_of_val(&acquire) <= 2048, "{}", size_of_val(&acquire));
    let release = acquire.await.unwrap().release();
    assert!(size_of_val(&release) <= 512, "{}", size_of_val(&release));
}
