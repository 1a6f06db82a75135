//! Ownership: release and renew compare the claim's id, whatever the timing.

use super::stage::{Contender, Stage};
use crate::backend::Standing;

// proves: L4, L8
// bug 15, bug 20
pub(super) async fn a_stranger_cannot_release(stage: &Stage) {
    let [a, b, stranger] = stage.contenders(&stage.name()).await;
    let order = a.takes().await;
    b.lines_up().await;
    stranger.leaves_in_vain().await;
    assert_eq!(a.expect_holds().await, order);
    // Not even the waiter's own release touches the holder.
    b.leaves().await;
    assert_eq!(a.expect_holds().await, order);
    a.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L4
pub(super) async fn a_stranger_cannot_renew(stage: &Stage) {
    let lease = stage.lease();
    let [a, b, stranger] = stage.contenders(&stage.name()).await;
    a.clone().lease(lease).takes().await;
    b.lines_up().await;
    let limit = stage.clock.now() + lease;
    while stage.clock.now() < limit {
        stranger.expect_gone().await;
        tokio::time::sleep(lease / 10).await;
    }
    b.comes_to_hold().await;
    a.expect_gone().await;
    b.leaves().await;
}

// proves: L4, L8, L3
// bug 15
pub(super) async fn an_expired_holder_cannot_release_its_successor(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    let a = a.lease(stage.lease());
    let first = a.takes().await;
    stage.outlast(stage.lease()).await;
    let second = b.takes().await;
    assert!(second > first, "the token rises");
    a.leaves_in_vain().await;
    a.expect_gone().await;
    assert_eq!(b.expect_holds().await, second);
    b.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L8
// bug 17, bug 83
pub(super) async fn a_second_release_frees_nothing(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    a.takes().await;
    a.leaves().await;
    a.leaves_in_vain().await;
    b.takes().await;
    a.leaves_in_vain().await;
    b.expect_holds().await;
    b.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L4
pub(super) async fn an_id_counts_for_its_own_name_only(stage: &Stage) {
    let a = stage.contender(&stage.name()).await;
    a.takes().await;
    let mut elsewhere = a.clone();
    elsewhere.claim.name = stage.name();
    elsewhere.expect_gone().await;
    elsewhere.leaves_in_vain().await;
    a.expect_holds().await;
    a.leaves().await;
    stage.assert_no_residue().await;
}

// proves: W2
// bug 1, bug 35
pub(super) async fn a_renewal_never_creates_a_claim(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    a.expect_gone().await;
    stage.assert_no_residue().await;
    a.takes().await;
    a.leaves().await;
    a.expect_gone().await;
    stage.assert_no_residue().await;
    b.takes().await;
    b.leaves().await;
}

// proves: W3
pub(super) async fn a_batch_is_answered_in_its_order(stage: &Stage) {
    let a = stage.contender(&stage.name()).await;
    // All of one keeper: nobody renews the claims of another.
    let (b, c) = (a.sibling(), a.sibling());
    let other = Contender::on(a.backend.clone(), &stage.name());
    let (mine, theirs) = (a.takes().await, other.takes().await);
    b.lines_up().await;
    let batch = [&b, &other, &c, &a].map(|contender| contender.claim.clone());
    let standings = loop {
        match a.backend.renew(&batch).await {
            Ok(standings) => break standings,
            Err(error) => assert!(error.is_unknown(), "{error}"),
        }
    };
    match standings[..] {
        [
            Standing::Waits { .. },
            Standing::Holds { order: second, .. },
            Standing::Gone,
            Standing::Holds { order: first, .. },
        ] => assert_eq!((first, second), (mine, theirs)),
        _ => panic!("answers out of order: {standings:?}"),
    }
    assert_eq!(a.backend.renew(&[]).await.unwrap_or_default(), []);
    for contender in [&b, &a, &other] {
        contender.leaves().await;
    }
    stage.assert_no_residue().await;
}

// proves: W3
pub(super) async fn many_claims_are_renewed_in_one_batch(stage: &Stage) {
    let backend = stage.backend().await;
    let mut all = Vec::new();
    for number in 0..300 {
        let name = format!("many/{number}").parse().expect("a name");
        let contender = Contender::on(backend.clone(), &name);
        contender.takes().await;
        all.push(contender);
    }
    let batch: Vec<_> = all.iter().map(|c| c.claim.clone()).collect();
    let standings = loop {
        match backend.renew(&batch).await {
            Ok(standings) => break standings,
            Err(error) => assert!(error.is_unknown(), "{error}"),
        }
    };
    assert_eq!(standings.len(), 300);
    let holds = |standing: &Standing| matches!(standing, Standing::Holds { .. });
    assert!(standings.iter().all(holds), "{standings:?}");
    for contender in &all {
        contender.leaves().await;
    }
    stage.assert_no_residue().await;
}
