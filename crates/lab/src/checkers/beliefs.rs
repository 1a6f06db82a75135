//! Who believed to hold which lock, and from when to when.

use std::collections::BTreeMap;

use crate::history::{Event, What};

/// A stretch of time for which one client took one lock for its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Belief<'a> {
    /// Who.
    pub lane: &'a str,
    /// The lock.
    pub lock: &'a str,
    /// Its fencing token, if it had one.
    pub token: Option<u64>,
    /// From when.
    pub from: u64,
    /// To when nothing told it otherwise; `u64::MAX` if nothing did: the history stops, the belief does not.
    pub to: u64,
    /// Until when it might believe at most, as it was told last.
    pub until: Option<u64>,
    /// What began it.
    pub origin: Origin,
    /// What ended it.
    pub end: End,
}

/// What begins a belief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The lock was granted.
    Grant,
    /// The client was told of the same hold again, after what it had been told before was over.
    Again,
}

/// What ends a belief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client gave the lock back.
    GaveBack,
    /// It was told of the loss.
    Lost,
    /// It was killed.
    Killed,
    /// A later belief of the same client in the same lock took its place.
    Replaced,
    /// Nothing, as far as the history goes.
    Open,
}

impl Belief<'_> {
    /// When it was over for a client that minds what it was told.
    #[must_use]
    pub fn believed_to(&self) -> u64 {
        let to = self.until.map_or(self.to, |until| self.to.min(until));
        to.max(self.from)
    }
}

/// All beliefs of a history, in the order in which they began.
#[must_use]
pub fn beliefs(history: &[Event]) -> Vec<Belief<'_>> {
    let mut all = Beliefs::default();
    for event in history {
        all.note(event);
    }
    all.found
}

/// A belief that begins with this event, and of which no end is known.
fn fresh<'a>(
    event: &'a Event,
    lock: &'a str,
    token: Option<u64>,
    until: Option<u64>,
) -> Belief<'a> {
    Belief {
        lane: &event.lane,
        lock,
        token,
        from: event.at,
        to: u64::MAX,
        until,
        origin: Origin::Grant,
        end: End::Open,
    }
}

#[derive(Default)]
struct Beliefs<'a> {
    found: Vec<Belief<'a>>,
    /// What each lane believes of each lock, by index.
    open: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Beliefs<'a> {
    fn note(&mut self, event: &'a Event) {
        let (at, lane) = (event.at, event.lane.as_str());
        match &event.what {
            What::Believes { lock, token, until } => {
                self.granted(fresh(event, lock, *token, *until));
            }
            What::Renewed { lock, until } => self.renewed(event, lock, *until),
            What::Lost { lock, .. } => self.close(at, (lane, lock), End::Lost),
            What::GaveBack { lock } => self.close(at, (lane, lock), End::GaveBack),
            What::Killed => self.killed(event),
            _ => {}
        }
    }

    fn granted(&mut self, mut belief: Belief<'a>) {
        if let Some(known) = self.known(belief.lane, belief.lock)
            && known.token == belief.token
        {
            if known.until.is_none_or(|until| belief.from <= until) {
                // A re-entry: the same hold, told again.
                known.until = belief.until;
                return;
            }
            if known.token.is_some() {
                belief.origin = Origin::Again;
            }
        }
        self.begin(belief);
    }

    fn renewed(&mut self, event: &'a Event, lock: &'a str, until: u64) {
        let Some(known) = self.known(&event.lane, lock) else {
            return;
        };
        if known.until.is_none_or(|before| event.at <= before) {
            known.until = Some(until);
            return;
        }
        // In between it did not believe, so that this is a stretch of its own.
        let mut belief = fresh(event, lock, known.token, Some(until));
        belief.origin = Origin::Again;
        self.begin(belief);
    }

    fn begin(&mut self, belief: Belief<'a>) {
        self.close(belief.from, (belief.lane, belief.lock), End::Replaced);
        self.open
            .insert((belief.lane, belief.lock), self.found.len());
        self.found.push(belief);
    }

    fn known(&mut self, lane: &'a str, lock: &'a str) -> Option<&mut Belief<'a>> {
        let index = *self.open.get(&(lane, lock))?;
        self.found.get_mut(index)
    }

    fn close(&mut self, at: u64, whose: (&'a str, &'a str), end: End) {
        if let Some(index) = self.open.remove(&whose) {
            self.found[index].to = at;
            self.found[index].end = end;
        }
    }

    fn killed(&mut self, event: &'a Event) {
        let lane = event.lane.as_str();
        let of_lane = self.open.range((lane, "")..);
        let of_lane = of_lane.take_while(|((whose, _), _)| *whose == lane);
        let locks: Vec<&str> = of_lane.map(|((_, lock), _)| *lock).collect();
        for lock in locks {
            self.close(event.at, (lane, lock), End::Killed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::planted::{MS, at, believes, gave_back, lost, renewed};

    #[test]
    fn a_belief_ends_with_what_ends_it() {
        let cases = [
            (gave_back("x"), End::GaveBack),
            (lost("x"), End::Lost),
            (What::Killed, End::Killed),
            (What::Paused, End::Open),
        ];
        for (what, end) in cases {
            let history = [
                at(1, "a", believes("x", 7, 10)),
                at(3, "a", what),
                at(5, "b", What::Paused),
            ];
            let found = beliefs(&history);
            assert_eq!((found.len(), found[0].end), (1, end));
            let to = if end == End::Open { 10 } else { 3 };
            assert_eq!(found[0].believed_to(), to * MS);
        }
    }

    #[test]
    fn re_entry_is_one_belief_and_a_late_renewal_is_two() {
        let history = [
            at(1, "a", believes("x", 7, 10)),
            at(2, "a", believes("x", 7, 12)),
            at(11, "a", renewed("x", 20)),
            at(25, "a", renewed("x", 40)),
            at(30, "a", gave_back("x")),
        ];
        let found = beliefs(&history);
        let spans: Vec<_> = found
            .iter()
            .map(|b| (b.from / MS, b.believed_to() / MS))
            .collect();
        assert_eq!(spans, [(1, 20), (25, 30)]);
        assert_eq!(found[1].origin, Origin::Again);
    }

    #[test]
    fn killing_one_lane_leaves_the_beliefs_of_the_next() {
        let history = [
            at(1, "a", believes("x", 7, 10)),
            at(1, "a", believes("y", 7, 10)),
            at(1, "aa", believes("z", 7, 10)),
            at(2, "a", What::Killed),
        ];
        let ends: Vec<_> = beliefs(&history).iter().map(|b| b.end).collect();
        assert_eq!(ends, [End::Killed, End::Killed, End::Open]);
    }
}
