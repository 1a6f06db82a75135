//! What is measured, as data. `local:` has measurements of its own; the engines on the network share
//! theirs, and differ in peers and targets only.

mod fence;
mod leases;
mod local;
mod quorum;
mod race;
mod redis;
mod relay;
mod sql;
mod waiting;

use crate::Result;
use crate::picture::Picture;
use crate::place::Place;
use crate::report::Figure;

use leases::Leases;
use race::Race;
use relay::Relay;
use waiting::Waiting;

/// Everything about one kind of place that locks live in.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    sections: &'static [&'static [Section]],
}

/// A group of figures that share their processes.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    measure: Measure,
}

/// How a section is measured.
#[derive(Debug)]
enum Measure {
    /// Without a server.
    Local(fn(&Place) -> Result<Vec<Figure>>),
    Race(Race),
    Relay(Relay),
    Waiting(Waiting),
    Leases(Leases),
}

/// What a section has found out.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) figures: Vec<Figure>,
    pub(crate) pictures: Vec<Picture>,
}

impl From<Vec<Figure>> for Measured {
    fn from(figures: Vec<Figure>) -> Self {
        Self {
            figures,
            pictures: Vec::new(),
        }
    }
}

/// All that can be asked for by name.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "local",
        sections: &[local::SECTIONS],
    },
    Suite {
        name: "redis",
        sections: &[redis::REDIS, redis::REDLOCK],
    },
    Suite {
        name: "redlock",
        sections: &[redis::REDLOCK],
    },
    Suite {
        name: "etcd",
        sections: &[quorum::ETCD],
    },
    Suite {
        name: "zookeeper",
        sections: &[quorum::ZOOKEEPER],
    },
    Suite {
        name: "fence",
        sections: &[fence::SECTIONS],
    },
    Suite {
        name: "postgres",
        sections: &[sql::POSTGRES],
    },
    Suite {
        name: "mysql",
        sections: &[sql::MYSQL],
    },
];

impl Suite {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        SUITES.iter().find(|suite| suite.name == name)
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = &'static Section> {
        self.sections.iter().copied().flatten()
    }
}

impl Section {
    const fn new(name: &'static str, measure: Measure) -> Self {
        Self { name, measure }
    }

    pub(crate) fn measure(&self, place: &Place) -> Result<Measured> {
        match &self.measure {
            Measure::Local(measure) => Ok(measure(place)?.into()),
            Measure::Race(race) => race.measure(),
            Measure::Relay(relay) => relay.measure(),
            Measure::Waiting(waiting) => waiting.measure(),
            Measure::Leases(leases) => leases.measure(),
        }
    }
}
