//! The sections about `local:`, one file each, each with the limit that it is compared with.

mod handover;
mod inside;
mod leases;
mod start;
mod uncontended;

use super::{Measure, Section};
use crate::Result;

pub(super) const SECTIONS: &[Section] = &[
    Section::new("uncontended", Measure::Local(uncontended::measure)),
    Section::new("handover", Measure::Local(handover::measure)),
    Section::new("inside", Measure::Local(inside::measure)),
    Section::new("start", Measure::Local(start::measure)),
    Section::new("leases", Measure::Local(leases::measure)),
];

/// A runtime of one thread, as most programs that take a lock have it.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
