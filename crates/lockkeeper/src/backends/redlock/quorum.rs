//! The decisions of Redlock, pure: how many nodes are a majority, who has won a vote, which number a
//! grant gets, how long it is valid, and with which number a node that lost its data starts again.
//! The model checker in `tests.rs` drives these same functions through every order of events.

use std::time::Duration;

/// What one node said when a claim asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Vote {
    /// The node is the claim's. `order` is the number that it has stored for the grant; 0 when it has
    /// seen a higher one than it was offered and stored none.
    Mine { order: u64 },
    /// Another claim has the node, under this number.
    Taken { order: u64 },
    /// Nobody has the node, and it does not know the claim: the answer to a renewal.
    Unknown,
    /// The node may have forgotten a grant and votes for nobody new.
    Abstains,
    /// No answer, or one that is none.
    Failed,
}

/// Where a vote stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// It is not decided yet.
    Open,
    /// A majority is the claim's and has stored this number: it holds.
    Won(u64),
    /// A majority is the claim's but has not stored one number: it must be written back first.
    Unnumbered,
    /// A majority can no longer be reached.
    Lost,
}

/// The number of nodes, and of those that must agree: always a majority of **all** nodes, also of
/// those that are down, abstain, or never granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Quorum {
    nodes: usize,
    quorum: usize,
}

impl Quorum {
    pub(super) fn of(nodes: usize) -> Self {
        Self {
            nodes,
            quorum: nodes / 2 + 1,
        }
    }

    pub(super) fn nodes(self) -> usize {
        self.nodes
    }

    /// How many nodes must agree.
    pub(super) fn size(self) -> usize {
        self.quorum
    }

    /// Whether so many nodes are a majority.
    pub(super) fn reached(self, count: usize) -> bool {
        count >= self.quorum
    }

    /// Counts the votes that came in; the nodes that are missing may still answer.
    pub(super) fn count(self, votes: &[Vote]) -> Count {
        let mine = votes
            .iter()
            .filter(|vote| matches!(vote, Vote::Mine { .. }));
        let mine = mine.count();
        if self.reached(mine) {
            return match self.agreed(votes) {
                Some(order) => Count::Won(order),
                None => Count::Unnumbered,
            };
        }
        let missing = self.nodes.saturating_sub(votes.len());
        if self.reached(mine + missing) {
            Count::Open
        } else {
            Count::Lost
        }
    }

    /// The number that a majority has stored for the claim.
    fn agreed(self, votes: &[Vote]) -> Option<u64> {
        let stored = |vote: &Vote| match vote {
            Vote::Mine { order } if *order > 0 => Some(*order),
            _ => None,
        };
        let orders = votes.iter().filter_map(stored);
        let same = |order: u64| {
            let with = |vote: &&Vote| stored(vote) == Some(order);
            votes.iter().filter(with).count()
        };
        orders.into_iter().find(|order| self.reached(same(*order)))
    }

    /// The number under which another claim holds a majority, if one does.
    pub(super) fn holder(self, votes: &[Vote]) -> Option<u64> {
        let others = |wanted: u64| {
            let with = |vote: &&Vote| matches!(vote, Vote::Taken { order } if *order == wanted);
            votes.iter().filter(with).count()
        };
        votes.iter().find_map(|vote| match vote {
            Vote::Taken { order } if *order > 0 && self.reached(others(*order)) => Some(*order),
            _ => None,
        })
    }

    /// With which number a node that lost its data may count again: the highest that a majority of
    /// nodes, all of which kept theirs, has seen. Two majorities share a node, and the one that lost
    /// its data is none of these: so every number that ever won is at most this one.
    pub(super) fn seed(self, counters: &[u64]) -> Option<u64> {
        self.reached(counters.len())
            .then(|| counters.iter().copied().max())
            .flatten()
    }

    /// With which number a set begins, or begins anew when too many nodes have lost their data: the highest
    /// that all nodes together know. One that is missing might know a higher one.
    pub(super) fn seed_anew(self, all: &[u64]) -> Option<u64> {
        (all.len() == self.nodes)
            .then(|| all.iter().copied().max())
            .flatten()
    }
}

/// The number to offer next: above every number that was seen.
pub(super) fn above(highest_seen: u64) -> u64 {
    highest_seen + 1
}

/// Whether a node stores an offered number: it must be above all that the node has seen.
/// `enter.lua` and `number.lua` say the same.
#[cfg(test)]
pub(super) fn accepts(seen: u64, offered: u64) -> bool {
    offered > seen
}

/// How long a grant is good for, counted from the answer: the lease, less the time that asking took,
/// less what the clocks of the nodes and of this machine may drift apart. `None` when nothing is left.
pub(super) fn validity(lease: Duration, elapsed: Duration) -> Option<Duration> {
    let drift = lease / 100 + Duration::from_millis(2);
    let left = lease.checked_sub(elapsed)?.checked_sub(drift)?;
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINE: Vote = Vote::Mine { order: 7 };
    const BARE: Vote = Vote::Mine { order: 0 };
    const TAKEN: Vote = Vote::Taken { order: 6 };

    // proves: Q1, Q4
    #[test]
    fn the_majority_is_over_all_nodes() {
        let five = Quorum::of(5);
        assert_eq!((five.nodes(), five.size()), (5, 3));
        assert_eq!(five.count(&[MINE, MINE]), Count::Open);
        assert_eq!(five.count(&[MINE, MINE, MINE]), Count::Won(7));
        let failed = [MINE, MINE, Vote::Failed, Vote::Failed, Vote::Failed];
        assert_eq!(five.count(&failed), Count::Lost);
        assert_eq!(five.count(&[TAKEN, Vote::Abstains]), Count::Open);
        assert_eq!(
            five.count(&[TAKEN, Vote::Abstains, Vote::Unknown]),
            Count::Lost
        );
        assert_eq!(Quorum::of(3).size(), 2);
    }

    // proves: Q6
    #[test]
    fn a_number_counts_once_a_majority_has_stored_it() {
        let five = Quorum::of(5);
        assert_eq!(five.count(&[MINE, MINE, BARE]), Count::Unnumbered);
        let other = Vote::Mine { order: 8 };
        assert_eq!(five.count(&[MINE, MINE, other]), Count::Unnumbered);
        assert_eq!(five.count(&[other, MINE, MINE, MINE]), Count::Won(7));
        assert_eq!(five.count(&[BARE, BARE, BARE]), Count::Unnumbered);
    }

    #[test]
    fn a_holder_is_whoever_has_a_majority() {
        let five = Quorum::of(5);
        assert_eq!(five.holder(&[TAKEN, TAKEN, BARE, TAKEN]), Some(6));
        let split = [TAKEN, TAKEN, Vote::Taken { order: 5 }];
        assert_eq!(five.holder(&split), None);
    }

    // proves: Q5, Q6
    #[test]
    fn a_seed_needs_a_majority_of_the_others() {
        let five = Quorum::of(5);
        assert_eq!(five.seed(&[3, 9]), None);
        assert_eq!(five.seed(&[3, 9, 4]), Some(9));
    }

    // proves: Q1, L6
    // bug 26, bug 27
    #[test]
    fn asking_and_drift_cost_validity() {
        let ms = Duration::from_millis;
        assert_eq!(validity(ms(1000), ms(100)), Some(ms(888)));
        assert_eq!(validity(ms(1000), ms(988)), None);
        assert_eq!(validity(ms(1000), ms(5000)), None);
        assert_eq!(validity(ms(1), Duration::ZERO), None);
    }
}
