//! What a backend does not promise it refuses, and what it promises it says.

use super::stage::{Contender, Stage};
use crate::Mode;
use crate::guarantees::Class;

// proves: C1
pub(super) async fn modes_that_are_not_promised_are_refused(stage: &Stage) {
    let modes = [
        Mode::Exclusive,
        Mode::Shared,
        Mode::Permits { take: 2, of: 3 },
    ];
    for mode in modes {
        if stage.offers(mode).await {
            let contender = stage.contender(&stage.name()).await.mode(mode);
            contender.takes().await;
            contender.leaves().await;
        }
    }
    stage.assert_no_residue().await;
}

// proves: C1
pub(super) async fn the_guarantees_say_something(stage: &Stage) {
    let backend = stage.backend().await;
    let promised = backend.guarantees();
    assert!(!promised.backend.is_empty(), "its name");
    assert!(!promised.clock.is_empty(), "which clock it trusts");
    assert!(!promised.token.is_empty(), "how the token is made");
    assert!(!promised.survives.is_empty(), "what it survives");
    if promised.class == Class::BestEffort {
        assert!(
            !promised.class_reason.is_empty(),
            "why it is good for efficiency only"
        );
    }
    assert!(!promised.shortest_lease.is_zero(), "a lease of nothing");
    assert!(promised.shortest_lease < promised.longest_lease);
    assert!(stage.lease() >= promised.shortest_lease, "the suite's own");
}

// proves: L14
pub(super) async fn the_place_is_stable_and_without_secrets(stage: &Stage) {
    let (one, two) = (stage.backend().await, stage.backend().await);
    assert!(!one.place().is_empty());
    assert_eq!(one.place(), two.place(), "keepers of one engine agree");
    let place = one.place();
    let secret = place.split_once('@').and_then(|(front, _)| {
        front
            .rsplit('/')
            .next()
            .and_then(|user| user.split_once(':'))
    });
    assert!(secret.is_none(), "a password is shown in {place}");
}

// proves: L9
// bug 50, bug 83
pub(super) async fn everything_is_gone_when_everybody_left(stage: &Stage) {
    for round in 0..20 {
        let name = stage.name();
        let [a, b, c] = stage.contenders(&name).await;
        a.takes().await;
        b.lines_up().await;
        c.tries_in_vain().await;
        let mut order: Vec<&Contender> = vec![&a, &b];
        if round % 2 == 0 {
            order.reverse();
        }
        for contender in order {
            contender.leaves().await;
        }
        assert!(stage.view(&name).await.is_none(), "the name is shown");
    }
    stage.assert_no_residue().await;
}
