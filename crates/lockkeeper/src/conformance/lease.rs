//! The lease: how long a claim lives without renewal, and that nothing else shortens or lengthens it.

use std::time::Duration;

use tokio::time::sleep;

use super::stage::{LONG, Stage};
use crate::backend::Standing;

/// Clocks of engine and test may tick differently, and engines may count in whole milliseconds.
const TICK: Duration = Duration::from_millis(2);

// proves: L2, L3
pub(super) async fn a_dead_holder_blocks_for_its_lease_and_no_longer(stage: &Stage) {
    let lease = stage.lease();
    let [dead, next] = stage.contenders(&stage.name()).await;
    let asked = stage.clock.now();
    // Its connection lives on: not the end of a process is tried here, but the end of a lease.
    let dead = dead.lease(lease);
    dead.takes().await;
    next.lines_up().await;
    let (_, held) = next.comes_to_hold().await;
    assert!(
        held - asked + TICK >= lease,
        "two holders: {:?}",
        held - asked
    );
    dead.expect_gone().await;
    next.leaves().await;
    stage.assert_no_residue().await;
}

// proves: W1
// bug 4, bug 7
pub(super) async fn a_renewed_holder_holds_on(stage: &Stage) {
    let lease = stage.lease();
    let [a, b] = stage.contenders(&stage.name()).await;
    let a = a.lease(lease);
    let order = a.takes().await;
    b.lines_up().await;
    for _ in 0..10 {
        sleep(lease / 4).await;
        assert_eq!(a.expect_holds().await, order);
        b.expect_waits().await;
    }
    a.leaves().await;
    b.comes_to_hold().await;
    b.leaves().await;
}

// proves: W2
// bug 35
pub(super) async fn a_renewal_after_the_end_does_not_revive(stage: &Stage) {
    let a = stage.contender(&stage.name()).await.lease(stage.lease());
    a.takes().await;
    stage.outlast(stage.lease()).await;
    a.expect_gone().await;
    // Also when somebody asks for longer, and more than once.
    a.clone().lease(LONG).expect_gone().await;
    a.leaves_in_vain().await;
    stage.assert_no_residue().await;
}

// proves: L5
pub(super) async fn entering_again_starts_the_lease_anew(stage: &Stage) {
    let lease = stage.lease();
    let [a, b] = stage.contenders(&stage.name()).await;
    let a = a.lease(lease);
    let order = a.takes().await;
    for _ in 0..6 {
        sleep(lease / 3).await;
        assert_eq!(a.takes().await, order, "the same grant");
    }
    b.tries_in_vain().await;
    a.leaves().await;
}

// proves: L11
// bug 48
pub(super) async fn a_dead_waiter_drops_out(stage: &Stage) {
    let lease = stage.lease();
    let [a, dead, c] = stage.contenders(&stage.name()).await;
    a.takes().await;
    let dead = dead.lease(lease);
    dead.lines_up().await;
    c.lines_up().await;
    stage.outlast(lease).await;
    let (ahead, _) = c.expect_waits().await;
    assert_eq!(ahead, 1, "only the holder is ahead");
    a.leaves().await;
    c.expect_holds().await;
    dead.expect_gone().await;
    c.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L11
// bug 45, bug 61
pub(super) async fn a_waiter_that_expired_is_never_granted(stage: &Stage) {
    let lease = stage.lease();
    let [a, b] = stage.contenders(&stage.name()).await;
    let b = b.lease(lease);
    a.takes().await;
    b.lines_up().await;
    stage.outlast(lease).await;
    b.expect_gone().await;
    a.leaves().await;
    b.expect_gone().await;
    b.leaves_in_vain().await;
    stage.assert_no_residue().await;
}

// proves: L11
// bug 49
pub(super) async fn a_waiter_that_renews_is_never_dropped(stage: &Stage) {
    let lease = stage.lease();
    let [a, b, c] = stage.contenders(&stage.name()).await;
    let b = b.lease(lease);
    a.takes().await;
    b.lines_up().await;
    for _ in 0..10 {
        sleep(lease / 4).await;
        b.expect_waits().await;
    }
    c.lines_up().await;
    a.leaves().await;
    b.expect_holds().await;
    c.expect_waits().await;
    b.leaves().await;
    c.leaves().await;
}

// proves: L13
// bug 21, bug 32
pub(super) async fn nobody_shortens_the_lease_of_another(stage: &Stage) {
    let lease = stage.lease();
    let [a, b, c] = stage.contenders(&stage.name()).await;
    let (b, c) = (b.lease(lease), c.lease(lease));
    a.takes().await;
    b.lines_up().await;
    c.tries_in_vain().await;
    b.expect_waits().await;
    stage.outlast(lease).await;
    b.expect_gone().await;
    c.tries_in_vain().await;
    match a.standing().await {
        Standing::Holds { lease_left, .. } => {
            let whole = a.backend.guarantees().believed(LONG);
            assert!(lease_left > whole / 2, "{lease_left:?}");
        }
        other => panic!("a contender ended the holder's lease: {other:?}"),
    }
    a.leaves().await;
    if stage.offers(crate::Mode::Shared).await {
        readers_have_leases_of_their_own(stage).await;
    }
}

async fn readers_have_leases_of_their_own(stage: &Stage) {
    let [long, short, writer] = stage.contenders(&stage.name()).await;
    let (long, short) = (long.reader(), short.reader().lease(stage.lease()));
    long.takes().await;
    short.takes().await;
    writer.lines_up().await;
    stage.outlast(stage.lease()).await;
    short.expect_gone().await;
    long.expect_holds().await;
    writer.expect_waits().await;
    long.leaves().await;
    writer.comes_to_hold().await;
    writer.leaves().await;
}

// proves: L6
pub(super) async fn the_lease_left_is_told(stage: &Stage) {
    let lease = stage.lease();
    let a = stage.contender(&stage.name()).await.lease(lease);
    let left = |standing| match standing {
        Standing::Holds { lease_left, .. } => lease_left,
        other => panic!("it must hold, but its standing is {other:?}"),
    };
    for standing in [a.queue().await, a.queue().await, a.standing().await] {
        let left = left(standing);
        assert!(left <= lease, "{left:?} are left of {lease:?}");
        assert!(left > lease / 2, "{left:?} are left of {lease:?}");
    }
    a.leaves().await;
}

// proves: L16
// bug 21
pub(super) async fn a_changed_lease_counts_from_the_renewal(stage: &Stage) {
    let lease = stage.lease();
    let [a, b] = stage.contenders(&stage.name()).await;
    let (short, long) = (a.clone().lease(lease), a);
    short.takes().await;
    long.expect_holds().await;
    stage.outlast(lease).await;
    b.tries_in_vain().await;
    // And back: whoever renews for less time gets less.
    short.expect_holds().await;
    stage.outlast(lease).await;
    b.takes().await;
    long.expect_gone().await;
    b.leaves().await;
    stage.assert_no_residue().await;
}
