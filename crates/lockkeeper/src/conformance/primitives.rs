//! The primitives that are built on the list: they hold on every backend that grants their mode, and
//! are refused on every other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::stage::{PATIENCE, REPEATS, Stage, acquires, gives_back, tries};
use crate::{Error, Lock, Mode, MultiLock};

/// Whether the backend grants the mode; if not, the keeper must refuse the lock.
async fn offers(stage: &Stage, mode: Mode, lock: Lock) -> bool {
    if stage.offers(mode).await {
        return true;
    }
    let refused = lock.try_acquire().await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    false
}

// proves: L12
// bug 6, bug 20, bug 24
pub(super) async fn a_read_write_lock(stage: &Stage) {
    let lease = stage.lease();
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    if !offers(stage, Mode::Shared, one.rw_lock("a").read()).await {
        return;
    }
    let readers = [
        acquires(one.rw_lock("a").read()).await,
        acquires(one.rw_lock("a").read()).await,
        acquires(two.rw_lock("a").read()).await,
    ];
    assert!(tries(two.rw_lock("a").write()).await.is_none());
    for reader in readers {
        assert!(tries(one.rw_lock("a").write()).await.is_none());
        gives_back(reader).await;
    }
    let writer = acquires(two.rw_lock("a").write()).await;
    assert!(tries(one.rw_lock("a").read()).await.is_none());
    let token = writer.token();
    let reader = match writer.downgrade().await {
        Ok(reader) => reader,
        // No answer gives the hold up; that is said, and nothing is left.
        Err(error) => {
            assert!(error.is_unknown(), "{error}");
            return stage.assert_swept().await;
        }
    };
    assert_eq!((reader.token(), reader.mode()), (token, Mode::Shared));
    gives_back(acquires(one.rw_lock("a").read()).await).await;
    sleep(3 * lease).await;
    reader.check().expect("a downgraded hold is renewed too");
    assert!(tries(one.rw_lock("a").write()).await.is_none());
    gives_back(reader).await;
    stage.assert_all_given_back().await;
}

// proves: L12
pub(super) async fn two_readers_that_upgrade_never_deadlock(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    if !offers(stage, Mode::Shared, one.rw_lock("a").read()).await {
        return;
    }
    let mut tasks = tokio::task::JoinSet::new();
    let writing = Arc::new(AtomicU32::new(0));
    for keeper in [&one, &two] {
        let reader = acquires(keeper.rw_lock("a").read()).await;
        let writing = writing.clone();
        tasks.spawn(async move {
            sleep(Duration::from_millis(20)).await;
            let writer = match reader.upgrade_within(PATIENCE).await {
                Ok(writer) => writer,
                Err(error) => return assert!(error.is_unknown(), "{error}"),
            };
            assert_eq!(writing.fetch_add(1, Ordering::SeqCst), 0, "two writers");
            sleep(Duration::from_millis(10)).await;
            writing.fetch_sub(1, Ordering::SeqCst);
            gives_back(writer).await;
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("neither waits for the other");
    }
    stage.assert_swept().await;
}

// proves: L13
// bug 83, bug 84
pub(super) async fn a_semaphore(stage: &Stage) {
    let lease = stage.lease();
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let mode = Mode::Permits { take: 1, of: 3 };
    if !offers(stage, mode, one.semaphore("a", 3).permits(1)).await {
        return;
    }
    let first = acquires(one.semaphore("a", 3).permits(2)).await;
    let second = acquires(two.semaphore("a", 3).permits(1)).await;
    assert!(tries(one.semaphore("a", 3).permits(1)).await.is_none());
    // Every permit has a lease of its own, and its own renewal.
    sleep(2 * lease).await;
    first.check().expect("kept");
    second.check().expect("kept");
    gives_back(first).await;
    let third = acquires(two.semaphore("a", 3).permits(2)).await;
    assert!(tries(one.semaphore("a", 3).permits(1)).await.is_none());
    gives_back(second).await;
    gives_back(third).await;
    gives_back(acquires(one.semaphore("a", 3).permits(3)).await).await;
    stage.assert_all_given_back().await;
}

// proves: L14
pub(super) async fn several_names_all_or_none(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let both = |keeper: &crate::Keeper, names: [&str; 2]| {
        names
            .into_iter()
            .fold(MultiLock::new(), |all, name| all.and(keeper, name))
    };
    let mut tasks = tokio::task::JoinSet::new();
    for (keeper, names) in [(&one, ["a", "b"]), (&two, ["b", "a"])] {
        for _ in 0..4 {
            let lock = both(keeper, names);
            tasks.spawn(async move {
                let guard = lock.acquire_within(PATIENCE).await.expect("no deadlock");
                guard.check().expect("all of them");
                if let Err(error) = guard.release().await {
                    assert!(error.is_unknown(), "{error}");
                }
            });
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no deadlock");
    }
    stage.assert_all_given_back().await;
    // One of them is busy: none is held.
    let busy = acquires(one.lock("b").lease(Duration::from_secs(60))).await;
    let wait = Duration::from_millis(50);
    let mut told = both(&two, ["a", "b"]).acquire_within(wait).await;
    for _ in 0..REPEATS {
        if !told.as_ref().is_err_and(Error::is_unknown) {
            break;
        }
        // Nobody had answered by then.
        told = both(&two, ["a", "b"]).acquire_within(wait).await;
    }
    assert!(matches!(told, Err(Error::Timeout { .. })), "{told:?}");
    gives_back(acquires(one.lock("a")).await).await;
    gives_back(busy).await;
    stage.assert_all_given_back().await;
}

// proves: L15
pub(super) async fn an_election(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    let first = one.election("a").campaign_within(PATIENCE).await;
    let first = first.expect("elected");
    let token = first.token();
    let leader = loop {
        match two.election("a").leader().await {
            Ok(leader) => break leader.expect("there is one"),
            Err(error) => assert!(error.is_unknown(), "{error}"),
        }
    };
    let election = two.election("a");
    let second = tokio::spawn(async move { election.campaign_within(PATIENCE).await });
    let observer = stage.keeper().await;
    let watching = tokio::spawn(async move {
        loop {
            match observer.election("a").changed_from(Some(&leader)).await {
                Err(error) if error.is_unknown() => {}
                other => return other,
            }
        }
    });
    sleep(Duration::from_millis(30)).await;
    assert!(!second.is_finished(), "two leaders");
    if let Err(error) = first.resign().await {
        assert!(error.is_unknown(), "{error}");
    }
    let second = second.await.expect("no panic").expect("elected");
    assert!(second.token() > token, "the token rises");
    let seen = timeout(PATIENCE, watching).await.expect("a change is seen");
    seen.expect("no panic").expect("no definite error");
    if let Err(error) = second.resign().await {
        assert!(error.is_unknown(), "{error}");
    }
    stage.assert_swept().await;
}

// proves: L15
pub(super) async fn a_latch_opens_for_all_once_enough_have_come(stage: &Stage) {
    let (one, two) = (stage.keeper().await, stage.keeper().await);
    if !offers(stage, Mode::Shared, one.rw_lock("a").read()).await {
        return;
    }
    let first = one.latch("a", 2).count_down().await.expect("counted");
    let waiting = two.latch("a", 2);
    let waiting = tokio::spawn(async move { waiting.wait_within(PATIENCE).await });
    sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "opened too early");
    let second = two.latch("a", 2).count_down().await.expect("counted");
    waiting.await.expect("no panic").expect("open");
    one.latch("a", 2).wait_within(PATIENCE).await.expect("open");
    gives_back(first).await;
    gives_back(second).await;
    stage.assert_swept().await;
}

// proves: L15
pub(super) async fn a_barrier_lets_nobody_pass_early(stage: &Stage) {
    const PARTIES: u32 = 3;
    if !offers(
        stage,
        Mode::Shared,
        stage.keeper().await.rw_lock("a").read(),
    )
    .await
    {
        return;
    }
    let came = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..PARTIES {
        let barrier = stage.keeper().await.barrier("a", PARTIES);
        let came = came.clone();
        tasks.spawn(async move {
            for round in 1..=2 {
                sleep(Duration::from_millis(u64::from(number) * 15)).await;
                came.fetch_add(1, Ordering::SeqCst);
                barrier.wait_within(PATIENCE).await.expect("all came");
                let now = came.load(Ordering::SeqCst);
                assert!(now >= round * PARTIES, "passed after {now} in {round}");
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("everybody passes");
    }
    stage.assert_swept().await;
}
