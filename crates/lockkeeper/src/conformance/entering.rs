//! Entering: who holds at once, who waits, and what entering again does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stage::{Contender, Stage};
use crate::Name;
use crate::backend::{Entry, Standing};

// proves: L1
pub(super) async fn an_exclusive_claim_holds_alone(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    a.takes().await;
    b.lines_up().await;
    a.expect_holds().await;
    b.expect_waits().await;
    a.leaves().await;
    b.comes_to_hold().await;
    b.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L9
// bug 84
pub(super) async fn a_try_that_would_wait_leaves_nothing(stage: &Stage) {
    let name = stage.name();
    let [a, b, c] = stage.contenders(&name).await;
    a.takes().await;
    b.tries_in_vain().await;
    b.expect_gone().await;
    let view = stage.view(&name).await.expect("somebody holds");
    assert_eq!(view.waiters.len(), 0, "the try stands in line");
    let (ahead, _) = c.lines_up().await;
    assert_eq!(ahead, 1, "the try stands in line");
    a.leaves().await;
    c.comes_to_hold().await;
    b.leaves_in_vain().await;
    c.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L9
pub(super) async fn a_try_holds_when_it_can(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    assert!(matches!(a.enter(Entry::Try).await, Standing::Holds { .. }));
    b.tries_in_vain().await;
    a.leaves().await;
    assert!(matches!(b.enter(Entry::Try).await, Standing::Holds { .. }));
    b.leaves().await;
}

// proves: L1, L10
// bug 16, bug 23
pub(super) async fn a_second_claim_of_the_same_keeper_waits(stage: &Stage) {
    let first = stage.contender(&stage.name()).await;
    let second = first.sibling();
    first.takes().await;
    second.lines_up().await;
    second.leaves().await;
    first.expect_holds().await;
    first.leaves().await;
}

// proves: L5
// bug 58
pub(super) async fn entering_again_keeps_the_place(stage: &Stage) {
    let name = stage.name();
    let [a, b, c] = stage.contenders(&name).await;
    a.takes().await;
    b.lines_up().await;
    c.lines_up().await;
    for _ in 0..3 {
        b.lines_up().await;
    }
    let view = stage.view(&name).await.expect("somebody holds");
    assert_eq!(
        (view.holders.len(), view.waiters.len()),
        (1, 2),
        "one place each"
    );
    a.leaves().await;
    if stage.is_fair().await {
        b.comes_to_hold().await;
        c.expect_waits().await;
    }
    b.leaves().await;
    c.comes_to_hold().await;
    c.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L5, F1
// bug 22, bug 58, bug 64
pub(super) async fn entering_again_finds_the_own_grant(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    let order = a.takes().await;
    for entry in [Entry::Queue, Entry::Try, Entry::Queue] {
        match a.enter(entry).await {
            Standing::Holds { order: again, .. } => assert_eq!(again, order, "the same grant"),
            other => panic!("it blocks on itself: {other:?}"),
        }
    }
    // However often it entered, one release frees it.
    a.leaves().await;
    b.takes().await;
    a.expect_gone().await;
    b.leaves().await;
    stage.assert_no_residue().await;
}

// bug 80
pub(super) async fn any_name_is_a_name_of_its_own(stage: &Stage) {
    let odd = [
        "a", "A", "a ", " a", "a/", "/a", "a/b", "a//b", "a%2Fb", "a.", "..", ".", "*", "a*", "%",
        "_", "{a}", "{", "a\0", "a\0b", "a\n", "é", "e\u{301}", "\u{202e}", "😀", "'; --", "\"",
        "\\", "-", "0", "00", "lock", "a:1", "a,b",
    ];
    let mut names: Vec<Name> = odd.iter().map(|name| Name::new(*name).unwrap()).collect();
    let long = "x".repeat(Name::MAX_BYTES - 1);
    names.extend(["y", "z"].map(|end| Name::new(long.clone() + end).unwrap()));
    names.push(Name::new(long).unwrap());
    names.push(Name::new("é".repeat(Name::MAX_BYTES / 2)).unwrap());
    let backend = stage.backend().await;
    let mut all = Vec::new();
    for name in &names {
        let contender = Contender::on(backend.clone(), name);
        contender.takes().await;
        let view = stage.view(name).await.expect("somebody holds");
        assert_eq!(&view.name, name, "the name comes back as it went in");
        all.push(contender);
    }
    for contender in &all {
        contender.expect_holds().await;
        contender.sibling().tries_in_vain().await;
    }
    for contender in &all {
        contender.leaves().await;
    }
    stage.assert_no_residue().await;
}

// proves: L1, L11, F1
// bug 50
pub(super) async fn a_storm_never_makes_two_holders(stage: &Stage) {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 6;
    let name = stage.name();
    let inside = Arc::new(AtomicU64::new(0));
    let highest = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let contender = stage.contender(&name).await;
        let (inside, highest) = (inside.clone(), highest.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let contender = contender.sibling();
                let order = contender.obtains().await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                let before = highest.fetch_max(order, Ordering::SeqCst);
                assert!(before < order, "token {order} after {before}");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
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
}
