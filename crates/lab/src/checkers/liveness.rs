//! M7: once the last fault is over, every question is answered within a bound, whoever waits for a lock that nobody
//! has gets it, and nothing stays held by nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::beliefs::{End, beliefs};
use super::waits::{Wait, WaitEnd, calls, waits};
use super::{Finding, Model, seconds};
use crate::history::{Event, What, nanos};

/// What did not come to an end within `bound` after the last fault. The history must go on for at least that long: what
/// is open when it stops counts as open for ever. Who is still stopped or cut off then is excused.
#[must_use]
pub fn liveness(history: &[Event], bound: Duration) -> Vec<Finding> {
    let run = Run {
        over: history.last().map_or(0, |event| event.at),
        calm: last_fault(history),
        bound: nanos(bound),
        absent: absent(history),
    };
    let mut found = run.unanswered(history);
    found.extend(run.forgotten(history));
    found.extend(run.held_by_nobody(history));
    found.sort_by_key(|finding| finding.at);
    found
}

struct Run<'a> {
    /// When the history stops.
    over: u64,
    /// When the last fault healed.
    calm: u64,
    bound: u64,
    /// Who is stopped or cut off when it stops.
    absent: BTreeSet<&'a str>,
}

/// The last moment at which a fault began or ended.
fn last_fault(history: &[Event]) -> u64 {
    let is_fault = |what: &What| {
        matches!(
            what,
            What::Paused
                | What::Resumed
                | What::Killed
                | What::Restarted { .. }
                | What::ClockMoved { .. }
                | What::LinkBroken { .. }
                | What::LinkHealed
        )
    };
    let last = history.iter().rev().find(|event| is_fault(&event.what));
    last.map_or(0, |event| event.at)
}

fn absent(history: &[Event]) -> BTreeSet<&str> {
    let mut absent = BTreeSet::new();
    for event in history {
        match event.what {
            What::Paused | What::LinkBroken { .. } => absent.insert(event.lane.as_str()),
            What::Resumed | What::LinkHealed => absent.remove(event.lane.as_str()),
            _ => continue,
        };
    }
    absent
}

impl Run<'_> {
    fn finding(at: u64, words: String) -> Finding {
        Finding::new(Model::Liveness, at, words)
    }

    /// Until when something must have happened that was due at `at`, faults permitting.
    fn deadline(&self, at: u64) -> u64 {
        at.max(self.calm).saturating_add(self.bound)
    }

    fn unanswered(&self, history: &[Event]) -> Vec<Finding> {
        let mut found = Vec::new();
        for call in calls(history) {
            let (asked, deed) = (seconds(call.from), call.deed);
            let deadline = self.deadline(call.from);
            let words = match call.answer {
                Some((at, _)) if at > deadline => {
                    format!("{} was answered only at {}", call.lane, seconds(at))
                }
                None if call.killed.is_none() && !self.absent.contains(call.lane) => {
                    format!("{} was never answered", call.lane)
                }
                _ => continue,
            };
            let words = format!("{words}: it asked {deed:?} at {asked}");
            found.push(Run::finding(deadline.min(self.over), words));
        }
        found
    }

    /// Waits that stay open although nobody believes to hold the lock.
    fn forgotten(&self, history: &[Event]) -> Vec<Finding> {
        let mut free_since: BTreeMap<&str, u64> = BTreeMap::new();
        for belief in beliefs(history) {
            let known = free_since.entry(belief.lock).or_default();
            // Who believes at the end of the history still has the lock.
            let still = belief.end == End::Open && belief.believed_to() >= self.over;
            let ended = if still {
                u64::MAX
            } else {
                belief.believed_to()
            };
            *known = ended.max(*known);
        }
        let is_open =
            |wait: &Wait<'_>| wait.end == WaitEnd::Open && !self.absent.contains(wait.lane);
        let open = waits(history).into_iter().filter(is_open);
        let forgotten = open.filter_map(|wait| {
            let free = free_since.get(wait.lock).copied().unwrap_or(0);
            let deadline = self.deadline(free.max(wait.from));
            let words = format!(
                "{} waits since {} for the lock {:?}, which nobody has had since {}",
                wait.lane,
                seconds(wait.from),
                wait.lock,
                seconds(free)
            );
            (deadline < self.over).then(|| Run::finding(deadline, words))
        });
        forgotten.collect()
    }

    /// Locks that a server still gives to who does not believe in them any more.
    fn held_by_nobody(&self, history: &[Event]) -> Vec<Finding> {
        let mut said: BTreeMap<(&str, &str), (u64, Option<&str>)> = BTreeMap::new();
        for event in history {
            if let What::Holds { lock, owner } = &event.what {
                said.insert((&event.lane, lock), (event.at, owner.as_deref()));
            }
        }
        let beliefs = beliefs(history);
        let stuck = said.into_iter().filter_map(|((server, lock), (since, owner))| {
            let owner = owner?;
            let of_owner = beliefs.iter().filter(|belief| belief.lane == owner && belief.lock == lock);
            let believed = of_owner.map(|belief| belief.believed_to()).max();
            let deadline = self.deadline(believed.unwrap_or(since).max(since));
            let words = format!(
                "{server} says that {owner} holds the lock {lock:?}, which it has not believed since {}",
                seconds(believed.unwrap_or(0))
            );
            (deadline < self.over).then(|| Run::finding(deadline, words))
        });
        stuck.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::planted::{
        asked, at, believes, done, failed, gave_back, holds, lost, trusts, unknown, waits_for,
    };

    const BOUND: Duration = Duration::from_millis(100);

    fn end() -> Event {
        at(1000, "z", gave_back("nothing"))
    }

    // proves: L7
    #[test]
    fn a_question_without_an_answer_in_time_is_found() {
        let never = [at(1, "a", asked(1)), end()];
        let found = liveness(&never, BOUND);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "M7 liveness, at 0.101000 s: a was never answered: it asked \"acquire x\" at 0.001000 s"
        );
        let late = [at(1, "a", asked(1)), at(102, "a", done(1)), end()];
        assert!(
            liveness(&late, BOUND)[0]
                .words
                .contains("only at 0.102000 s")
        );
        let after_the_fault = [
            at(1, "a", asked(1)),
            at(50, "server", What::Restarted { with_data: true }),
            at(151, "a", failed(1)),
            end(),
        ];
        assert_eq!(liveness(&after_the_fault, BOUND).len(), 1);
        // The run is over: nobody will answer any more.
        assert_eq!(liveness(&[at(1, "a", asked(1))], BOUND).len(), 1);
        // The kill of another is no answer.
        let other = [at(1, "a", asked(1)), at(2, "b", What::Killed), end()];
        assert_eq!(liveness(&other, BOUND).len(), 1);
    }

    #[test]
    fn a_waiter_whom_nobody_serves_is_found() {
        let history = [
            at(1, "a", believes("x", 1, 50)),
            at(2, "b", waits_for("x")),
            at(20, "a", lost("x")),
            end(),
        ];
        let found = liveness(&history, BOUND);
        assert_eq!(found.len(), 1);
        assert!(found[0].words.starts_with("b waits since 0.002000 s"));
        // Of a lock that nobody ever had; of one whose last belief lapsed.
        assert_eq!(
            liveness(&[at(2, "b", waits_for("x")), end()], BOUND).len(),
            1
        );
        let lapsed = [
            at(1, "a", believes("x", 1, 50)),
            at(2, "b", waits_for("x")),
            end(),
        ];
        assert_eq!(liveness(&lapsed, BOUND).len(), 1);
    }

    #[test]
    fn a_lock_that_nobody_holds_is_found() {
        for what in [What::Killed, gave_back("x"), lost("x")] {
            let history = [
                at(1, "a", trusts("x")),
                at(2, "redis", holds("x", Some("a"))),
                at(20, "a", what),
                end(),
            ];
            let found = liveness(&history, BOUND);
            assert_eq!(found.len(), 1, "{history:?}");
            assert!(
                found[0].words.contains("a holds the lock \"x\""),
                "{}",
                found[0]
            );
        }
        let stranger = [at(2, "redis", holds("x", Some("ghost"))), end()];
        assert_eq!(liveness(&stranger, BOUND).len(), 1);
    }

    // proves: L7
    #[test]
    fn what_ends_in_time_is_good() {
        let cases = [
            vec![at(1, "a", asked(1)), at(101, "a", done(1))],
            // The bound begins where the last fault ends; unknown is an answer.
            vec![
                at(1, "a", asked(1)),
                at(500, "a", What::Paused),
                at(600, "a", What::Resumed),
                at(700, "a", unknown(1)),
            ],
            // Who is dead, stopped or cut off need not answer.
            vec![at(1, "a", asked(1)), at(2, "a", What::Killed)],
            vec![
                at(1, "a", asked(1)),
                at(2, "a", What::Paused),
                at(3, "a", waits_for("x")),
            ],
            // The lock is with somebody.
            vec![
                at(1, "a", trusts("x")),
                at(2, "b", waits_for("x")),
                at(3, "r", holds("x", Some("a"))),
            ],
            // The server forgets the dead in time.
            vec![
                at(1, "a", trusts("x")),
                at(2, "redis", holds("x", Some("a"))),
                at(20, "a", What::Killed),
                at(110, "redis", holds("x", None)),
            ],
        ];
        for mut history in cases {
            history.push(end());
            assert_eq!(liveness(&history, BOUND), [], "{history:?}");
        }
        assert!(liveness(&[], BOUND).is_empty());
    }
}
