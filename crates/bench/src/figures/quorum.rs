//! The sections about etcd and ZooKeeper. Both write through a quorum, wait by watching the one before,
//! and keep a session alive instead of leases, so both are measured alike.

use super::leases::{Cost, Leases};
use super::race::Race;
use super::relay::{Goal, Relay};
use super::waiting::Waiting;
use super::{Measure, Section};
use crate::contenders::FLOOR;
use crate::engines::Engine;
use crate::pinning::Placement;
use crate::racers::Peer;
use crate::report::Target;

pub(super) const ETCD: &[Section] = &sections(Quorum {
    engine: Engine::Etcd,
    ahead_of: &[Peer::Own("v3lock")],
    beside: &[Peer::GoEtcd],
    relays: &[FLOOR, "v3lock"],
});

pub(super) const ZOOKEEPER: &[Section] = &sections(Quorum {
    engine: Engine::ZooKeeper,
    ahead_of: &[Peer::Curator],
    beside: &[Peer::Kazoo],
    relays: &[FLOOR],
});

/// What distinguishes the two.
struct Quorum {
    engine: Engine,
    ahead_of: &'static [Peer],
    beside: &'static [Peer],
    /// Who hands over from process to process beside lockkeeper.
    relays: &'static [&'static str],
}

const HAND_OVER: &[Goal] = &[Goal::OfFloor {
    percent: 50.0,
    at_most: 1.3,
}];

const fn sections(quorum: Quorum) -> [Section; 6] {
    let engine = quorum.engine;
    let alone = Race {
        engine,
        tasks: 1,
        placement: Placement::Together,
        of_bare: 0.9,
        ahead_of: quorum.ahead_of,
        beside: quorum.beside,
    };
    let together = Race {
        tasks: 64,
        placement: Placement::Apart,
        of_bare: 0.85,
        ahead_of: &[],
        beside: &[],
        ..alone
    };
    let waiting = Waiting {
        engine,
        idle: Target::AtMost(0.0),
        commands_at_most: None,
        // One; turns and notices are not counted at the very same instant.
        notices_at_most: Some(1.05),
    };
    let leases = Leases {
        engine,
        cost: Cost::OneKeepAlive,
    };
    [
        Section::new("one-task", Measure::Race(alone)),
        Section::new("many-tasks", Measure::Race(together)),
        Section::new(
            "handover",
            Measure::Relay(Relay::of_two(engine, quorum.relays, HAND_OVER)),
        ),
        Section::new(
            "queue",
            Measure::Relay(Relay::of_many(engine, &[FLOOR], HAND_OVER)),
        ),
        Section::new("waiting", Measure::Waiting(waiting)),
        Section::new("leases", Measure::Leases(leases)),
    ]
}
