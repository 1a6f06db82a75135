//! The stories, in the order in which the field learned them. One file per story.

mod compare_and_set_with_a_random_id;
mod crash_without_expiry;
mod expiry_while_working;
mod lock_delay;
mod oversold_stock;
mod props;
mod redlock;
mod redlock_clock_jump;
mod redlock_node_restarted_empty;
mod redlock_pause_after_the_check;
mod redlock_pause_before_the_check;
mod two_delayed_writers_in_order;

use crate::scenario::Scenario;

/// All of them, in the order in which they are told.
pub const ALL: &[Scenario] = &[
    crash_without_expiry::SCENARIO,
    expiry_while_working::SCENARIO,
    redlock_node_restarted_empty::SCENARIO,
    redlock_clock_jump::SCENARIO,
    redlock_pause_before_the_check::SCENARIO,
    redlock_pause_after_the_check::SCENARIO,
    two_delayed_writers_in_order::SCENARIO,
    compare_and_set_with_a_random_id::SCENARIO,
    lock_delay::SCENARIO,
    oversold_stock::SCENARIO,
];

/// The scenario of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
