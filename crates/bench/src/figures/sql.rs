//! The sections about one SQL server, in both modes. The servers differ in targets only.

use super::leases::{Cost, Leases};
use super::race::Race;
use super::relay::{Goal, Relay};
use super::waiting::Waiting;
use super::{Measure, Section};
use crate::contenders::{BARE, FLOOR};
use crate::engines::Engine::{self, MySql, MySqlSession, Postgres, PostgresSession};
use crate::pinning::Placement;
use crate::report::Target;

pub(super) const POSTGRES: &[Section] = &sections(
    [Postgres, PostgresSession],
    &[Goal::MedianBelowMs(2.0)],
    // All of them together.
    Target::Below(50.0),
    STATEMENTS,
);

pub(super) const MYSQL: &[Section] = &sections(
    [MySql, MySqlSession],
    &[Goal::MedianBelowMs(5.0)],
    // Two for each of the two hundred.
    Target::Below(400.0),
    STATEMENTS,
);

/// One statement renews five hundred. Ten thousand are twenty times that, and one more that is not full: they do not all
/// become due at once.
const STATEMENTS: f64 = 21.0 / 20.0;

const fn sections(
    [lease, session]: [Engine; 2],
    hand_over: &'static [Goal],
    idle: Target,
    statements: f64,
) -> [Section; 7] {
    [
        Section::new("one-task", Measure::Race(one_task(lease, 0.7))),
        Section::new("many-tasks", Measure::Race(many_tasks(lease))),
        Section::new(
            "handover",
            Measure::Relay(Relay::of_two(lease, &[FLOOR], hand_over)),
        ),
        // The limit is the pair of a session lock and one committed row; 1.3 times its time is the target.
        Section::new("session-one-task", Measure::Race(one_task(session, 0.77))),
        Section::new(
            "session-handover",
            Measure::Relay(Relay::of_two(session, &[FLOOR, BARE], SESSION_HAND_OVER)),
        ),
        Section::new(
            "waiting",
            Measure::Waiting(Waiting {
                engine: lease,
                idle,
                commands_at_most: None,
                notices_at_most: None,
            }),
        ),
        Section::new(
            "leases",
            Measure::Leases(Leases {
                engine: lease,
                cost: Cost::Batches {
                    calls: statements,
                    core_percent: 10.0,
                },
            }),
        ),
    ]
}

const fn one_task(engine: Engine, of_bare: f64) -> Race {
    Race {
        engine,
        tasks: 1,
        placement: Placement::Together,
        of_bare,
        ahead_of: &[],
        beside: &[],
    }
}

const fn many_tasks(engine: Engine) -> Race {
    Race {
        tasks: 64,
        placement: Placement::Apart,
        ..one_task(engine, 0.7)
    }
}

/// The floor commits nothing; beside it stands the same lock with one committed row, which a token needs.
const SESSION_HAND_OVER: &[Goal] = &[
    Goal::OfFloor {
        percent: 50.0,
        at_most: 1.5,
    },
    Goal::Beside(BARE),
];
