//! M1: of two grants of which one was over before the other was asked for, the later has the higher token, and no
//! token is given twice. A re-entry is no grant: it repeats the token.

use std::collections::BTreeMap;

use super::beliefs::{Belief, Origin, beliefs};
use super::waits::{WaitEnd, waits};
use super::{Finding, Model, seconds};
use crate::history::Event;

/// Grants whose tokens do not rise, or are given twice.
#[must_use]
pub fn fence_order(history: &[Event]) -> Vec<Finding> {
    let mut grants: BTreeMap<&str, Vec<Grant<'_>>> = BTreeMap::new();
    for grant in all_grants(history) {
        grants.entry(grant.belief.lock).or_default().push(grant);
    }
    let found = grants.into_values().flat_map(|of_lock| {
        let mut found = repeated(&of_lock);
        found.extend(falling(of_lock));
        found
    });
    found.collect()
}

/// A grant with a token, and when it was asked for at the earliest.
#[derive(Clone, Copy)]
struct Grant<'a> {
    asked: u64,
    told: u64,
    token: u64,
    belief: Belief<'a>,
}

fn all_grants(history: &[Event]) -> Vec<Grant<'_>> {
    let granted = waits(history)
        .into_iter()
        .filter(|wait| wait.end == WaitEnd::Granted);
    let asked: BTreeMap<_, _> = granted
        .map(|wait| ((wait.lane, wait.lock, wait.to), wait.from))
        .collect();
    let grants = beliefs(history)
        .into_iter()
        .filter(|belief| belief.origin == Origin::Grant);
    let with_token = grants.filter_map(|belief| {
        let told = belief.from;
        let of_wait = asked.get(&(belief.lane, belief.lock, told));
        let asked = of_wait.copied().unwrap_or(told);
        let token = belief.token?;
        Some(Grant {
            asked,
            told,
            token,
            belief,
        })
    });
    with_token.collect()
}

fn repeated(grants: &[Grant<'_>]) -> Vec<Finding> {
    let mut first: BTreeMap<u64, Grant<'_>> = BTreeMap::new();
    let mut found = Vec::new();
    for grant in grants {
        if let Some(before) = first.get(&grant.token) {
            let words = format!(
                "{} got the lock {:?} with token {}, which {} had got at {}",
                grant.belief.lane,
                grant.belief.lock,
                grant.token,
                before.belief.lane,
                seconds(before.told)
            );
            found.push(Finding::new(Model::FenceOrder, grant.told, words));
        } else {
            first.insert(grant.token, *grant);
        }
    }
    found
}

fn falling(grants: Vec<Grant<'_>>) -> Vec<Finding> {
    let (mut by_told, mut by_asked) = (grants.clone(), grants);
    by_told.sort_by_key(|grant| grant.told);
    by_asked.sort_by_key(|grant| grant.asked);
    let mut found = Vec::new();
    let mut earlier = by_told.into_iter().peekable();
    let mut highest: Option<Grant<'_>> = None;
    for grant in by_asked {
        while let Some(over) = earlier.next_if(|over| over.told < grant.asked) {
            if highest.is_none_or(|highest| highest.token < over.token) {
                highest = Some(over);
            }
        }
        if let Some(highest) = highest.filter(|highest| highest.token > grant.token) {
            let words = format!(
                "{} got the lock {:?} with token {}, although {} had got it at {} with the higher token {}",
                grant.belief.lane,
                grant.belief.lock,
                grant.token,
                highest.belief.lane,
                seconds(highest.told),
                highest.token
            );
            found.push(Finding::new(Model::FenceOrder, grant.told, words));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::planted::{at, believes, gave_back, renewed, trusts, waits_for};
    use crate::history::What;

    fn two(first: u64, second: u64) -> Vec<Event> {
        vec![
            at(1, "a", believes("x", first, 50)),
            at(2, "a", gave_back("x")),
            at(3, "b", waits_for("x")),
            at(4, "b", believes("x", second, 60)),
        ]
    }

    // proves: F1
    #[test]
    fn a_falling_token_is_found() {
        let found = fence_order(&two(8, 7));
        assert_eq!(found.len(), 1);
        let words = found[0].to_string();
        assert_eq!(
            words,
            "M1 fence order, at 0.004000 s: b got the lock \"x\" with token 7, although a had got it at \
             0.001000 s with the higher token 8"
        );
        assert!(fence_order(&two(7, 8)).is_empty());
    }

    // proves: F1
    #[test]
    fn a_token_given_twice_is_found() {
        let found = fence_order(&two(7, 7));
        assert_eq!(found.len(), 1);
        assert!(found[0].words.contains("with token 7, which a had got"));
        // Also to the same client, once it had given the lock back …
        let mut again = two(7, 8);
        again.push(at(5, "b", gave_back("x")));
        again.push(at(6, "b", believes("x", 8, 60)));
        assert_eq!(fence_order(&again).len(), 1);
        // … or was killed and started again.
        let mut reborn = two(7, 8);
        reborn.push(at(5, "b", What::Killed));
        reborn.push(at(6, "b", believes("x", 8, 60)));
        assert_eq!(fence_order(&reborn).len(), 1);
    }

    #[test]
    fn a_token_that_falls_only_later_is_found_too() {
        let mut history = two(3, 9);
        history.push(at(5, "b", gave_back("x")));
        history.push(at(6, "c", believes("x", 5, 60)));
        let found = fence_order(&history);
        assert_eq!(found.len(), 1);
        assert!(found[0].words.contains("c got") && found[0].words.contains("token 9"));
    }

    #[test]
    fn what_is_no_grant_may_repeat_the_token() {
        let mut history = two(7, 8);
        // Re-entry; a late renewal; re-entry after what was told before was over.
        history.push(at(5, "b", believes("x", 8, 70)));
        history.push(at(80, "b", renewed("x", 90)));
        history.push(at(95, "b", believes("x", 8, 99)));
        assert!(fence_order(&history).is_empty());
    }

    #[test]
    fn what_overlaps_or_has_no_token_has_no_order() {
        // Asked for before the other's was told: its number may be the smaller one.
        let history = [
            at(1, "a", waits_for("x")),
            at(2, "b", believes("x", 8, 3)),
            at(9, "a", believes("x", 7, 20)),
        ];
        assert!(fence_order(&history).is_empty());
        let naive = [at(1, "a", trusts("x")), at(2, "b", trusts("x"))];
        assert!(fence_order(&naive).is_empty());
        // Another lock counts for itself.
        let other = [
            at(1, "a", believes("x", 8, 9)),
            at(2, "b", believes("y", 1, 9)),
        ];
        assert!(fence_order(&other).is_empty());
    }
}
