//! What is measured, one file per section, each with the limit that it is compared with.

mod handover;
mod inside;
mod leases;
mod start;
mod uncontended;

use crate::Result;
use crate::place::Place;
use crate::report::Figure;

/// A group of figures that share their processes.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) measure: fn(&Place) -> Result<Vec<Figure>>,
}

/// The sections about `local:`.
pub(crate) const LOCAL: &[Section] = &[
    Section {
        name: "uncontended",
        about: "acquire + release of one task, and two bare SQLite transactions",
        measure: uncontended::measure,
    },
    Section {
        name: "handover",
        about: "from process to process: two alone, and in a queue of two hundred",
        measure: handover::measure,
    },
    Section {
        name: "inside",
        about: "re-entry, and 64 tasks of one process against 64 processes",
        measure: inside::measure,
    },
    Section {
        name: "start",
        about: "`lockkeeper run n -- true`, `flock f true` and `true`",
        measure: start::measure,
    },
    Section {
        name: "leases",
        about: "ten thousand leases renewed every second",
        measure: leases::measure,
    },
];

/// A runtime of one thread, as most programs that take a lock have it.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
