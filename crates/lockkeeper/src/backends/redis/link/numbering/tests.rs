//! What two plain commands come to; and every order in which those of several keepers can reach a server.

use super::*;

const GUESS: u64 = 1_790_000_000_000_001;

#[test]
fn it_holds_by_its_number_only() {
    let number = |number: u64| Value::Int(number.cast_signed());
    let told = |taken, counted| Plainly::told([taken, counted], GUESS);
    let refusal = || redis::parse_redis_value(b"-OOM no memory\r\n").unwrap();
    assert_eq!(told(Value::Okay, number(GUESS)), Ok(Plainly::Holds));
    for other in [GUESS + 1, GUESS - 1, 1] {
        let told = told(Value::Okay, number(other));
        assert_eq!(told, Ok(Plainly::Misnumbered(Some(other))));
    }
    for none in [refusal(), Value::Nil] {
        let told = told(Value::Okay, none);
        assert_eq!(told, Ok(Plainly::Misnumbered(None)));
    }
    let busy = told(Value::Nil, number(GUESS));
    assert_eq!(busy, Ok(Plainly::Busy));
    assert!(told(refusal(), number(GUESS)).is_err(), "nothing was set");
}

#[test]
fn doubts_end_with_the_lease_they_are_about() {
    let doubts = Doubts::default();
    let doubt = |byte: u8, now: u64, until: u64| Doubt {
        doubts: &doubts,
        claim: ClaimId::from_bytes([byte; 16]),
        now: Moment::from_nanos(now),
        doubted: Some(Doubted {
            guess: GUESS,
            until: Moment::from_nanos(until),
        }),
    };
    let about = |byte: u8| doubts.guess_of(&ClaimId::from_bytes([byte; 16])) == Some(GUESS);
    drop(doubt(1, 0, 10));
    doubt(2, 0, 10).over();
    assert_eq!([about(1), about(2)], [true, false]);
    drop(doubt(3, 10, 20));
    assert_eq!([about(1), about(3)], [false, true]);
    doubts.forget(&ClaimId::from_bytes([3; 16]));
    assert!(!about(3));
}

/// What the proof rests on; each can be left out, to see that it is needed.
#[derive(Clone, Copy)]
struct Rules {
    /// The number before the guess was told: the guess is not ahead of the counter.
    told_before: bool,
    /// A claim holds only by the number that it got.
    compares: bool,
    /// The claim takes its place before it asks for a number.
    place_first: bool,
    /// Who lines up behind a claim takes a higher number than that one's.
    goes_above: bool,
    /// A claim that nobody knows about goes out before it comes in again.
    settles: bool,
    /// Even then it is not believed under its guess, since what was sent may reach the server after that.
    keeps_in_mind: bool,
}

const ALL: Rules = Rules {
    told_before: true,
    compares: true,
    place_first: true,
    goes_above: true,
    settles: true,
    keeps_in_mind: true,
};

/// A keeper's claim on the one name, as far as it has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Step {
    /// Nothing is sent.
    Begins,
    /// The first of two commands was carried out, and by it this number is known: its place or its count.
    Half {
        taken: bool,
        count: u64,
    },
    /// Both were, and nobody heard the answer.
    Unheard,
    /// It is to come in by the script.
    Enters,
    Waits,
    /// It was told that it holds, by this number.
    Holds(u64),
    Over,
}

/// The server, and who asks it. The last keeper uses scripts only; another claim of the bucket, and an operator who breaks
/// whoever is first, act once each.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct World {
    counter: u64,
    /// Who stands in line for the name, and under which number; the first holds.
    line: Vec<(usize, u64)>,
    steps: [Step; 3],
    guesses: [u64; 2],
    /// Who took a place, in this order; those who came in anew did so anew.
    places: Vec<usize>,
    /// Which of these places each was told to hold, and by which number.
    told: [Option<(usize, u64)>; 3],
    others: [bool; 2],
    /// One answer may be lost, or one question be late.
    losses: u8,
    /// Whose question is on its way still, and how many of its two commands.
    late: Option<(usize, u8)>,
    /// Who was not answered.
    doubted: Option<usize>,
}

impl World {
    fn begin(guesses: [u64; 2]) -> Self {
        Self {
            counter: 10,
            line: Vec::new(),
            steps: [Step::Begins, Step::Begins, Step::Enters],
            guesses,
            places: Vec::new(),
            told: [None; 3],
            others: [true; 2],
            losses: 1,
            late: None,
            doubted: None,
        }
    }

    fn stands(&self, who: usize) -> Option<u64> {
        let found = self.line.iter().find(|(one, _)| *one == who);
        found.map(|(_, number)| *number)
    }

    /// `SET NX`.
    fn take(&mut self, who: usize) -> bool {
        let free = self.line.is_empty();
        if free {
            self.line.push((who, self.guesses[who]));
            self.places.push(who);
        }
        free
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn grant(&mut self, who: usize, number: u64) {
        let place = self.places.iter().rposition(|one| *one == who);
        self.told[who] = place.map(|place| (place, number));
        self.steps[who] = Step::Holds(number);
    }

    /// The script that lets a claim in, which numbers and lines up in one step.
    fn enter(&mut self, who: usize, rules: Rules) {
        if let Some(number) = self.stands(who) {
            if rules.keeps_in_mind && self.doubted == Some(who) && number == self.guesses[who] {
                self.steps[who] = Step::Unheard;
                return;
            }
            return self.grant(who, number);
        }
        let last = self.line.last().map(|(_, number)| *number);
        if let Some(last) = last.filter(|last| rules.goes_above && *last > self.counter) {
            self.counter = last;
        }
        let number = self.count();
        self.places.push(who);
        // The queue is sorted by number; of two alike the new one may come first.
        let place = self.line.partition_point(|(_, other)| *other < number);
        self.line.insert(place, (who, number));
        match self.line.len() {
            1 => self.grant(who, number),
            _ => self.steps[who] = Step::Waits,
        }
    }

    fn leave(&mut self, who: usize) {
        let Some(place) = self.line.iter().position(|(one, _)| *one == who) else {
            return;
        };
        self.line.remove(place);
        if place == 0
            && let Some((next, number)) = self.line.first().copied()
            && self.steps[next] == Step::Waits
        {
            self.grant(next, number);
        }
    }

    /// What becomes of this keeper's next step; with a lost answer where one can be lost.
    fn advance(&self, who: usize, rules: Rules) -> Vec<Self> {
        let mut next = self.clone();
        match self.steps[who] {
            Step::Begins if rules.place_first => {
                let mut late = next.clone();
                let taken = next.take(who);
                next.steps[who] = Step::Half { taken, count: 0 };
                if self.losses > 0 {
                    late.lose(who);
                    late.late = Some((who, 2));
                    return vec![next, late];
                }
            }
            Step::Begins => {
                let count = next.count();
                next.steps[who] = Step::Half { taken: true, count };
            }
            Step::Half { taken, count } => {
                let (taken, count) = match rules.place_first {
                    true => (taken, next.count()),
                    false => (next.take(who), count),
                };
                let mut lost = next.clone();
                next.hear(who, (taken, count), rules);
                if self.losses == 0 {
                    return vec![next];
                }
                lost.lose(who);
                return vec![next, lost];
            }
            Step::Unheard => {
                if rules.settles {
                    next.leave(who);
                }
                next.steps[who] = Step::Enters;
            }
            Step::Enters => next.enter(who, rules),
            Step::Holds(_) => {
                next.leave(who);
                next.steps[who] = Step::Over;
            }
            Step::Waits | Step::Over => return Vec::new(),
        }
        vec![next]
    }

    /// Nobody hears what becomes of its question.
    fn lose(&mut self, who: usize) {
        self.losses -= 1;
        self.doubted = Some(who);
        self.steps[who] = Step::Unheard;
    }

    /// The next command of a question that nobody waits for any more.
    fn arrive_late(&self) -> Option<Self> {
        let (who, left) = self.late?;
        let mut next = self.clone();
        next.late = (left == 2).then_some((who, 1));
        match left {
            2 => drop(next.take(who)),
            _ => drop(next.count()),
        }
        Some(next)
    }

    fn hear(&mut self, who: usize, (taken, count): (bool, u64), rules: Rules) {
        match (taken, count == self.guesses[who] || !rules.compares) {
            (true, true) => self.grant(who, self.guesses[who]),
            (true, false) => self.steps[who] = Step::Unheard,
            (false, _) => self.steps[who] = Step::Enters,
        }
    }

    fn successors(&self, rules: Rules) -> Vec<Self> {
        let mut all: Vec<Self> = (0..3).flat_map(|who| self.advance(who, rules)).collect();
        all.extend(self.arrive_late());
        for (other, open) in self.others.into_iter().enumerate() {
            if !open {
                continue;
            }
            let mut next = self.clone();
            next.others[other] = false;
            match (other, self.line.first().copied()) {
                (0, _) => drop(next.count()),
                // One who breaks others sees them in the line.
                (_, Some((first, _))) => next.leave(first),
                (_, None) => continue,
            }
            all.push(next);
        }
        all
    }

    /// Whoever took the place later was told a higher number; and whoever is first knows it, once nobody is on the way.
    fn is_right(&self) -> bool {
        let mut told: Vec<(usize, u64)> = self.told.into_iter().flatten().collect();
        told.sort_unstable();
        let rises = told.is_sorted_by(|a, b| a.1 < b.1);
        let under_way = |step: &Step| matches!(step, Step::Half { .. } | Step::Unheard);
        let settled = !self.steps.iter().any(under_way);
        let first = self.line.first();
        rises && !(settled && first.is_some_and(|(who, _)| self.steps[*who] == Step::Waits))
    }
}

/// A world that is not right, if one can be reached.
fn counter_example(rules: Rules) -> Option<World> {
    let guesses: &[[u64; 2]] = match rules.told_before {
        // As told by the last number, or by one before.
        true => &[[11, 11], [11, 10], [10, 11], [10, 10]],
        false => &[[12, 11], [11, 12], [12, 12], [13, 11]],
    };
    let mut open: Vec<World> = guesses.iter().map(|both| World::begin(*both)).collect();
    let mut seen = std::collections::BTreeSet::new();
    while let Some(world) = open.pop() {
        if !world.is_right() {
            return Some(world);
        }
        if seen.insert(world.clone()) {
            open.extend(world.successors(rules));
        }
    }
    assert!(seen.len() > 5_000, "only {} worlds", seen.len());
    None
}

// proves: F1
#[test]
fn in_no_order_of_commands_is_a_later_claim_told_a_lower_number() {
    assert!(counter_example(ALL).is_none());
}

// proves: F1
#[test]
fn each_rule_is_needed() {
    let without = [
        (
            "told before",
            Rules {
                told_before: false,
                ..ALL
            },
        ),
        (
            "compares",
            Rules {
                compares: false,
                ..ALL
            },
        ),
        (
            "place first",
            Rules {
                place_first: false,
                ..ALL
            },
        ),
        (
            "goes above",
            Rules {
                goes_above: false,
                ..ALL
            },
        ),
        (
            "settles",
            Rules {
                settles: false,
                ..ALL
            },
        ),
        (
            "keeps in mind",
            Rules {
                keeps_in_mind: false,
                ..ALL
            },
        ),
    ];
    for (rule, rules) in without {
        assert!(counter_example(rules).is_some(), "{rule}");
    }
}
