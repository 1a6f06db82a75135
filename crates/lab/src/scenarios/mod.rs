//! The stories, in the order in which the field learned them. One file per story.

mod crash_between_setnx_and_expire;
mod crash_without_expiry;
mod deleting_somebody_elses_lock;
mod evicted_by_memory_pressure;
mod expiry_while_working;
mod get_then_del_race;
mod grant_slower_than_its_own_lease;
mod no_watchdog;
mod props;
mod re_entry;
mod retry_that_blocks_on_itself;
mod sentinel_fail_over;

use crate::scenario::Scenario;

/// All of them, in the order in which they are told.
pub const ALL: &[Scenario] = &[
    crash_without_expiry::SCENARIO,
    crash_between_setnx_and_expire::SCENARIO,
    expiry_while_working::SCENARIO,
    deleting_somebody_elses_lock::SCENARIO,
    get_then_del_race::SCENARIO,
    grant_slower_than_its_own_lease::SCENARIO,
    retry_that_blocks_on_itself::SCENARIO,
    no_watchdog::SCENARIO,
    re_entry::SCENARIO,
    sentinel_fail_over::SCENARIO,
    evicted_by_memory_pressure::SCENARIO,
];

/// The scenario of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
