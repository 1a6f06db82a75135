//! A scenario that has been played: what the pictures, the page and the program tell of it.

use std::time::Duration;

use crate::history::Event;
use crate::scenario::{Outcome, Part, Scenario, Verdict};

/// A scenario with the parts of it that were played.
#[derive(Debug)]
pub struct Told {
    /// Which one.
    pub scenario: &'static Scenario,
    /// Its parts, in order.
    pub parts: Vec<Played>,
}

/// One part as it went.
#[derive(Debug)]
pub struct Played {
    /// Which one.
    pub part: &'static Part,
    /// What was seen.
    pub outcome: Outcome,
    /// What that means.
    pub verdict: Verdict,
    /// What happened.
    pub history: Vec<Event>,
    /// How long it took.
    pub took: Duration,
}

impl Told {
    /// Whether every part showed what it is there for.
    #[must_use]
    pub fn is_as_told(&self) -> bool {
        self.parts.iter().all(|played| played.verdict.is_as_told())
    }
}
