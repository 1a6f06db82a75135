//! The stories, in the order in which the field learned them. One file per story.

mod crash_without_expiry;
mod etcd_lease_ended_during_a_pause;
mod expiry_while_working;
mod for_update_freed_by_a_crash_not_by_a_pause;
mod herd_effect;
mod leader_killed_while_holding;
mod lock_stranded_by_a_pooler;
mod props;
mod stopped_holder;
mod table_lock_left_behind_by_a_crash;
mod zookeeper_session_ended_during_a_pause;

use crate::scenario::Scenario;

/// All of them, in the order in which they are told.
pub const ALL: &[Scenario] = &[
    crash_without_expiry::SCENARIO,
    expiry_while_working::SCENARIO,
    zookeeper_session_ended_during_a_pause::SCENARIO,
    etcd_lease_ended_during_a_pause::SCENARIO,
    leader_killed_while_holding::SCENARIO,
    herd_effect::SCENARIO,
    table_lock_left_behind_by_a_crash::SCENARIO,
    for_update_freed_by_a_crash_not_by_a_pause::SCENARIO,
    lock_stranded_by_a_pooler::SCENARIO,
];

/// The scenario of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}
