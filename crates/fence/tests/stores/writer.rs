//! One writer: shuffled, delayed, repeated and stale tokens, and impostors, with a log of what it did.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use lockkeeper_fence::{FenceError, Pass};
use rustix::time::{ClockId, clock_gettime};

use crate::history::{Verdict, began, ended, pass};
use crate::on::Store;

/// How long one generation of tokens lasts.
const ROUND: u64 = 3_000_000;
pub(crate) const WRITERS: u64 = 32;

/// How a store is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the fence.
    Fenced,
    /// The comparison first, then the write: the bug that a fence must not have.
    TwoSteps,
}

/// Nanoseconds of the clock that all processes of the machine share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Good enough for choices, and repeatable.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

pub(crate) struct Writer {
    pub(crate) number: u64,
    pub(crate) way: Way,
    /// When the first round began.
    pub(crate) start: u64,
    pub(crate) dice: Dice,
    log: File,
    operation: u64,
    last: Pass,
}

impl Writer {
    pub(crate) fn new(directory: &Path, number: u64, (way, start): (Way, u64), seed: u64) -> Self {
        let path = directory.join(format!("{number}.log"));
        let log = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        Self {
            number,
            way,
            start,
            dice: Dice::new(seed),
            log,
            // Unique among all lives of this writer.
            operation: now(),
            last: pass((number + 1) << 8, 1),
        }
    }

    fn token(&self, rounds_ago: u64) -> Pass {
        let round = (now().saturating_sub(self.start) / ROUND).saturating_sub(rounds_ago);
        pass((round * WRITERS + self.number + 1) << 8, 1)
    }

    /// Chooses a pass, and how long it takes from its lock to the store.
    fn choose(&mut self) -> (Pass, Duration) {
        let at_once = Duration::ZERO;
        match self.dice.below(100) {
            0..50 => (self.token(0), at_once),
            50..70 => (
                self.token(0),
                Duration::from_micros(self.dice.below(10_000)),
            ),
            70..85 => (self.last, at_once),
            85..95 => {
                let rounds_ago = 1 + self.dice.below(50);
                (self.token(rounds_ago), at_once)
            }
            _ => (pass(self.last.token().get(), 2), at_once),
        }
    }

    /// One write, noted before and after.
    pub(crate) async fn once<S: Store>(&mut self, store: &mut S) -> Verdict {
        let (pass, delay) = self.choose();
        self.last = pass;
        tokio::time::sleep(delay).await;
        self.operation += 1;
        let operation = self.operation;
        self.note(&began(now(), operation, &pass));
        let value = format!("{pass} {}", self.number);
        let verdict = match self.way {
            Way::Fenced => store.write(&pass, &value).await,
            Way::TwoSteps => {
                let pause = Duration::from_micros(self.dice.below(4_000));
                store.write_in_two_steps(&pass, &value, pause).await
            }
        };
        self.note(&ended(now(), operation, verdict));
        verdict
    }

    fn note(&mut self, record: &str) {
        // Unbuffered: a killed process has said all that it knew.
        self.log.write_all(record.as_bytes()).unwrap();
    }
}

/// The verdict of a fence.
pub(crate) fn verdict<T, E: std::fmt::Debug>(outcome: Result<T, FenceError<E>>) -> Verdict {
    match outcome {
        Ok(_) => Verdict::Accepted,
        Err(FenceError::Refused(refusal)) => Verdict::Refused(refusal.highest()),
        Err(FenceError::Store(_)) => Verdict::Unknown,
        Err(other) => panic!("{other:?}"),
    }
}

/// The bug: looks, compares, takes its time. The write comes in another step.
pub(crate) async fn compared(
    pass: &Pass,
    highest: Option<Pass>,
    pause: Duration,
) -> Option<Verdict> {
    if let Err(refusal) = pass.after(highest.as_ref()) {
        return Some(Verdict::Refused(refusal.highest()));
    }
    tokio::time::sleep(pause).await;
    None
}
