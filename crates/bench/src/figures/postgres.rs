//! The sections about one PostgreSQL server, in both modes.

use super::race::Race;
use super::relay::{Goal, Relay};
use super::{Measure, Section};
use crate::contenders::FLOOR;
use crate::engines::Engine::{Postgres, PostgresSession};
use crate::pinning::Placement;

pub(super) const POSTGRES: &[Section] = &[
    Section::new("one-task", Measure::Race(ONE_TASK)),
    Section::new("many-tasks", Measure::Race(MANY_TASKS)),
    Section::new(
        "handover",
        Measure::Relay(Relay::of_two(
            Postgres,
            &[FLOOR],
            &[Goal::MedianBelowMs(2.0)],
        )),
    ),
    Section::new("session-one-task", Measure::Race(SESSION_ONE_TASK)),
    Section::new(
        "session-handover",
        Measure::Relay(Relay::of_two(PostgresSession, &[FLOOR], SESSION_HAND_OVER)),
    ),
];

const ONE_TASK: Race = Race {
    engine: Postgres,
    tasks: 1,
    placement: Placement::Together,
    of_bare: 0.7,
    ahead_of: &[],
    beside: &[],
};

const MANY_TASKS: Race = Race {
    tasks: 64,
    placement: Placement::Apart,
    ..ONE_TASK
};

/// The limit is the pair of an advisory lock and one committed row; 1.3 times its time is the target.
const SESSION_ONE_TASK: Race = Race {
    engine: PostgresSession,
    of_bare: 1.0 / 1.3,
    ..ONE_TASK
};

const SESSION_HAND_OVER: &[Goal] = &[Goal::OfFloor {
    percent: 50.0,
    at_most: 1.5,
}];
