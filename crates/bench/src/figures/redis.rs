//! The sections about one Redis server, and about Redlock over five.

use super::leases::{Cost, Leases};
use super::race::Race;
use super::relay::{Goal, Relay};
use super::waiting::Waiting;
use super::{Measure, Section};
use crate::contenders::{FLOOR, NUMBERED};
use crate::engines::Engine::{Redis, Redlock};
use crate::pinning::Placement;
use crate::racers::Peer;
use crate::report::Target;

pub(super) const REDIS: &[Section] = &[
    Section::new("one-task", Measure::Race(ONE_TASK)),
    Section::new("many-tasks", Measure::Race(MANY_TASKS)),
    Section::new(
        "handover",
        Measure::Relay(Relay::of_two(Redis, &[FLOOR, "rslock"], HAND_OVER)),
    ),
    Section::new(
        "queue",
        Measure::Relay(Relay::of_many(Redis, &[FLOOR], QUEUE)),
    ),
    Section::new(
        "burst",
        Measure::Relay(Relay::without_work(Redis, &[FLOOR], BURST)),
    ),
    Section::new("waiting", Measure::Waiting(WAITING)),
    Section::new("leases", Measure::Leases(LEASES)),
];

pub(super) const REDLOCK: &[Section] = &[
    Section::new("redlock-one-task", Measure::Race(REDLOCK_ONE_TASK)),
    Section::new(
        "redlock-handover",
        Measure::Relay(Relay::of_two(
            Redlock,
            &["rslock"],
            &[Goal::MedianBelowMs(5.0)],
        )),
    ),
];

const ONE_TASK: Race = Race {
    engine: Redis,
    tasks: 1,
    placement: Placement::Together,
    of_bare: 0.85,
    ahead_of: &[Peer::Own("rslock"), Peer::RedisPy, Peer::Redisson],
    beside: &[Peer::Own(NUMBERED)],
};

const MANY_TASKS: Race = Race {
    engine: Redis,
    tasks: 64,
    placement: Placement::Apart,
    of_bare: 0.8,
    ahead_of: &[Peer::Own("rslock")],
    beside: &[Peer::Own(NUMBERED)],
};

const HAND_OVER: &[Goal] = &[
    Goal::OfFloor {
        percent: 50.0,
        at_most: 1.3,
    },
    Goal::OfFloor {
        percent: 99.0,
        at_most: 3.0,
    },
];

const QUEUE: &[Goal] = &[HAND_OVER[0], HAND_OVER[1], Goal::Fairness { at_most: 1.2 }];

const BURST: &[Goal] = &[Goal::Rate { at_least: 0.7 }];

const WAITING: Waiting = Waiting {
    engine: Redis,
    idle: Target::Below(50.0),
    commands_at_most: Some(4.0),
    notices_at_most: None,
};

const LEASES: Leases = Leases {
    engine: Redis,
    cost: Cost::Batches {
        calls: 5.0,
        core_percent: 10.0,
    },
};

const REDLOCK_ONE_TASK: Race = Race {
    engine: Redlock,
    tasks: 1,
    placement: Placement::Together,
    of_bare: 0.75,
    ahead_of: &[],
    beside: &[Peer::Own("rslock"), Peer::NpmRedlock],
};
