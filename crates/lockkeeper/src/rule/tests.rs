//! Random histories drive a list that obeys the rule, and an independent model that says of every
//! claim, by looking at each one ahead of it, whether it may hold. They must never differ; and rules
//! with a planted bug must.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::{Verdict, Walk, holders, promoted};
use crate::Mode;

/// What happens to a list. Indices are taken modulo the length of the list.
#[derive(Debug, Clone)]
enum Event {
    Try(Mode),
    Queue(Mode),
    /// A renewal moves no claim: the verdicts stay.
    Renew,
    /// Released, withdrawn or broken: one claim leaves.
    Leave(usize),
    /// The leases of some claims end at the same moment.
    Expire(Vec<usize>),
    Downgrade(usize),
}

/// The rule, or one with a planted bug.
#[derive(Clone, Copy)]
struct Rule {
    holders: fn(&[Mode]) -> usize,
    /// Who is to be woken once the claims at these places have left.
    promoted: fn(&[Mode], &BTreeSet<usize>) -> Vec<usize>,
}

const RULE: Rule = Rule {
    holders: |modes| holders(modes.iter().copied()),
    promoted: |modes, leaving| {
        let list: Vec<(usize, Mode)> = modes.iter().copied().enumerate().collect();
        promoted(&list, |claim| claim.1, |claim| leaving.contains(&claim.0))
            .map(|claim| claim.0)
            .collect()
    },
};

#[derive(Debug, Clone, Copy)]
struct Listed {
    order: u64,
    mode: Mode,
}

/// The machine under test: what a backend does, without clock and engine.
struct Machine {
    rule: Rule,
    list: Vec<Listed>,
    last_order: u64,
}

impl Machine {
    fn modes(&self) -> Vec<Mode> {
        self.list.iter().map(|claim| claim.mode).collect()
    }

    fn holding(&self) -> Vec<u64> {
        let holders = (self.rule.holders)(&self.modes());
        self.list[..holders].iter().map(|c| c.order).collect()
    }

    fn enter(&mut self, mode: Mode, may_wait: bool) -> Option<u64> {
        let mut modes = self.modes();
        modes.push(mode);
        if !may_wait && (self.rule.holders)(&modes) < modes.len() {
            return None;
        }
        self.last_order += 1;
        self.list.push(Listed {
            order: self.last_order,
            mode,
        });
        Some(self.last_order)
    }

    /// The claims at these places leave; says who is woken.
    fn leave(&mut self, places: &BTreeSet<usize>) -> Vec<u64> {
        let promoted = (self.rule.promoted)(&self.modes(), places);
        let woken = promoted.iter().map(|place| self.list[*place].order);
        let woken = woken.collect();
        let mut place = 0;
        self.list.retain(|_| {
            place += 1;
            !places.contains(&(place - 1))
        });
        woken
    }

    fn downgrade(&mut self, place: usize) -> Vec<u64> {
        let before = (self.rule.holders)(&self.modes());
        self.list[place].mode = Mode::Shared;
        let after = (self.rule.holders)(&self.modes());
        let woken = &self.list[before.min(after)..after];
        woken.iter().map(|claim| claim.order).collect()
    }
}

/// Whether the claim at this place may hold: asked of each claim ahead of it, one by one, without any
/// state carried along the list.
fn may_hold(list: &[Listed], place: usize) -> bool {
    let this = list[place].mode;
    let agrees = |ahead: usize| {
        matches!(
            (this, list[ahead].mode),
            (Mode::Shared, Mode::Shared) | (Mode::Permits { .. }, Mode::Permits { .. })
        )
    };
    let permits = |place: usize| match list[place].mode {
        Mode::Permits { take, .. } => u64::from(take),
        _ => 0,
    };
    let taken: u64 = (0..=place).map(permits).sum();
    let enough = match this {
        Mode::Permits { of, .. } => taken <= u64::from(of),
        _ => true,
    };
    enough && (0..place).all(|ahead| agrees(ahead) && may_hold(list, ahead))
}

/// What must be true of a list and its holders, whatever the rule's words are.
fn check_exclusion(list: &[Listed], holding: &[u64]) -> Result<(), TestCaseError> {
    let held: Vec<Mode> = list
        .iter()
        .filter(|claim| holding.contains(&claim.order))
        .map(|claim| claim.mode)
        .collect();
    let exclusive = held.iter().filter(|m| **m == Mode::Exclusive).count();
    prop_assert!(
        exclusive == 0 || held.len() == 1,
        "not exclusive: {:?}",
        held
    );
    let shared = held.iter().filter(|m| **m == Mode::Shared).count();
    prop_assert!(shared == 0 || shared == held.len(), "mixed: {:?}", held);
    let limits = held.iter().filter_map(|mode| match mode {
        Mode::Permits { take, of } => Some((*take, *of)),
        _ => None,
    });
    let (takes, limits): (Vec<u32>, Vec<u32>) = limits.unzip();
    if let Some(highest) = limits.iter().max() {
        prop_assert!(
            takes.iter().sum::<u32>() <= *highest,
            "too many: {:?}",
            held
        );
    }
    Ok(())
}

/// Compares machine and model after every event.
struct Trial {
    machine: Machine,
    held: BTreeSet<u64>,
    /// Order numbers in the order in which they were granted.
    grants: Vec<u64>,
}

impl Trial {
    fn new(rule: Rule) -> Self {
        let machine = Machine {
            rule,
            list: Vec::new(),
            last_order: 0,
        };
        Self {
            machine,
            held: BTreeSet::new(),
            grants: Vec::new(),
        }
    }

    fn apply(&mut self, event: &Event) -> Result<(), TestCaseError> {
        let length = self.machine.list.len();
        let (answered, woken) = match event {
            Event::Try(mode) => (self.try_enter(*mode)?, Vec::new()),
            Event::Queue(mode) => (self.machine.enter(*mode, true), Vec::new()),
            _ if length == 0 => (None, Vec::new()),
            Event::Renew => (None, Vec::new()),
            Event::Leave(place) => (None, self.machine.leave(&[place % length].into())),
            Event::Expire(places) => {
                let places = places.iter().map(|place| place % length).collect();
                (None, self.machine.leave(&places))
            }
            Event::Downgrade(place) => (None, self.downgrade(place % length)),
        };
        self.judge(answered, &woken)
    }

    /// A try holds at once or leaves no trace.
    fn try_enter(&mut self, mode: Mode) -> Result<Option<u64>, TestCaseError> {
        let before = self.machine.list.len();
        let mut would_be = self.machine.list.clone();
        would_be.push(Listed { order: 0, mode });
        let entered = self.machine.enter(mode, false);
        prop_assert_eq!(entered.is_some(), may_hold(&would_be, before));
        prop_assert_eq!(
            self.machine.list.len(),
            before + usize::from(entered.is_some())
        );
        Ok(entered)
    }

    /// Only an exclusive claim can be downgraded.
    fn downgrade(&mut self, place: usize) -> Vec<u64> {
        match self.machine.list[place].mode {
            Mode::Exclusive => self.machine.downgrade(place),
            _ => Vec::new(),
        }
    }

    fn judge(&mut self, answered: Option<u64>, woken: &[u64]) -> Result<(), TestCaseError> {
        let list = &self.machine.list;
        let holding = self.machine.holding();
        let model: Vec<u64> = (0..list.len())
            .filter(|place| may_hold(list, *place))
            .map(|place| list[place].order)
            .collect();
        prop_assert_eq!(&holding, &model, "rule and model differ on {:?}", list);
        check_exclusion(list, &holding)?;

        let present: BTreeSet<u64> = list.iter().map(|claim| claim.order).collect();
        let now: BTreeSet<u64> = holding.iter().copied().collect();
        let demoted: Vec<_> = self.held.intersection(&present).collect();
        prop_assert!(
            demoted.iter().all(|order| now.contains(order)),
            "a holder was demoted"
        );
        prop_assert!(list.is_empty() || !now.is_empty(), "nobody holds: {list:?}");

        let fresh: Vec<u64> = now.difference(&self.held).copied().collect();
        let told = fresh
            .iter()
            .copied()
            .filter(|order| Some(*order) != answered);
        prop_assert_eq!(
            told.collect::<Vec<_>>(),
            woken,
            "woken are not the promoted"
        );
        self.grants.extend(fresh);
        prop_assert!(
            self.grants.is_sorted_by(|a, b| a < b),
            "tokens fell: {:?}",
            self.grants
        );
        self.held = now;
        Ok(())
    }

    /// Holders leave one after the other: everybody who waits must come to hold.
    fn drain(&mut self, picks: &[usize]) -> Result<(), TestCaseError> {
        let mut waiting: BTreeSet<u64> = self.machine.list.iter().map(|c| c.order).collect();
        for turn in 0.. {
            let holding = self.machine.holding();
            waiting.retain(|order| !holding.contains(order));
            if self.machine.list.is_empty() {
                break;
            }
            let pick = picks[turn % picks.len()] % holding.len();
            self.machine_leaves(holding[pick])?;
        }
        prop_assert!(waiting.is_empty(), "starved: {waiting:?}");
        Ok(())
    }

    fn machine_leaves(&mut self, order: u64) -> Result<(), TestCaseError> {
        let place = self.machine.list.iter().position(|c| c.order == order);
        let woken = self.machine.leave(&place.into_iter().collect());
        self.judge(None, &woken)
    }
}

fn obeys(rule: Rule, events: &[Event], picks: &[usize]) -> Result<(), TestCaseError> {
    let mut trial = Trial::new(rule);
    events.iter().try_for_each(|event| trial.apply(event))?;
    trial.drain(picks)
}

fn mode() -> impl Strategy<Value = Mode> {
    let permits = (1..4_u32, 0..4_u32).prop_map(|(take, more)| Mode::Permits {
        take,
        of: take + more,
    });
    // Mostly one limit per name, as people use it; sometimes two programs disagree.
    let of_three = (1..4_u32).prop_map(|take| Mode::Permits { take, of: 3 });
    prop_oneof![
        3 => Just(Mode::Exclusive),
        4 => Just(Mode::Shared),
        4 => of_three,
        1 => permits,
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let place = || 0..64_usize;
    prop_oneof![
        2 => mode().prop_map(Event::Try),
        6 => mode().prop_map(Event::Queue),
        1 => Just(Event::Renew),
        5 => place().prop_map(Event::Leave),
        1 => prop::collection::vec(place(), 1..4).prop_map(Event::Expire),
        1 => place().prop_map(Event::Downgrade),
    ]
}

fn history() -> impl Strategy<Value = (Vec<Event>, Vec<usize>)> {
    let events = prop::collection::vec(event(), 0..40);
    (events, prop::collection::vec(0..64_usize, 1..8))
}

proptest! {
    #![proptest_config(Config { cases: 2_000, failure_persistence: None, ..Config::default() })]

    // proves: L1, L11, L12, L13, W6, F1
    // bug 20, bug 43, bug 53
    #[test]
    fn the_rule_is_the_model((events, picks) in history()) {
        obeys(RULE, &events, &picks)?;
    }

    /// A walk may be read beyond the first claim that waits, by whoever shows a whole list.
    // proves: L11, L13
    #[test]
    fn a_walk_tells_of_every_claim_what_the_model_tells(modes in prop::collection::vec(mode(), 0..8)) {
        let list: Vec<Listed> = modes.iter().map(|mode| Listed { order: 0, mode: *mode }).collect();
        let mut walk = Walk::default();
        for (place, mode) in modes.iter().enumerate() {
            prop_assert_eq!(walk.next(*mode) == Verdict::Holds, may_hold(&list, place));
        }
    }
}

/// Runs the property on a rule with a planted bug; the same seed every time.
fn is_rejected(rule: Rule) -> bool {
    let config = Config {
        cases: 500,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    TestRunner::new_with_rng(config, rng)
        .run(&history(), |(events, picks)| obeys(rule, &events, &picks))
        .is_err()
}

#[test]
fn the_property_accepts_the_rule_under_the_same_seed() {
    assert!(!is_rejected(RULE));
}

// proves: L12
#[test]
fn a_rule_that_lets_a_reader_overtake_a_waiting_writer_is_rejected() {
    let holders = |modes: &[Mode]| {
        // A fresh walk after each claim that waits forgets that somebody does.
        let mut walk = Walk::default();
        let mut held = 0;
        for mode in modes {
            let mut ahead = walk.clone();
            if ahead.next(*mode) == Verdict::Holds {
                (walk, held) = (ahead, held + 1);
            }
        }
        held
    };
    assert!(is_rejected(Rule { holders, ..RULE }));
}

// proves: L13
#[test]
fn a_rule_that_hands_out_one_permit_too_many_is_rejected() {
    let holders = |modes: &[Mode]| {
        let generous = modes.iter().map(|mode| match *mode {
            Mode::Permits { take, of } => Mode::Permits { take, of: of + 1 },
            other => other,
        });
        holders(generous)
    };
    assert!(is_rejected(Rule { holders, ..RULE }));
}

// proves: L1
#[test]
fn a_rule_that_lets_a_writer_in_beside_readers_is_rejected() {
    let holders = |modes: &[Mode]| {
        let readers = modes.iter().take_while(|m| **m == Mode::Shared).count();
        let writer = modes.get(readers) == Some(&Mode::Exclusive);
        holders(modes.iter().copied()).max(readers + usize::from(writer))
    };
    assert!(is_rejected(Rule { holders, ..RULE }));
}

// proves: W6
// bug 43
#[test]
fn waking_all_who_wait_is_rejected() {
    let promoted = |modes: &[Mode], leaving: &BTreeSet<usize>| {
        let before = holders(modes.iter().copied());
        (before..modes.len())
            .filter(|place| !leaving.contains(place))
            .collect()
    };
    assert!(is_rejected(Rule { promoted, ..RULE }));
}

// proves: W5
// bug 37
#[test]
fn waking_only_the_first_of_several_readers_is_rejected() {
    let promoted = |modes: &[Mode], leaving: &BTreeSet<usize>| {
        let all = (RULE.promoted)(modes, leaving);
        all.into_iter().take(1).collect()
    };
    assert!(is_rejected(Rule { promoted, ..RULE }));
}
