//! The stories, in the order in which the field learned them. One file per story.

mod crash_without_expiry;
mod expiry_while_working;
mod props;

use crate::scenario::Scenario;

/// All of them, in the order in which they are told.
pub const ALL: &[Scenario] = &[
    crash_without_expiry::SCENARIO,
    expiry_while_working::SCENARIO,
];

/// The scenario of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
