//! What others see, and what an operator can break.

use std::sync::Arc;

use super::stage::{Contender, LONG, Stage};
use crate::Mode;
use crate::backend::{Query, Released};
use crate::claim::Party;

fn called(mut contender: Contender, label: &str) -> Contender {
    contender.claim.party = Arc::new(Party {
        label: label.into(),
        host: "host-é".into(),
        pid: 4_000_000_000,
    });
    contender
}

// proves: U3
pub(super) async fn it_tells_who_holds_and_who_waits(stage: &Stage) {
    let name = stage.name();
    let [a, b, c] = stage.contenders(&name).await;
    let (a, b, c) = (
        called(a, "first"),
        called(b, "second 'x'"),
        called(c, "\n\0"),
    );
    let order = a.takes().await;
    b.lines_up().await;
    c.lines_up().await;
    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    let views = b.inspect(&Query::One(name.clone())).await;
    assert_eq!(views.len(), 1);
    let view = &views[0];
    assert_eq!(view.name, name);
    assert_eq!(view.holders.len(), 1);
    let holder = &view.holders[0];
    assert_eq!(
        (holder.token.order(), holder.token.step(), holder.mode),
        (order, 0, Mode::Exclusive)
    );
    assert_eq!(holder.party, *a.claim.party, "the party as it was given");
    assert!(
        holder.since.as_millis() >= 15 && holder.since < LONG,
        "{holder:?}"
    );
    assert!(
        holder.lease_left <= LONG && holder.lease_left > LONG / 2,
        "{holder:?}"
    );
    let waiters: Vec<_> = view.waiters.iter().map(|w| w.party.clone()).collect();
    assert_eq!(
        waiters,
        [&b, &c].map(|waiter| (*waiter.claim.party).clone())
    );
    assert!(view.waiters[0].token < view.waiters[1].token);
    for contender in [&c, &b, &a] {
        contender.leaves().await;
    }
    stage.assert_no_residue().await;
}

// proves: L3
pub(super) async fn it_leaves_out_the_dead(stage: &Stage) {
    let lease = stage.lease();
    let name = stage.name();
    let [a, b] = stage.contenders(&name).await;
    let (a, b) = (a.lease(lease), b.lease(lease));
    a.takes().await;
    b.lines_up().await;
    stage.outlast(lease).await;
    let views = b.inspect(&Query::One(name)).await;
    assert!(views.is_empty(), "the dead are shown: {views:?}");
    let views = b.inspect(&Query::All).await;
    assert!(views.is_empty(), "the dead are shown: {views:?}");
}

// proves: W4
pub(super) async fn it_changes_nothing(stage: &Stage) {
    let lease = stage.lease();
    let name = stage.name();
    let [a, b] = stage.contenders(&name).await;
    let asked = stage.clock.now();
    let a = a.lease(lease);
    a.takes().await;
    b.lines_up().await;
    while stage.clock.now() < asked + lease {
        stage.view(&name).await;
        a.inspect(&Query::All).await;
        tokio::time::sleep(lease / 8).await;
    }
    // Whoever is looked at dies no later for it.
    stage.outlast(std::time::Duration::ZERO).await;
    b.expect_holds().await;
    a.expect_gone().await;
    b.leaves().await;
    stage.assert_no_residue().await;
}

pub(super) async fn it_shows_all_names_in_use_and_no_other(stage: &Stage) {
    let [one, two, free] = [stage.name(), stage.name(), stage.name()];
    let (a, b) = (stage.contender(&one).await, stage.contender(&two).await);
    a.takes().await;
    b.takes().await;
    let mut names: Vec<_> = a
        .inspect(&Query::All)
        .await
        .into_iter()
        .map(|v| v.name)
        .collect();
    names.sort();
    assert_eq!(names, [one, two.clone()]);
    assert!(a.inspect(&Query::One(free)).await.is_empty());
    a.leaves().await;
    let views = a.inspect(&Query::All).await;
    assert_eq!(views.len(), 1, "{views:?}");
    assert_eq!(views[0].name, two);
    b.leaves().await;
    assert!(b.inspect(&Query::All).await.is_empty());
    stage.assert_no_residue().await;
}

// proves: L4
pub(super) async fn it_never_shows_an_id(stage: &Stage) {
    let a = stage.contender(&stage.name()).await;
    a.takes().await;
    let shown = format!("{:?} {:?}", a.inspect(&Query::All).await, a.backend);
    let hex: String = a
        .claim
        .id
        .as_bytes()
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    assert!(
        !shown.to_lowercase().contains(&hex),
        "whoever reads it can release it"
    );
    let list = format!("{:?}", a.claim.id.as_bytes());
    assert!(!shown.contains(&list), "whoever reads it can release it");
    a.leaves().await;
}

// proves: U3, F1
// bug 47
pub(super) async fn an_operator_breaks_a_holder(stage: &Stage) {
    let [a, b, operator] = stage.contenders(&stage.name()).await;
    let order = a.takes().await;
    b.lines_up().await;
    operator.evicts(order).await;
    a.expect_gone().await;
    a.leaves_in_vain().await;
    let (next, _) = b.comes_to_hold().await;
    assert!(next > order, "the token still rises");
    let again = operator.evict(order).await.0;
    assert_eq!(again, Released::Gone, "broken once only");
    b.expect_holds().await;
    b.leaves().await;
    stage.assert_no_residue().await;
}

// proves: U3, L11
pub(super) async fn an_operator_breaks_a_waiter(stage: &Stage) {
    let name = stage.name();
    let [a, b, c] = stage.contenders(&name).await;
    a.takes().await;
    b.lines_up().await;
    c.lines_up().await;
    let view = stage.view(&name).await.expect("somebody holds");
    c.evicts(view.waiters[0].token.order()).await;
    b.expect_gone().await;
    a.expect_holds().await;
    c.expect_waits().await;
    a.leaves().await;
    c.comes_to_hold().await;
    c.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L4
pub(super) async fn a_wrong_number_breaks_nobody(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    let order = a.takes().await;
    b.lines_up().await;
    let elsewhere = stage.contender(&stage.name()).await;
    elsewhere.takes().await;
    for (operator, wrong) in [(&b, order + 1_000_000), (&b, 0), (&elsewhere, order)] {
        // The number of another name is a wrong one too, unless both count alike.
        if elsewhere.expect_holds().await == wrong && operator.claim.name == elsewhere.claim.name {
            continue;
        }
        assert_eq!(operator.evict(wrong).await.0, Released::Gone);
    }
    a.expect_holds().await;
    b.expect_waits().await;
    elsewhere.expect_holds().await;
    for contender in [&elsewhere, &b, &a] {
        contender.leaves().await;
    }
    stage.assert_no_residue().await;
}
