//! The stories, in the order in which the field learned them. One file per story.

mod compare_and_set_with_a_random_id;
mod crash_between_setnx_and_expire;
mod crash_without_expiry;
mod deleting_somebody_elses_lock;
mod etcd_lease_ended_during_a_pause;
mod evicted_by_memory_pressure;
mod expiry_while_working;
mod for_update_freed_by_a_crash_not_by_a_pause;
mod get_then_del_race;
mod grant_slower_than_its_own_lease;
mod herd_effect;
mod leader_killed_while_holding;
mod lock_delay;
mod lock_stranded_by_a_pooler;
mod no_watchdog;
mod oversold_stock;
mod props;
mod re_entry;
mod redlock;
mod redlock_clock_jump;
mod redlock_node_restarted_empty;
mod redlock_pause_after_the_check;
mod redlock_pause_before_the_check;
mod retry_that_blocks_on_itself;
mod sentinel_fail_over;
mod stopped_holder;
mod table_lock_left_behind_by_a_crash;
mod two_delayed_writers_in_order;
mod zookeeper_session_ended_during_a_pause;

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
    redlock_node_restarted_empty::SCENARIO,
    redlock_clock_jump::SCENARIO,
    redlock_pause_before_the_check::SCENARIO,
    redlock_pause_after_the_check::SCENARIO,
    leader_killed_while_holding::SCENARIO,
    zookeeper_session_ended_during_a_pause::SCENARIO,
    etcd_lease_ended_during_a_pause::SCENARIO,
    herd_effect::SCENARIO,
    table_lock_left_behind_by_a_crash::SCENARIO,
    for_update_freed_by_a_crash_not_by_a_pause::SCENARIO,
    lock_stranded_by_a_pooler::SCENARIO,
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
