//! What must be true of every history, each rule a pure function from the events to what is wrong with them.
//!
//! A checker sees only what was written down. Where the order of two things cannot be known from it, because they
//! overlap in time, it finds nothing: what it finds is wrong in every reading of the history.

pub mod beliefs;
mod believed_holds;
mod fair_order;
mod fence_order;
mod guarded_resource;
mod liveness;
#[cfg(test)]
pub(crate) mod planted;
mod residue;
pub mod waits;

use std::fmt;

pub use believed_holds::believed_holds;
pub use fair_order::fair_order;
pub use fence_order::fence_order;
pub use guarded_resource::{Judgement, guarded_resource, judge_writes};
pub use liveness::liveness;
pub use residue::residue;

/// Something that no correct lock can have done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is broken.
    pub model: Model,
    /// When, in nanoseconds since the run began; `None`: after it.
    pub at: Option<u64>,
    /// Who did what, with the tokens.
    pub words: String,
}

/// The rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// M1: fencing tokens rise from grant to grant, and no two grants share one.
    FenceOrder,
    /// M2: no two clients believe to hold the same lock at once.
    BelievedHolds,
    /// M3: the resource takes no stale write, and refuses no good one.
    GuardedResource,
    /// M6: who asked first is served first.
    FairOrder,
    /// M7: after the last fault everything comes to an end.
    Liveness,
    /// M8: nothing is left behind.
    Residue,
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Model::FenceOrder => "M1 fence order",
            Model::BelievedHolds => "M2 believed holds",
            Model::GuardedResource => "M3 guarded resource",
            Model::FairOrder => "M6 fair order",
            Model::Liveness => "M7 liveness",
            Model::Residue => "M8 residue",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{}, at {}: {}", self.model, seconds(at), self.words),
            None => write!(f, "{}: {}", self.model, self.words),
        }
    }
}

impl Finding {
    fn new(model: Model, at: u64, words: String) -> Finding {
        let at = Some(at);
        Finding { model, at, words }
    }
}

/// A time of a history for people.
fn seconds(at: u64) -> String {
    let micros = at / 1000;
    format!("{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
}
