//! Who waited for which lock, and who asked what: everything that has a beginning and an end other than a belief.

use std::collections::BTreeMap;

use crate::history::{Event, What};

/// A stretch of time for which one client waited for one lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait<'a> {
    /// Who.
    pub lane: &'a str,
    /// The lock.
    pub lock: &'a str,
    /// From when.
    pub from: u64,
    /// To when; the end of the history if it had none.
    pub to: u64,
    /// How it ended.
    pub end: WaitEnd,
    call: Option<u64>,
}

/// What ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitEnd {
    /// The lock was granted.
    Granted,
    /// The client stopped waiting: an error, a deadline, its own wish.
    Left,
    /// The client was killed.
    Killed,
    /// Nothing, as far as the history goes.
    Open,
}

/// A question and its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call<'a> {
    /// Who asked.
    pub lane: &'a str,
    /// What.
    pub deed: &'a str,
    /// When.
    pub from: u64,
    /// When it was answered, and how; `None` if never.
    pub answer: Option<(u64, &'a What)>,
    /// When its client was killed, if that is why it has no answer.
    pub killed: Option<u64>,
}

/// All waits of a history, in the order in which they began.
#[must_use]
pub fn waits(history: &[Event]) -> Vec<Wait<'_>> {
    let mut all = Waits::default();
    for event in history {
        all.note(event);
    }
    let over = history.last().map_or(0, |event| event.at);
    for index in all.open.into_values().flatten() {
        all.found[index].to = over;
    }
    all.found
}

#[derive(Default)]
struct Waits<'a> {
    found: Vec<Wait<'a>>,
    open: BTreeMap<&'a str, Vec<usize>>,
    /// The question that each lane asked last: a wait that follows belongs to it.
    asked: BTreeMap<&'a str, u64>,
}

impl<'a> Waits<'a> {
    fn note(&mut self, event: &'a Event) {
        let lane = event.lane.as_str();
        match &event.what {
            What::Asked { call, .. } => {
                self.asked.insert(lane, *call);
            }
            What::Waits { lock } => {
                self.close(event, WaitEnd::Left, |wait| wait.lock == lock);
                self.begin(event, lock);
            }
            What::Believes { lock, .. } => {
                self.close(event, WaitEnd::Granted, |wait| wait.lock == lock);
            }
            What::Lost { lock, .. } | What::GaveBack { lock } => {
                self.close(event, WaitEnd::Left, |wait| wait.lock == lock);
            }
            What::Failed { call, .. } | What::Unknown { call, .. } => {
                self.close(event, WaitEnd::Left, |wait| {
                    wait.call.is_none_or(|of| of == *call)
                });
            }
            What::Killed => self.close(event, WaitEnd::Killed, |_| true),
            _ => {}
        }
    }

    fn begin(&mut self, event: &'a Event, lock: &'a str) {
        let lane = event.lane.as_str();
        self.open.entry(lane).or_default().push(self.found.len());
        let call = self.asked.get(lane).copied();
        let (from, to, end) = (event.at, event.at, WaitEnd::Open);
        self.found.push(Wait {
            lane,
            lock,
            from,
            to,
            end,
            call,
        });
    }

    fn close(&mut self, event: &'a Event, end: WaitEnd, which: impl Fn(&Wait<'a>) -> bool) {
        let Some(open) = self.open.get_mut(event.lane.as_str()) else {
            return;
        };
        open.retain(|index| {
            let wait = &mut self.found[*index];
            let ends = which(wait);
            if ends {
                (wait.to, wait.end) = (event.at, end);
            }
            !ends
        });
    }
}

/// All questions of a history, in the order in which they were asked.
#[must_use]
pub fn calls(history: &[Event]) -> Vec<Call<'_>> {
    let mut found: Vec<Call<'_>> = Vec::new();
    let mut open: BTreeMap<&str, BTreeMap<u64, usize>> = BTreeMap::new();
    for event in history {
        let of_lane = open.entry(&event.lane).or_default();
        match &event.what {
            What::Asked { call, deed } => {
                of_lane.insert(*call, found.len());
                let (lane, from) = (event.lane.as_str(), event.at);
                let (answer, killed) = (None, None);
                found.push(Call {
                    lane,
                    deed,
                    from,
                    answer,
                    killed,
                });
            }
            What::Done { call, .. } | What::Failed { call, .. } | What::Unknown { call, .. } => {
                if let Some(index) = of_lane.remove(call) {
                    found[index].answer = Some((event.at, &event.what));
                }
            }
            What::Killed => {
                for index in std::mem::take(of_lane).into_values() {
                    found[index].killed = Some(event.at);
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::planted::{MS, asked, at, believes, done, failed, unknown, waits_for};

    #[test]
    fn a_wait_ends_with_its_own_answer() {
        let history = [
            at(1, "a", asked(1)),
            at(1, "a", waits_for("x")),
            at(2, "a", failed(9)),
            at(3, "a", failed(1)),
            at(4, "b", asked(1)),
            at(4, "b", waits_for("x")),
            at(5, "b", done(1)),
            at(5, "b", believes("x", 1, 9)),
            at(6, "c", waits_for("x")),
            at(7, "c", unknown(3)),
            at(8, "d", waits_for("x")),
            at(9, "d", What::Killed),
            at(9, "e", waits_for("x")),
        ];
        let ends: Vec<_> = waits(&history)
            .iter()
            .map(|w| (w.lane, w.to / MS, w.end))
            .collect();
        let expected = [
            ("a", 3, WaitEnd::Left),
            ("b", 5, WaitEnd::Granted),
            ("c", 7, WaitEnd::Left),
            ("d", 9, WaitEnd::Killed),
            ("e", 9, WaitEnd::Open),
        ];
        assert_eq!(ends, expected);
    }

    #[test]
    fn calls_find_their_answers_by_lane_and_number() {
        let history = [
            at(1, "a", asked(1)),
            at(1, "b", asked(1)),
            at(2, "b", done(1)),
            at(3, "a", What::Killed),
        ];
        let calls = calls(&history);
        assert_eq!((calls[0].answer, calls[0].killed), (None, Some(3 * MS)));
        assert_eq!(calls[1].answer, Some((2 * MS, &history[2].what)));
    }
}
