//! Readers, writers, permits, and turning a writer into a reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::stage::{Contender, Stage};
use crate::Mode;
use crate::backend::{Entry, Standing};

const PERMIT: Mode = Mode::Permits { take: 1, of: 3 };

// proves: L12
// bug 53
pub(super) async fn readers_share_and_a_writer_waits_for_all(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return;
    }
    let [a, b, c, writer] = stage.contenders(&stage.name()).await;
    let readers = [a.reader(), b.reader(), c.reader()];
    for reader in &readers {
        reader.takes().await;
    }
    writer.lines_up().await;
    for reader in &readers {
        reader.expect_holds().await;
        writer.expect_waits().await;
        reader.leaves().await;
    }
    writer.comes_to_hold().await;
    readers[0].tries_in_vain().await;
    writer.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L12, L11
pub(super) async fn no_reader_overtakes_a_waiting_writer(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return;
    }
    let [a, writer, b, c] = stage.contenders(&stage.name()).await;
    let (a, b, c) = (a.reader(), b.reader(), c.reader());
    a.takes().await;
    writer.lines_up().await;
    b.lines_up().await;
    c.tries_in_vain().await;
    a.leaves().await;
    writer.comes_to_hold().await;
    b.expect_waits().await;
    writer.leaves().await;
    b.comes_to_hold().await;
    b.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L4, L12
// bug 6, bug 20
pub(super) async fn releasing_a_reader_does_not_free_the_writer(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return;
    }
    let [writer, reader, other] = stage.contenders(&stage.name()).await;
    let reader = reader.reader();
    writer.takes().await;
    reader.lines_up().await;
    reader.leaves().await;
    reader.leaves_in_vain().await;
    writer.expect_holds().await;
    other.tries_in_vain().await;
    writer.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L12
// bug 24
pub(super) async fn a_downgrade_lets_readers_in_and_no_writer(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return refuses_to_downgrade(stage).await;
    }
    let [a, reader, writer, late] = stage.contenders(&stage.name()).await;
    let (reader, late) = (reader.reader(), late.reader());
    a.takes().await;
    reader.lines_up().await;
    writer.lines_up().await;
    late.lines_up().await;
    a.downgrade().await;
    reader.expect_holds().await;
    writer.expect_waits().await;
    late.expect_waits().await;
    a.expect_holds().await;
    a.leaves().await;
    writer.expect_waits().await;
    reader.leaves().await;
    writer.comes_to_hold().await;
    writer.leaves().await;
    late.comes_to_hold().await;
    late.leaves().await;
    stage.assert_no_residue().await;
}

async fn refuses_to_downgrade(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    a.takes().await;
    let refused = a.backend.downgrade(&a.claim).await;
    assert!(
        matches!(refused, Err(crate::Error::Refused { .. })),
        "{refused:?}"
    );
    b.tries_in_vain().await;
    a.leaves().await;
}

// proves: L12, F1
// bug 24
pub(super) async fn a_downgrade_keeps_place_and_token(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return;
    }
    let lease = stage.lease();
    let [a, writer] = stage.contenders(&stage.name()).await;
    let a = a.lease(lease);
    let order = a.takes().await;
    // Asking twice is asking once.
    for _ in 0..2 {
        match a.downgrade().await {
            Standing::Holds { order: after, .. } => assert_eq!(after, order),
            other => panic!("a downgrade gave the hold up: {other:?}"),
        }
    }
    let reader = a.clone().reader();
    writer.lines_up().await;
    for _ in 0..6 {
        tokio::time::sleep(lease / 3).await;
        assert_eq!(
            reader.expect_holds().await,
            order,
            "it is renewed as before"
        );
    }
    // Entering again, by whoever still thinks it exclusive, does not make it so.
    assert_eq!(a.takes().await, order);
    writer.leaves().await;
    let other = writer.sibling().reader();
    other.takes().await;
    other.leaves().await;
    reader.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L12
pub(super) async fn a_downgrade_of_nothing_is_gone(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return;
    }
    let name = stage.name();
    let [a, b] = stage.contenders(&name).await;
    assert_eq!(a.downgrade().await, Standing::Gone);
    stage.assert_no_residue().await;
    assert!(stage.view(&name).await.is_none(), "a name without claims");
    a.takes().await;
    assert_eq!(b.downgrade().await, Standing::Gone);
    a.expect_holds().await;
    b.reader().tries_in_vain().await;
    a.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L13
// bug 83, bug 84
pub(super) async fn permits_never_exceed_their_number(stage: &Stage) {
    if !stage.offers(PERMIT).await {
        return;
    }
    const OF: u32 = 3;
    let name = stage.name();
    let taken = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..9 {
        let take = 1 + number % OF;
        let contender = stage.contender(&name).await.permits(take, OF);
        let taken = taken.clone();
        tasks.spawn(async move {
            for _ in 0..3 {
                let contender = contender.sibling();
                contender.obtains().await;
                let now = taken.fetch_add(take, Ordering::SeqCst) + take;
                assert!(now <= OF, "{now} of {OF} permits are out");
                tokio::task::yield_now().await;
                taken.fetch_sub(take, Ordering::SeqCst);
                contender.leaves().await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    stage.assert_no_residue().await;
    all_permits_are_there(stage, &name).await;
}

/// Exactly three permits can be had, not more and not fewer.
async fn all_permits_are_there(stage: &Stage, name: &crate::Name) {
    let all: [Contender; 4] = stage.contenders(name).await;
    let all = all.map(|contender| contender.permits(1, 3));
    for contender in &all[..3] {
        let standing = contender.enter(Entry::Try).await;
        assert!(
            matches!(standing, Standing::Holds { .. }),
            "a permit is missing"
        );
    }
    all[3].tries_in_vain().await;
    for contender in &all[..3] {
        contender.leaves().await;
    }
}

// proves: L11, L13
pub(super) async fn a_large_request_is_not_starved_by_small_ones(stage: &Stage) {
    if !stage.offers(PERMIT).await {
        return;
    }
    let [a, b, large, small] = stage.contenders(&stage.name()).await;
    let (a, b, small) = (a.permits(1, 3), b.permits(1, 3), small.permits(1, 3));
    let large = large.permits(3, 3);
    a.takes().await;
    b.takes().await;
    large.lines_up().await;
    small.tries_in_vain().await;
    small.lines_up().await;
    a.leaves().await;
    small.expect_waits().await;
    large.expect_waits().await;
    b.leaves().await;
    large.comes_to_hold().await;
    small.expect_waits().await;
    large.leaves().await;
    small.comes_to_hold().await;
    small.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L3, L13
// bug 83
pub(super) async fn dead_holders_give_their_permits_back_once(stage: &Stage) {
    if !stage.offers(PERMIT).await {
        return;
    }
    let name = stage.name();
    let dead: [Contender; 3] = stage.contenders(&name).await;
    let dead = dead.map(|contender| contender.permits(1, 3).lease(stage.lease()));
    for contender in &dead {
        contender.takes().await;
    }
    stage.outlast(stage.lease()).await;
    // The dead wake up and release what is no longer theirs: it must not count twice.
    for contender in &dead {
        contender.leaves_in_vain().await;
    }
    all_permits_are_there(stage, &name).await;
    stage.assert_no_residue().await;
}

// proves: L12, L13
pub(super) async fn readers_and_permits_do_not_mix(stage: &Stage) {
    if !(stage.offers(PERMIT).await && stage.offers(Mode::Shared).await) {
        return;
    }
    let [a, b, c] = stage.contenders(&stage.name()).await;
    let (permit, reader) = (a.permits(1, 3), b.reader());
    permit.takes().await;
    reader.tries_in_vain().await;
    c.tries_in_vain().await;
    permit.leaves().await;
    reader.takes().await;
    permit.tries_in_vain().await;
    reader.leaves().await;
    c.takes().await;
    permit.tries_in_vain().await;
    reader.tries_in_vain().await;
    c.leaves().await;
    stage.assert_no_residue().await;
}
