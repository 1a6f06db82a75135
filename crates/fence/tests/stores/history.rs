//! What the writers did and what was seen meanwhile, and whether a fence allows it.
//!
//! A fence is a register whose token never falls. The history is judged by what must have come before what:
//! a write that began after another had been acknowledged, on the clock that all processes share.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use lockkeeper_fence::{ClaimMark, Pass, Token};

/// How a write ended, as its writer saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    /// With the highest token that the refusal showed.
    Refused(Token),
    /// An error, or its writer was killed.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) pass: Pass,
    pub(crate) start: u64,
    /// `u64::MAX` if nobody knows.
    pub(crate) end: u64,
    pub(crate) verdict: Verdict,
}

/// One look at the store.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) start: u64,
    /// The pass that the fence keeps.
    pub(crate) fence: Option<Pass>,
    /// The pass of whoever wrote the value that stands.
    pub(crate) value: Option<Pass>,
}

/// What no fence allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Harm {
    /// A write was accepted although a later one had been acknowledged.
    StaleAccepted,
    /// A write was refused for no reason.
    WronglyRefused,
    /// An acknowledged write does not stand, and none that is later either.
    Lost,
    /// A later value was seen before an earlier one.
    Fell,
    /// A value stands without its token.
    Torn,
    /// A write stands that was refused.
    RefusedStands,
}

pub(crate) type Violation = (Harm, String);

#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) writes: Vec<Write>,
    pub(crate) samples: Vec<Sample>,
}

/// All records of a log have this many bytes, so that its length tells how many there are.
pub(crate) const RECORD: usize = 80;

pub(crate) fn began(now: u64, operation: u64, pass: &Pass) -> String {
    let mark = pass.claim().as_bytes()[0];
    let line = format!(
        "B {now:020} {operation:016} {:019} {mark}",
        pass.token().get()
    );
    format!("{line:<79}\n")
}

pub(crate) fn ended(now: u64, operation: u64, verdict: Verdict) -> String {
    let (word, highest) = match verdict {
        Verdict::Accepted => ("accepted", 0),
        Verdict::Refused(highest) => ("refused", highest.get()),
        Verdict::Unknown => ("unknown", 0),
    };
    let line = format!("E {now:020} {operation:016} {word} {highest:019}");
    format!("{line:<79}\n")
}

pub(crate) fn pass(token: u64, mark: u8) -> Pass {
    Pass::new(
        Token::try_from(token).unwrap(),
        ClaimMark::from_bytes([mark; 16]),
    )
}

/// Reads the logs of all writers.
pub(crate) fn writes_in(directory: &Path) -> Vec<Write> {
    let logs = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let logs = logs.filter(|path| path.extension().is_some_and(|ending| ending == "log"));
    logs.flat_map(|path| parse(&fs::read_to_string(path).unwrap()))
        .collect()
}

fn parse(log: &str) -> Vec<Write> {
    let mut writes: BTreeMap<u64, Write> = BTreeMap::new();
    // The last record of a killed writer may be cut short.
    for line in log
        .split_inclusive('\n')
        .filter(|line| line.len() == RECORD)
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "B" => {
                let mark = words[4].parse().unwrap();
                let write = Write {
                    pass: pass(number(3), mark),
                    start: number(1),
                    end: u64::MAX,
                    verdict: Verdict::Unknown,
                };
                writes.insert(number(2), write);
            }
            _ => {
                let write = writes
                    .get_mut(&number(2))
                    .expect("a write begins before it ends");
                write.verdict = match words[3] {
                    "accepted" => Verdict::Accepted,
                    "refused" => Verdict::Refused(Token::try_from(number(4)).unwrap()),
                    _ => Verdict::Unknown,
                };
                if write.verdict != Verdict::Unknown {
                    write.end = number(1);
                }
            }
        }
    }
    writes.into_values().collect()
}

impl History {
    /// Finds what no fence allows.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        let (acknowledged, tried) = (Acknowledged::of(&self.writes), self.tried());
        let tried_before = |token, when| tried.get(&token).is_some_and(|start| *start < when);
        let mut found = Vec::new();
        for write in &self.writes {
            match write.verdict {
                Verdict::Accepted => {
                    let before = acknowledged.before(write.start);
                    if write.pass.after(before.as_ref()).is_err() {
                        found.push((
                            Harm::StaleAccepted,
                            format!("{write:?} was accepted after {before:?}"),
                        ));
                    }
                }
                Verdict::Refused(highest) if highest < write.pass.token() => {
                    found.push((
                        Harm::WronglyRefused,
                        format!("{write:?} was refused without a reason"),
                    ));
                }
                Verdict::Refused(highest) if !tried_before(highest, write.end) => {
                    found.push((
                        Harm::WronglyRefused,
                        format!("{write:?} was refused for {highest}, which nobody had tried"),
                    ));
                }
                Verdict::Refused(_) | Verdict::Unknown => {}
            }
        }
        found.extend(self.wrong_samples(&acknowledged));
        found
    }

    /// When each token was tried first.
    fn tried(&self) -> HashMap<Token, u64> {
        let mut first = HashMap::new();
        for write in &self.writes {
            let start = first.entry(write.pass.token()).or_insert(write.start);
            *start = write.start.min(*start);
        }
        first
    }

    fn wrong_samples(&self, acknowledged: &Acknowledged) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut refused: HashMap<Pass, bool> = HashMap::new();
        for write in &self.writes {
            let all = refused.entry(write.pass).or_insert(true);
            *all &= matches!(write.verdict, Verdict::Refused(_));
        }
        let mut last: Option<Pass> = None;
        for sample in &self.samples {
            let must = acknowledged.before(sample.start);
            for seen in [sample.fence, sample.value] {
                if seen.map(|pass| pass.token()) < must.map(|pass| pass.token()) {
                    found.push((
                        Harm::Lost,
                        format!("{must:?} was acknowledged, but {sample:?} was seen"),
                    ));
                }
            }
            if sample.value.map(|pass| pass.token()) < last.map(|pass| pass.token()) {
                found.push((
                    Harm::Fell,
                    format!("{last:?} was seen, and later {sample:?}"),
                ));
            }
            if sample.value.map(|pass| pass.token()) > sample.fence.map(|pass| pass.token()) {
                found.push((
                    Harm::Torn,
                    format!("a value without its token was seen: {sample:?}"),
                ));
            }
            if let Some(value) = sample.value
                && refused.get(&value).copied().unwrap_or(true)
            {
                found.push((
                    Harm::RefusedStands,
                    format!("a write that was refused, or never tried, stands: {sample:?}"),
                ));
            }
            last = sample.value;
        }
        found
    }
}

/// The highest acknowledged write by the time of its acknowledgement.
struct Acknowledged(Vec<(u64, Pass)>);

impl Acknowledged {
    fn of(writes: &[Write]) -> Self {
        let accepted = writes
            .iter()
            .filter(|write| write.verdict == Verdict::Accepted);
        let mut ends: Vec<(u64, Pass)> = accepted.map(|write| (write.end, write.pass)).collect();
        ends.sort_unstable_by_key(|(end, _)| *end);
        let mut highest: Option<Pass> = None;
        for (_, pass) in &mut ends {
            if highest.is_none_or(|highest| highest.token() <= pass.token()) {
                highest = Some(*pass);
            }
            *pass = highest.unwrap_or(*pass);
        }
        Self(ends)
    }

    fn before(&self, when: u64) -> Option<Pass> {
        let count = self.0.partition_point(|(end, _)| *end < when);
        count.checked_sub(1).map(|last| self.0[last].1)
    }
}

#[test]
fn the_judge_sees_each_kind_of_harm() {
    let write = |token: u64, start, end, verdict| Write {
        pass: pass(token << 8, 1),
        start,
        end,
        verdict,
    };
    let good = vec![
        write(1, 0, 10, Verdict::Accepted),
        write(2, 20, 30, Verdict::Accepted),
        write(1, 25, 40, Verdict::Accepted), // overlaps: may have come first
        write(1, 40, 50, Verdict::Refused(Token::new(2, 0).unwrap())),
    ];
    let sample = |start, token: u64| Sample {
        start,
        fence: Some(pass(token << 8, 1)),
        value: Some(pass(token << 8, 1)),
    };
    let judged = |writes: &[Write], samples: &[Sample]| {
        let (writes, samples) = (writes.to_vec(), samples.to_vec());
        History { writes, samples }.violations().len()
    };
    assert_eq!(judged(&good, &[sample(15, 1), sample(35, 2)]), 0);
    let with = |more| [&good[..], &[more]].concat();
    assert_eq!(judged(&with(write(1, 31, 45, Verdict::Accepted)), &[]), 1);
    let reason = Verdict::Refused(Token::new(3, 0).unwrap());
    assert_eq!(
        judged(&with(write(1, 60, 70, reason)), &[]),
        1,
        "nobody tried 3"
    );
    let reason = Verdict::Refused(Token::new(1, 0).unwrap());
    assert_eq!(
        judged(&with(write(2, 60, 70, reason)), &[]),
        1,
        "1 is no reason to refuse 2"
    );
    assert!(
        judged(&good, &[sample(35, 2), sample(45, 1)]) > 0,
        "it fell"
    );
    assert!(judged(&good, &[sample(35, 1)]) > 0, "it was lost");
    let mut torn = sample(35, 2);
    torn.fence = Some(pass(1 << 8, 1));
    assert!(judged(&good, &[torn]) > 0, "a value without its token");
}
