//! M2: no two clients believe at once to hold the same lock. A belief counts until the client gave the lock back, was
//! told of the loss, was killed, or until the moment that it had been told: whichever came first.

use std::collections::BTreeMap;

use super::beliefs::{Belief, beliefs};
use super::{Finding, Model, seconds};
use crate::history::Event;

/// Beliefs of two clients in the same exclusive lock that overlap in time.
#[must_use]
pub fn believed_holds(history: &[Event]) -> Vec<Finding> {
    let mut by_lock: BTreeMap<&str, Vec<Belief<'_>>> = BTreeMap::new();
    for belief in beliefs(history) {
        by_lock.entry(belief.lock).or_default().push(belief);
    }
    by_lock.into_values().flat_map(overlaps).collect()
}

fn overlaps(mut beliefs: Vec<Belief<'_>>) -> Vec<Finding> {
    beliefs.sort_by_key(|belief| belief.from);
    let mut found = Vec::new();
    // Who comes next needs to be compared with no other: the beliefs of one client follow each other, so that where the
    // longest is its own, everybody's are over.
    let mut longest: Option<Belief<'_>> = None;
    for belief in beliefs {
        let other = longest.filter(|other| other.lane != belief.lane);
        if let Some(other) = other.filter(|other| belief.from < other.believed_to()) {
            found.push(finding(&belief, &other));
        }
        if longest.is_none_or(|longest| longest.believed_to() < belief.believed_to()) {
            longest = Some(belief);
        }
    }
    found
}

fn finding(belief: &Belief<'_>, other: &Belief<'_>) -> Finding {
    let words = format!(
        "{} believed to hold the lock {:?}{} while {} believed it{}, from {} to {}",
        belief.lane,
        belief.lock,
        token(belief),
        other.lane,
        token(other),
        seconds(other.from),
        last(other)
    );
    Finding::new(Model::BelievedHolds, belief.from, words)
}

fn last(belief: &Belief<'_>) -> String {
    match belief.believed_to() {
        u64::MAX => "the end".to_owned(),
        to => seconds(to),
    }
}

fn token(belief: &Belief<'_>) -> String {
    let token = belief.token.map(|token| format!(" with token {token}"));
    token.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::planted::{at, believes, gave_back, lost, renewed, trusts};
    use crate::history::What;

    // proves: L1
    #[test]
    fn two_believers_are_found() {
        let history = [
            at(1, "a", believes("x", 7, 50)),
            at(49, "b", believes("x", 8, 90)),
        ];
        let found = believed_holds(&history);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].words,
            "b believed to hold the lock \"x\" with token 8 while a believed it with token 7, from 0.001000 s to \
             0.050000 s"
        );
    }

    #[test]
    fn every_way_to_overlap_is_found() {
        let a = || at(1, "a", believes("x", 7, 50));
        let b = || at(60, "b", believes("x", 8, 90));
        let cases = [
            // A renewal was answered, so that the belief is longer than it looked.
            vec![a(), at(40, "a", renewed("x", 100)), b()],
            // A naive lock ends never, not even for who stands still.
            vec![at(1, "a", trusts("x")), at(2, "a", What::Paused), b()],
            // A renewal that comes too late makes it believe again.
            vec![a(), b(), at(70, "a", renewed("x", 100))],
            // Re-entry told it a longer time.
            vec![a(), at(30, "a", believes("x", 7, 80)), b()],
            // The news of the loss came too late.
            vec![
                a(),
                at(40, "a", renewed("x", 100)),
                b(),
                at(61, "a", lost("x")),
            ],
            // What was killed or given back is another lock.
            vec![
                at(1, "a", believes("x", 7, 99)),
                at(2, "a", gave_back("y")),
                b(),
            ],
            vec![
                at(1, "a", believes("x", 7, 99)),
                at(2, "c", What::Killed),
                b(),
            ],
        ];
        for history in cases {
            assert_eq!(believed_holds(&history).len(), 1, "{history:?}");
        }
    }

    #[test]
    fn a_long_belief_is_found_behind_short_ones() {
        let history = [
            at(1, "a", believes("x", 1, 100)),
            at(2, "a", gave_back("x")),
            at(3, "b", believes("x", 2, 100)),
            at(4, "a", believes("x", 3, 5)),
            at(10, "a", believes("x", 4, 20)),
        ];
        assert_eq!(believed_holds(&history).len(), 2);
    }

    // proves: L1
    #[test]
    fn one_after_the_other_is_good() {
        let a = || at(1, "a", believes("x", 7, 50));
        let b = || at(60, "b", believes("x", 8, 90));
        let cases = [
            // What it had been told was over, though nobody said so, and though it stood still.
            vec![a(), b()],
            vec![
                a(),
                at(20, "a", What::Paused),
                b(),
                at(70, "a", What::Resumed),
            ],
            vec![at(1, "a", trusts("x")), at(5, "a", gave_back("x")), b()],
            vec![at(1, "a", trusts("x")), at(5, "a", lost("x")), b()],
            vec![at(1, "a", trusts("x")), at(5, "a", What::Killed), b()],
            // To the nanosecond.
            vec![at(1, "a", believes("x", 7, 60)), b()],
            // A client is no stranger to itself; another lock is another lock.
            vec![b(), at(61, "b", believes("x", 9, 90))],
            vec![at(1, "a", trusts("y")), b()],
        ];
        for history in cases {
            assert_eq!(believed_holds(&history), [], "{history:?}");
        }
    }
}
