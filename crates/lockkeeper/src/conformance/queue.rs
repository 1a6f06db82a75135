//! The line: strict order of arrival where it is promised, and nobody in it can hold it up.

use std::sync::Arc;

use super::stage::{Contender, Stage};
use super::wrappers::mix;
use crate::backend::{ClaimView, Entry, Query, Standing};
use crate::claim::Party;
use crate::{Mode, Name, rule};

// proves: L11, L1
// bug 40, bug 55
pub(super) async fn first_come_first_served(stage: &Stage) {
    let all: [Contender; 6] = stage.contenders(&stage.name()).await;
    all[0].takes().await;
    for (place, contender) in all.iter().enumerate().skip(1) {
        let (ahead, _) = contender.lines_up().await;
        assert!(ahead >= 1 && ahead <= place, "{ahead} ahead at {place}");
    }
    if !stage.is_fair().await {
        return served_by_chance(&all).await;
    }
    for (place, contender) in all.iter().enumerate() {
        contender.expect_holds().await;
        for later in &all[place + 1..] {
            later.expect_waits().await;
        }
        contender.leaves().await;
    }
    stage.assert_no_residue().await;
}

/// Where no order is promised, still exactly one holds at a time and everybody comes to.
async fn served_by_chance(all: &[Contender]) {
    let mut left: Vec<&Contender> = all.iter().collect();
    let limit = crate::Clock::system().now() + super::stage::PATIENCE;
    while !left.is_empty() {
        assert!(crate::Clock::system().now() < limit, "starved");
        let mut holders = Vec::new();
        for (place, contender) in left.iter().enumerate() {
            if let Standing::Holds { .. } = contender.standing().await {
                holders.push(place);
            }
        }
        assert!(holders.len() <= 1, "two holders");
        if let Some(place) = holders.pop() {
            left.remove(place).leaves().await;
        }
    }
}

// proves: L9, L11
// bug 51
pub(super) async fn a_waiter_that_leaves_delays_nobody(stage: &Stage) {
    let [a, b, c] = stage.contenders(&stage.name()).await;
    a.takes().await;
    b.lines_up().await;
    c.lines_up().await;
    b.leaves().await;
    b.expect_gone().await;
    a.expect_holds().await;
    let (ahead, _) = c.expect_waits().await;
    assert_eq!(ahead, 1, "only the holder is ahead");
    a.leaves().await;
    c.comes_to_hold().await;
    c.leaves().await;
    stage.assert_no_residue().await;
}

// proves: L11
// bug 48
pub(super) async fn a_dead_waiter_in_the_middle_delays_nobody(stage: &Stage) {
    let name = stage.name();
    let lease = stage.lease();
    let holder = stage.contender(&name).await;
    holder.takes().await;
    let backend = stage.backend().await;
    for _ in 0..10 {
        let dead = Contender::on(backend.clone(), &name).lease(lease);
        dead.lines_up().await;
    }
    let last = stage.contender(&name).await;
    last.lines_up().await;
    holder.leaves().await;
    // Ten dead waiters cost one lease, not ten.
    let start = stage.clock.now();
    let (_, held) = last.comes_to_hold().await;
    let bound = 2 * lease + std::time::Duration::from_secs(1);
    assert!(held - start < bound, "delayed by {:?}", held - start);
    last.leaves().await;
    // Where no order is promised, it may have overtaken them while they lived.
    if stage.is_fair().await {
        stage.assert_no_residue().await;
    }
}

// proves: L11
pub(super) async fn a_try_does_not_overtake(stage: &Stage) {
    let [a, b, hasty] = stage.contenders(&stage.name()).await;
    a.takes().await;
    b.lines_up().await;
    a.leaves().await;
    if stage.is_fair().await {
        // Nobody has told the waiter yet that it holds; a try must not slip in.
        hasty.tries_in_vain().await;
        b.expect_holds().await;
    }
    b.leaves().await;
    assert!(matches!(
        hasty.enter(Entry::Try).await,
        Standing::Holds { .. }
    ));
    hasty.leaves().await;
}

// proves: L9
// bug 50, bug 51
pub(super) async fn a_hundred_waiters_leave_nothing(stage: &Stage) {
    let name = stage.name();
    let first = stage.contender(&name).await;
    first.takes().await;
    let all: Vec<Contender> = (0..100).map(|_| first.sibling()).collect();
    for contender in &all {
        contender.lines_up().await;
    }
    // Every other one gives up; the rest get their turn.
    for contender in all.iter().step_by(2) {
        contender.leaves().await;
    }
    first.leaves().await;
    for contender in all.iter().skip(1).step_by(2) {
        if stage.is_fair().await {
            contender.expect_holds().await;
        }
        contender.leaves().await;
    }
    stage.assert_no_residue().await;
}

/// A list as the rule would have it, beside the engine's.
struct Twin {
    name: Name,
    /// In order: the order number and the contender.
    list: Vec<(u64, Contender)>,
    backends: Vec<Contender>,
    offers: Vec<Mode>,
}

// proves: L1, L11, L12, L13, F1
// bug 18, bug 20, bug 22, bug 53
pub(super) async fn random_histories_obey_the_rule(stage: &Stage) {
    let mut offers = vec![Mode::Exclusive, Mode::Exclusive];
    if stage.offers(Mode::Shared).await {
        offers.extend([Mode::Shared; 4]);
    }
    for take in 1..=3 {
        let mode = Mode::Permits { take, of: 3 };
        if stage.offers(mode).await {
            offers.push(mode);
        }
    }
    for seed in 0..6 {
        let name = stage.name();
        let backends: [Contender; 3] = stage.contenders(&name).await;
        let mut twin = Twin {
            name,
            list: Vec::new(),
            backends: backends.to_vec(),
            offers: offers.clone(),
        };
        for step in 0..60 {
            let dice = mix(seed * 1000 + step);
            twin.step(dice, stage.is_fair().await).await;
            twin.compare(stage, &format!("seed {seed} step {step}"))
                .await;
        }
        for (_, contender) in &twin.list {
            contender.leaves().await;
        }
        stage.assert_no_residue().await;
    }
}

impl Twin {
    async fn step(&mut self, dice: u64, is_fair: bool) {
        let pick = |range: usize, shift: u32| (dice >> shift) as usize % range;
        let place = pick(self.list.len().max(1), 8);
        match (dice % 16, self.list.get(place).cloned()) {
            (0..=6, _) | (_, None) => {
                let entry = if dice % 16 < 2 {
                    Entry::Try
                } else {
                    Entry::Queue
                };
                let mut contender = self.backends[pick(3, 16)].sibling();
                // By its label a claim is found again, whatever its number has become.
                contender.claim.party = Arc::new(Party::here(dice.to_string()));
                let mode = self.offers[pick(self.offers.len(), 24)];
                self.enter(contender.mode(mode), entry, is_fair).await;
            }
            (7..=11, Some((_, contender))) => {
                contender.leaves().await;
                self.list.remove(place);
            }
            (12, Some((order, _))) => {
                self.backends[0].evicts(order).await;
                self.list.remove(place);
            }
            (13, Some((_, contender))) if contender.claim.mode == Mode::Exclusive => {
                if self.offers.contains(&Mode::Shared) {
                    contender.downgrade().await;
                    self.list[place].1.claim.mode = Mode::Shared;
                }
            }
            (14, Some((_, contender))) => {
                contender.enter(Entry::Queue).await;
            }
            (_, Some((_, contender))) => {
                let standing = contender.standing().await;
                assert_ne!(standing, Standing::Gone, "a live claim is gone");
            }
        }
    }

    async fn enter(&mut self, contender: Contender, entry: Entry, is_fair: bool) {
        let modes = self.list.iter().map(|listed| listed.1.claim.mode);
        let mut holds = rule::holders(modes.chain([contender.claim.mode])) > self.list.len();
        let standing = contender.enter(entry).await;
        if !is_fair {
            // Whoever asks first while nobody holds may get it; `compare` sees to it that nobody did.
            holds = matches!(standing, Standing::Holds { .. });
        }
        match standing {
            Standing::Holds { order, .. } => {
                assert!(holds, "granted against the rule");
                self.list.push((order, contender));
            }
            Standing::Unknown => panic!("only a renewal of several may say so"),
            Standing::Gone => assert!(entry == Entry::Try && !holds, "not entered"),
            Standing::Waits { .. } => {
                assert!(entry == Entry::Queue && !holds, "waits against the rule");
                // The engine numbers it; inspection tells.
                self.list.push((0, contender));
            }
        }
    }

    async fn compare(&mut self, stage: &Stage, when: &str) {
        let views = self.backends[0]
            .inspect(&Query::One(self.name.clone()))
            .await;
        let (mut holders, mut waiters) = (Vec::new(), Vec::new());
        for view in views {
            holders.extend(view.holders);
            waiters.extend(view.waiters);
        }
        let held = holders.len();
        let all: Vec<_> = holders.into_iter().chain(waiters).collect();
        let modes: Vec<Mode> = all.iter().map(|view| view.mode).collect();
        if !stage.is_fair().await {
            let right = rule::holders(modes[..held].iter().copied());
            assert_eq!(right, held, "{when}: holders beside each other: {modes:?}");
            return self.compare_by_chance(&all, when);
        }
        let expected: Vec<Mode> = self.list.iter().map(|c| c.1.claim.mode).collect();
        assert_eq!(modes, expected, "{when}: another list");
        let right = rule::holders(expected.iter().copied());
        assert_eq!(held, right, "{when}: other holders");
        for (listed, view) in self.list.iter_mut().zip(&all) {
            let told = view.token.order();
            assert!(
                listed.0 == 0 || listed.0 == told,
                "{when}: another number for a claim"
            );
            listed.0 = told;
        }
        let orders: Vec<u64> = self.list.iter().map(|listed| listed.0).collect();
        assert!(
            orders.is_sorted_by(|a, b| a < b),
            "{when}: numbers out of order: {orders:?}"
        );
    }

    /// Where no order is promised: the same claims, each with a number of its own. Who of them holds is
    /// chance, and a free name may be waiting for somebody to ask for it.
    fn compare_by_chance(&mut self, all: &[ClaimView], when: &str) {
        assert_eq!(all.len(), self.list.len(), "{when}: other claims");
        for (number, contender) in &mut self.list {
            let claim = &contender.claim;
            let mut views = all.iter().filter(|view| view.party == *claim.party);
            let view = views.next().expect("a live claim is not shown");
            assert_eq!(view.mode, claim.mode, "{when}: another mode");
            *number = view.token.order();
        }
        let mut orders: Vec<u64> = self.list.iter().map(|listed| listed.0).collect();
        orders.sort_unstable();
        assert!(
            orders.is_sorted_by(|a, b| a < b),
            "{when}: a number twice: {orders:?}"
        );
    }
}
