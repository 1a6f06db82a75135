//! Fencing tokens: order numbers that only rise, per name, over all grants.

use super::stage::{Contender, Stage};
use crate::Token;
use crate::backend::{Query, Standing};

// proves: F1, F2
pub(super) async fn they_rise_in_the_order_of_grants(stage: &Stage) {
    let all: [Contender; 5] = stage.contenders(&stage.name()).await;
    for contender in &all {
        contender.queue().await;
    }
    let mut last = 0;
    for contender in &all {
        let (order, _) = contender.comes_to_hold().await;
        assert!(order > last, "token {order} after {last}");
        last = order;
        contender.leaves().await;
    }
}

// proves: F1, F2
pub(super) async fn they_rise_over_every_way_to_end(stage: &Stage) {
    let first = stage.contender(&stage.name()).await;
    let mut last = 0;
    for ending in 0..6 {
        let contender = first.sibling();
        let contender = if ending == 2 {
            contender.lease(stage.lease())
        } else {
            contender
        };
        let order = contender.takes().await;
        assert!(order > last, "token {order} after {last}");
        last = order;
        match ending {
            0 => contender.leaves().await,
            1 => contender.evicts(order).await,
            2 => stage.outlast(stage.lease()).await,
            3 => {
                // A waiter comes and goes in between.
                let waiter = contender.sibling();
                waiter.lines_up().await;
                waiter.leaves().await;
                contender.leaves().await;
            }
            4 => {
                // The name is empty, and everybody who ever used it is gone.
                contender.leaves().await;
                stage.assert_no_residue().await;
            }
            _ => contender.leaves().await,
        }
    }
}

// proves: F1
pub(super) async fn they_rise_over_keepers(stage: &Stage) {
    let name = stage.name();
    let mut last = 0;
    for _ in 0..4 {
        let contender = stage.contender(&name).await;
        let order = contender.takes().await;
        assert!(order > last, "token {order} after {last}");
        last = order;
        contender.leaves().await;
        drop(contender);
        // Nobody is connected, nothing is held; the number lives on in the engine.
        stage.assert_no_residue().await;
    }
}

// proves: F1, L5
pub(super) async fn they_do_not_change_while_held(stage: &Stage) {
    let name = stage.name();
    let [a, b] = stage.contenders(&name).await;
    let order = a.takes().await;
    b.lines_up().await;
    assert_eq!(a.takes().await, order, "entering again");
    assert_eq!(a.expect_holds().await, order, "renewing");
    let views = b.inspect(&Query::One(name)).await;
    assert_eq!(views[0].holders[0].token.order(), order, "inspecting");
    let waiting = views[0].waiters[0].token.order();
    assert!(waiting > order, "the waiter's number is higher");
    a.leaves().await;
    let (then, _) = b.comes_to_hold().await;
    assert!(then > order, "token {then} after {order}");
    if stage.is_fair().await {
        assert_eq!(then, waiting, "it holds with the number it waited with");
    }
    b.leaves().await;
}

// proves: F2
pub(super) async fn they_fit_the_token(stage: &Stage) {
    let a = stage.contender(&stage.name()).await;
    for _ in 0..50 {
        let a = a.sibling();
        let Standing::Holds { order, .. } = a.queue().await else {
            panic!("it must hold");
        };
        // Redis' Lua counts exactly up to here only; no engine is near it.
        assert!((1..1 << 53).contains(&order), "{order}");
        Token::new(order, 255).expect("fits");
        a.leaves().await;
    }
}
