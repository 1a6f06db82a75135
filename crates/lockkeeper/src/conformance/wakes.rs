//! Pushes: whoever comes to hold is told, nobody else is, and a push that never comes costs bounded
//! time only.

use std::time::Duration;

use super::stage::{Contender, Ear, Stage};
use crate::Mode;
use crate::guarantees::WakeBy;

/// Asserts what a backend that does not push promises instead: a time to look again, within which
/// asking tells.
async fn by_looking_again(next: &Contender) {
    next.comes_to_hold().await;
}

async fn pushes(stage: &Stage) -> bool {
    stage.backend().await.guarantees().wake == WakeBy::Push
}

// proves: W5, W6
// bug 37, bug 43
pub(super) async fn a_release_wakes_the_next_and_nobody_else(stage: &Stage) {
    let all: [Contender; 5] = stage.contenders(&stage.name()).await;
    let mut ears: Vec<Ear> = all.iter().map(Ear::of).collect();
    all[0].takes().await;
    for contender in &all[1..] {
        contender.lines_up().await;
    }
    let pushes = pushes(stage).await && stage.is_fair().await;
    for place in 1..all.len() {
        all[place - 1].leaves().await;
        if !pushes {
            by_looking_again(&all[place]).await;
            continue;
        }
        ears[place].hears(&all[place]).await;
        all[place].expect_holds().await;
        for ear in ears.iter_mut().skip(place + 1) {
            ear.hears_nothing().await;
        }
    }
    all[4].leaves().await;
}

// proves: W5, W6, L12
pub(super) async fn a_release_wakes_all_readers_up_to_the_writer(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return;
    }
    let [a, b, c, writer, late] = stage.contenders(&stage.name()).await;
    let (b, c, late) = (b.reader(), c.reader(), late.reader());
    let [mut bs, mut cs, mut writers, mut lates] = [&b, &c, &writer, &late].map(Ear::of);
    a.takes().await;
    for contender in [&b, &c, &writer, &late] {
        contender.lines_up().await;
    }
    a.leaves().await;
    if pushes(stage).await {
        bs.hears(&b).await;
        cs.hears(&c).await;
        writers.hears_nothing().await;
        lates.hears_nothing().await;
    }
    by_looking_again(&b).await;
    by_looking_again(&c).await;
    b.leaves().await;
    writers.hears_nothing().await;
    c.leaves().await;
    if pushes(stage).await {
        writers.hears(&writer).await;
    }
    by_looking_again(&writer).await;
    writer.leaves().await;
    late.leaves().await;
}

// proves: W5
// bug 47
pub(super) async fn breaking_and_downgrading_wake_too(stage: &Stage) {
    let [a, b, c] = stage.contenders(&stage.name()).await;
    let c = if stage.offers(Mode::Shared).await {
        c.reader()
    } else {
        c
    };
    let [mut bs, mut cs] = [&b, &c].map(Ear::of);
    let pushes = pushes(stage).await && stage.is_fair().await;
    let order = a.takes().await;
    b.lines_up().await;
    c.lines_up().await;
    a.evicts(order).await;
    if pushes {
        bs.hears(&b).await;
        cs.hears_nothing().await;
    }
    by_looking_again(&b).await;
    if c.claim.mode == Mode::Shared {
        b.downgrade().await;
        if pushes {
            cs.hears(&c).await;
        }
        by_looking_again(&c).await;
    }
    b.leaves().await;
    c.leaves().await;
}

// proves: W5, L9, L12
// bug 47
pub(super) async fn a_writer_that_withdraws_wakes_the_readers_behind_it(stage: &Stage) {
    if !stage.offers(Mode::Shared).await {
        return;
    }
    let [a, writer, b] = stage.contenders(&stage.name()).await;
    let (a, b) = (a.reader(), b.reader());
    let [mut first, mut last] = [&a, &b].map(Ear::of);
    a.takes().await;
    writer.lines_up().await;
    b.lines_up().await;
    writer.leaves().await;
    if pushes(stage).await {
        last.hears(&b).await;
        first.hears_nothing().await;
    }
    by_looking_again(&b).await;
    a.leaves().await;
    b.leaves().await;
}

// proves: W6
// bug 42
pub(super) async fn what_changes_nothing_wakes_nobody(stage: &Stage) {
    let [a, b, c, d] = stage.contenders(&stage.name()).await;
    let mut ears = [&a, &b, &d].map(Ear::of);
    let order = a.takes().await;
    b.lines_up().await;
    c.lines_up().await;
    d.lines_up().await;
    a.expect_holds().await;
    b.expect_waits().await;
    c.leaves().await;
    c.leaves_in_vain().await;
    c.evict(order + 1000).await;
    stage.view(&a.claim.name).await;
    for ear in &mut ears {
        ear.hears_nothing().await;
    }
    for contender in [&d, &b, &a] {
        contender.leaves().await;
    }
}

// proves: W5
// bug 37
pub(super) async fn the_time_to_look_again_finds_the_lease_ended(stage: &Stage) {
    let lease = stage.lease();
    let [a, b] = stage.contenders(&stage.name()).await;
    let a = a.lease(lease);
    a.takes().await;
    let start = stage.clock.now();
    let (_, mut look_again_in) = b.lines_up().await;
    // Each time it looks when it was told to, and never sooner.
    let mut looks = 0;
    loop {
        assert!(
            look_again_in <= lease + Duration::from_millis(20),
            "too late: {look_again_in:?}"
        );
        tokio::time::sleep(look_again_in.max(Duration::from_millis(1))).await;
        looks += 1;
        match b.standing().await {
            crate::backend::Standing::Holds { .. } => break,
            crate::backend::Standing::Waits {
                look_again_in: next,
                ..
            } => look_again_in = next,
            standing => panic!("the waiter is {standing:?}"),
        }
        assert!(looks < 50, "it spins");
    }
    let took = stage.clock.now() - start;
    assert!(took < 2 * lease + Duration::from_secs(1), "{took:?}");
    a.expect_gone().await;
    b.leaves().await;
}

// A push that says "holds" is believed without a question, so it must be true, and name the token.
// proves: W5, F2
pub(super) async fn a_push_that_says_holds_is_true(stage: &Stage) {
    let [a, b, c] = stage.contenders(&stage.name()).await;
    let [mut bs, mut cs] = [&b, &c].map(Ear::of);
    let pushes = pushes(stage).await && stage.is_fair().await;
    a.takes().await;
    b.lines_up().await;
    c.lines_up().await;
    for (leaves, ear, next) in [(&a, &mut bs, &b), (&b, &mut cs, &c)] {
        leaves.leaves().await;
        let told = if pushes { ear.hears(next).await } else { None };
        let (order, _) = next.comes_to_hold().await;
        assert!(
            told.is_none_or(|told| told == order),
            "{told:?} is not {order}"
        );
    }
    c.leaves().await;
}

// proves: W5
// bug 39
pub(super) async fn a_new_stream_hears_what_rings_after_it(stage: &Stage) {
    let [a, b] = stage.contenders(&stage.name()).await;
    a.takes().await;
    b.lines_up().await;
    for _ in 0..3 {
        drop(Ear::of(&b));
    }
    let [mut one, mut two] = [Ear::of(&b), Ear::of(&b)];
    a.leaves().await;
    if pushes(stage).await {
        one.hears(&b).await;
        two.hears(&b).await;
    }
    by_looking_again(&b).await;
    b.leaves().await;
}
