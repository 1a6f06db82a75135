//! Processes that are killed or paused, in both modes of an SQL server: lease and session.

use std::time::{Duration, Instant};

use crate::stage::{LEASE, SOON, both};

// proves: L3, L11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_blocks_for_its_lease_at_most() {
    for corner in both() {
        let keeper = corner.keeper().await;
        let mut holder = corner.play("hold", "n");
        let old = holder.says("holds");
        let killed = holder.kill();
        let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
        assert!(guard.token().get() > old, "the token rises");
        let blocked = killed.elapsed();
        assert!(blocked < LEASE + Duration::from_secs(10), "{blocked:?}");
        guard.release().await.unwrap();
    }
}

/// The server frees the lock when the connection ends, long before the lease does.
// proves: L3, S2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_session_mode_a_killed_holder_is_gone_with_its_connection() {
    let [_, corner] = both();
    let keeper = corner.keeper().await;
    let mut holder = corner.play("hold", "n");
    holder.says("holds");
    let killed = holder.kill();
    // Longer than the lease may never be needed, however busy the machine; less is what is promised.
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    let blocked = killed.elapsed();
    assert!(blocked < LEASE, "only its lease ended it: {blocked:?}");
    guard.release().await.unwrap();
}

// proves: L11, L3
// bug 48
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_waiter_delays_nobody_for_longer_than_its_lease() {
    for corner in both() {
        let (one, two) = (corner.keeper().await, corner.keeper().await);
        let guard = one.lock("n").acquire().await.unwrap();
        let mut waiter = corner.play("wait", "n");
        waiter.says("waits");
        let begun = Instant::now();
        while one.inspect_one(guard.name()).await == 0 {
            assert!(begun.elapsed() < SOON, "it never stood in line");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        waiter.kill();
        guard.release().await.unwrap();
        let freed = Instant::now();
        let guard = two.lock("n").acquire_within(SOON).await.unwrap();
        let blocked = freed.elapsed();
        assert!(blocked < LEASE + Duration::from_secs(10), "{blocked:?}");
        guard.release().await.unwrap();
    }
}

/// How many wait.
trait Look {
    async fn inspect_one(&self, name: &lockkeeper::Name) -> usize;
}

impl Look for lockkeeper::Keeper {
    async fn inspect_one(&self, name: &lockkeeper::Name) -> usize {
        let query = lockkeeper::backend::Query::One(name.clone());
        let views = self.inspect(&query).await.unwrap();
        views.first().map_or(0, |view| view.waiters.len())
    }
}

/// A process that is stopped for longer than its lease finds out before it does anything else, and somebody else holds
/// with a higher token meanwhile.
// proves: L3, L7, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_holder_is_overtaken_and_knows_it_when_it_goes_on() {
    for corner in both() {
        let keeper = corner.keeper().await;
        let holder = corner.play("hold", "n");
        let old = holder.says("holds");
        holder.stop();
        let stopped = Instant::now();
        let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
        assert!(guard.token().get() > old, "the token rises");
        // A renewal may have been under way when it was stopped; before that nothing of its lease was used up.
        let blocked = stopped.elapsed();
        assert!(blocked > LEASE / 4, "two holders: {blocked:?}");
        holder.go_on();
        holder.says("lost");
        guard.check().unwrap();
        guard.release().await.unwrap();
    }
}
