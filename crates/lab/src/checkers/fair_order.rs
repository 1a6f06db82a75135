//! M6: who asked first is served first, among those who still want the lock and can take it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::waits::{Wait, WaitEnd, waits};
use super::{Finding, Model, seconds};
use crate::history::{Event, What, nanos};

/// Grants out of turn. Two who began to wait within `blur` of each other have no order: their questions were on the
/// way at the same time. Who stood still or was cut off meanwhile may be passed: it was taken for dead.
#[must_use]
pub fn fair_order(history: &[Event], blur: Duration) -> Vec<Finding> {
    let troubles = troubles(history);
    let mut by_lock: BTreeMap<&str, Vec<Wait<'_>>> = BTreeMap::new();
    for wait in waits(history) {
        by_lock.entry(wait.lock).or_default().push(wait);
    }
    let of_lock = |waits: Vec<Wait<'_>>| out_of_turn(&waits, &troubles, nanos(blur));
    by_lock.into_values().flat_map(of_lock).collect()
}

/// From when to when each lane stood still or was cut off.
type Troubles<'a> = BTreeMap<&'a str, Vec<(u64, u64)>>;

fn troubles(history: &[Event]) -> Troubles<'_> {
    let mut found = Troubles::new();
    for event in history {
        let of_lane = found.entry(&event.lane).or_default();
        match event.what {
            What::Paused | What::LinkBroken { .. } => of_lane.push((event.at, u64::MAX)),
            What::Resumed | What::LinkHealed => {
                let open = of_lane.iter_mut().rev().find(|(_, to)| *to == u64::MAX);
                if let Some((_, to)) = open {
                    *to = event.at;
                }
            }
            _ => {}
        }
    }
    found
}

fn out_of_turn(waits: &[Wait<'_>], troubles: &Troubles<'_>, blur: u64) -> Vec<Finding> {
    let granted = waits.iter().filter(|wait| wait.end == WaitEnd::Granted);
    let mut granted: Vec<_> = granted.collect();
    granted.sort_by_key(|wait| wait.to);
    let mut found = Vec::new();
    let mut arriving = waits.iter().peekable();
    let mut waiting: Vec<&Wait<'_>> = Vec::new();
    for served in granted {
        while let Some(wait) = arriving.next_if(|wait| wait.from < served.to) {
            waiting.push(wait);
        }
        waiting.retain(|wait| wait.to > served.to || wait.end == WaitEnd::Open);
        let passed = waiting.iter().find(|wait| {
            let was_first = wait.from.saturating_add(blur) < served.from;
            was_first && wait.lane != served.lane && !had_trouble(wait, served.to, troubles)
        });
        found.extend(passed.map(|passed| finding(served, passed)));
    }
    found
}

fn had_trouble(wait: &Wait<'_>, by: u64, troubles: &Troubles<'_>) -> bool {
    let of_lane = troubles.get(wait.lane).into_iter().flatten();
    of_lane
        .into_iter()
        .any(|(from, to)| *from <= by && *to >= wait.from)
}

fn finding(served: &Wait<'_>, passed: &Wait<'_>) -> Finding {
    let words = format!(
        "{} got the lock {:?} for which it waited since {}, before {}, which waited since {}",
        served.lane,
        served.lock,
        seconds(served.from),
        passed.lane,
        seconds(passed.from)
    );
    Finding::new(Model::FairOrder, served.to, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::planted::{asked, at, believes, failed, gave_back, waits_for};

    const BLUR: Duration = Duration::from_millis(5);

    /// A holds; B waits since 10, C since 20; C is served at 40.
    fn passed(meanwhile: Vec<Event>) -> Vec<Event> {
        let mut history = vec![
            at(1, "a", believes("x", 1, 99)),
            at(9, "b", asked(1)),
            at(10, "b", waits_for("x")),
            at(20, "c", waits_for("x")),
        ];
        history.extend(meanwhile);
        history.push(at(39, "a", gave_back("x")));
        history.push(at(40, "c", believes("x", 3, 99)));
        history
    }

    // proves: L11
    #[test]
    fn who_is_passed_is_found() {
        let mut history = passed(vec![]);
        let found = fair_order(&history, BLUR);
        assert_eq!(found.len(), 1, "who never gets it is passed too");
        history.push(at(50, "b", believes("x", 4, 99)));
        assert_eq!(fair_order(&history, BLUR), found);
        assert_eq!(
            found[0].words,
            "c got the lock \"x\" for which it waited since 0.020000 s, before b, which waited since 0.010000 s"
        );
    }

    #[test]
    fn what_excuses_nothing_is_found() {
        let cases = [
            // Somebody else was killed, stood still, gave up.
            vec![at(30, "d", What::Killed)],
            vec![at(30, "d", What::Paused)],
            vec![at(30, "b", failed(7))],
            // It gave up waiting for another lock.
            vec![at(30, "b", gave_back("y"))],
        ];
        for meanwhile in cases {
            let history = passed(meanwhile);
            assert_eq!(fair_order(&history, BLUR).len(), 1, "{history:?}");
        }
        // Trouble that was over before it began to wait.
        let mut history = passed(vec![]);
        history.insert(0, at(0, "b", What::Paused));
        history.insert(1, at(1, "b", What::Resumed));
        assert_eq!(fair_order(&history, BLUR).len(), 1);
    }

    // proves: L11
    #[test]
    fn who_cannot_take_it_may_be_passed() {
        let broken = What::LinkBroken {
            how: "cut".to_owned(),
        };
        let cases = [
            vec![at(30, "b", What::Killed)],
            vec![at(30, "b", What::Paused)],
            vec![at(30, "b", What::Paused), at(31, "b", What::Resumed)],
            vec![at(30, "b", broken)],
            vec![at(30, "b", failed(1))],
            // It went, and came again behind the other.
            vec![at(30, "b", gave_back("x")), at(31, "b", waits_for("x"))],
            vec![at(30, "b", waits_for("x"))],
        ];
        for meanwhile in cases {
            let history = passed(meanwhile);
            assert_eq!(fair_order(&history, BLUR), [], "{history:?}");
        }
    }

    #[test]
    fn what_came_at_once_has_no_order() {
        assert!(fair_order(&passed(vec![]), Duration::from_millis(11)).is_empty());
        let in_turn = [
            at(10, "b", waits_for("x")),
            at(20, "c", waits_for("x")),
            at(30, "b", believes("x", 2, 99)),
            at(35, "b", believes("x", 2, 99)),
            at(40, "b", gave_back("x")),
            at(41, "b", waits_for("x")),
            at(50, "c", believes("x", 3, 99)),
        ];
        assert!(fair_order(&in_turn, BLUR).is_empty());
    }
}
