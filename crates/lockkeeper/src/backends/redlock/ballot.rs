//! The answers to one question as they come in, and what they amount to.

use std::time::Duration;

use super::quorum::{Count, Quorum, Vote};
use super::set::Wait;
use super::wire::Said;
use crate::backend::Standing;

/// How long the slower nodes are waited for once a renewal is decided: their answers show where the
/// claim is missing.
const SLOWER_ONES: Duration = Duration::from_millis(20);
/// Between these, by chance, whoever lost a split vote asks again.
const AFTER_SPLIT: (u64, u64) = (2, 30);
/// By how much, by chance, waiters look again after a lease has ended.
const AFTER_END: (u64, u64) = (0, 4);

/// What the nodes say about one claim.
#[derive(Debug, Clone)]
pub(super) struct Ballot {
    quorum: Quorum,
    /// In the order of the nodes; `None` has not answered.
    said: Vec<Option<Said>>,
    votes: Vec<Vote>,
}

const SILENCE: Said = Said {
    vote: Vote::Failed,
    listed: false,
    stranger: false,
    free: false,
    seen: 0,
    left: Duration::ZERO,
};

impl Ballot {
    pub(super) fn new(quorum: Quorum) -> Self {
        Self {
            quorum,
            said: vec![None; quorum.nodes()],
            votes: Vec::with_capacity(quorum.nodes()),
        }
    }

    fn note(&mut self, place: usize, said: Said) {
        if self.said[place].is_none() {
            self.said[place] = Some(said);
            self.votes.push(said.vote);
        }
    }

    /// An answer to a question for the lock.
    pub(super) fn take_in(&mut self, place: usize, said: Option<Said>) -> Wait {
        self.note(place, said.unwrap_or(SILENCE));
        match self.count() {
            Count::Won(_) | Count::Unnumbered => Wait::NoMore,
            Count::Lost if self.usable() => Wait::NoMore,
            Count::Lost | Count::Open => Wait::More,
        }
    }

    /// An answer to a number that was written back: only this number counts.
    pub(super) fn take_in_number(&mut self, place: usize, said: Option<Said>, number: u64) -> Wait {
        let mut said = said.unwrap_or(SILENCE);
        if said.vote != (Vote::Mine { order: number }) {
            said.vote = Vote::Failed;
        }
        self.note(place, said);
        match self.count() {
            Count::Open => Wait::More,
            _ => Wait::NoMore,
        }
    }

    /// An answer to a release: whether the claim was there.
    pub(super) fn take_in_freed(&mut self, place: usize, freed: Option<bool>) -> Wait {
        let vote = match freed {
            Some(true) => Vote::Mine { order: 0 },
            Some(false) => Vote::Unknown,
            None => Vote::Failed,
        };
        self.note(place, Said { vote, ..SILENCE });
        match self.count() {
            Count::Open => Wait::More,
            Count::Lost if self.may_hold() => Wait::More,
            _ => Wait::NoMore,
        }
    }

    pub(super) fn count(&self) -> Count {
        self.quorum.count(&self.votes)
    }

    fn at(&self, place: usize) -> Said {
        self.said[place].unwrap_or(SILENCE)
    }

    fn number_of(&self, which: impl Fn(Said) -> bool) -> usize {
        (0..self.said.len())
            .filter(|place| which(self.at(*place)))
            .count()
    }

    fn reached(&self, which: impl Fn(Said) -> bool) -> bool {
        self.quorum.reached(self.number_of(which))
    }

    /// Whether enough nodes vote at all.
    pub(super) fn usable(&self) -> bool {
        self.reached(|said| !matches!(said.vote, Vote::Failed | Vote::Abstains))
    }

    /// Whether a majority is the claim's, under whichever numbers.
    pub(super) fn holds(&self) -> bool {
        self.reached(is_mine)
    }

    /// Whether a majority would be, if the silent nodes were.
    pub(super) fn may_hold(&self) -> bool {
        self.reached(|said| is_mine(said) || said.vote == Vote::Failed)
    }

    /// Whether a majority knows the claim, or would if the silent nodes did.
    pub(super) fn known(&self) -> bool {
        self.reached(|said| said.listed || matches!(said.vote, Vote::Failed | Vote::Abstains))
    }

    pub(super) fn any_listed(&self) -> bool {
        self.number_of(|said| said.listed) > 0
    }

    pub(super) fn any_mine(&self) -> bool {
        self.number_of(is_mine) > 0
    }

    pub(super) fn any_free(&self) -> bool {
        self.number_of(|said| said.free) > 0
    }

    pub(super) fn is_mine(&self, place: usize) -> bool {
        is_mine(self.at(place))
    }

    pub(super) fn is_free(&self, place: usize) -> bool {
        self.at(place).free
    }

    pub(super) fn failed(&self, place: usize) -> bool {
        self.at(place).vote == Vote::Failed
    }

    /// Whether the node has surely given the claim nothing.
    pub(super) fn refused(&self, place: usize) -> bool {
        matches!(self.at(place).vote, Vote::Taken { .. } | Vote::Abstains)
    }

    /// The standing of a claim that waits. Where one claim holds a majority, it is worth looking again
    /// when enough of its leases end; where nobody does, votes were split, and everybody asks again after
    /// a while of their own.
    pub(super) fn waits(&self) -> Standing {
        let look_again_in = match self.quorum.holder(&self.votes) {
            None => by_chance(AFTER_SPLIT),
            Some(_) => {
                let mut left: Vec<Duration> = self
                    .said
                    .iter()
                    .flatten()
                    .filter(|said| matches!(said.vote, Vote::Taken { .. }))
                    .map(|said| said.left)
                    .collect();
                left.sort_unstable();
                let free = self.quorum.nodes() - left.len();
                let needed = self.quorum.size().saturating_sub(free).max(1) - 1;
                left.get(needed).copied().unwrap_or_default() + by_chance(AFTER_END)
            }
        };
        Standing::Waits {
            ahead: 1,
            look_again_in,
        }
    }
}

fn is_mine(said: Said) -> bool {
    matches!(said.vote, Vote::Mine { .. })
}

/// A time between these, in milliseconds. Without random bits the middle serves.
fn by_chance((least, most): (u64, u64)) -> Duration {
    let span = (most - least) * 1000;
    let dice = getrandom::u32().map_or(span / 2, |dice| u64::from(dice) % (span + 1));
    Duration::from_micros(least * 1000 + dice)
}

/// The ballots of a batch of claims: each node answers for all of them at once.
#[derive(Debug)]
pub(super) struct Batch {
    ballots: Vec<Ballot>,
    quorum: Quorum,
    answers: usize,
}

impl Batch {
    pub(super) fn new(quorum: Quorum, claims: usize) -> Self {
        Self {
            ballots: vec![Ballot::new(quorum); claims],
            quorum,
            answers: 0,
        }
    }

    pub(super) fn take_in(&mut self, place: usize, said: Option<Vec<Said>>) -> Wait {
        self.answers += usize::from(said.is_some());
        for (at, ballot) in self.ballots.iter_mut().enumerate() {
            let said = said.as_ref().and_then(|said| said.get(at));
            ballot.note(place, said.copied().unwrap_or(SILENCE));
        }
        // All answers are wanted, but not waited for any longer than this once a majority has spoken.
        if self.answers == self.quorum.size() {
            Wait::ALittle(SLOWER_ONES)
        } else {
            Wait::More
        }
    }

    /// Whether a majority answered.
    pub(super) fn answered(&self) -> bool {
        self.quorum.reached(self.answers)
    }

    pub(super) fn ballots(&self) -> &[Ballot] {
        &self.ballots
    }
}
