//! Who takes part in a race of cycles: a process of this program, or somebody else's client.

use std::time::Duration;

use lockkeeper_testbed::foreign::Client;

use crate::Result;
use crate::engines::Running;
use crate::workers::Worker;

/// The one name that a foreign client uses.
const NAME: &str = "own-0";

/// A kind of client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// One of [`crate::contenders`].
    Own(&'static str),
    RedisPy,
    Redisson,
    NpmRedlock,
    GoEtcd,
    Curator,
    Kazoo,
}

/// Cycles of acquire and release in one round.
#[derive(Debug)]
pub(crate) struct Cycles {
    pub(crate) per_second: f64,
    /// Microseconds of each.
    pub(crate) each: Vec<f64>,
}

#[derive(Debug)]
pub(crate) enum Racer {
    Own(Worker),
    Foreign(Client),
}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Own(kind) => kind,
            Self::RedisPy => "redis-py",
            Self::Redisson => "Redisson",
            Self::NpmRedlock => "npm redlock",
            Self::GoEtcd => "Go's concurrency.Mutex",
            Self::Curator => "Curator",
            Self::Kazoo => "kazoo",
        }
    }

    pub(crate) fn start(self, engine: &Running) -> Result<Racer> {
        if let Self::Own(kind) = self {
            return Ok(Racer::Own(Worker::start("cycles", kind, &engine.url())?));
        }
        let hosts = engine.addresses();
        let first = hosts.first().ok_or("there is no server")?;
        let client = match self {
            Self::Own(_) => return Err("not a foreign client".into()),
            Self::RedisPy => Client::redis_py(first),
            Self::Redisson => Client::redisson(first),
            Self::NpmRedlock => Client::npm_redlock(&hosts),
            Self::GoEtcd => Client::go_etcd(&hosts, "go/"),
            Self::Curator => Client::curator(&hosts, "/curator-"),
            Self::Kazoo => Client::kazoo(&hosts, "/kazoo-"),
        };
        let client = client?;
        client.pause()?;
        Ok(Racer::Foreign(client))
    }
}

impl Racer {
    pub(crate) fn pid(&self) -> u32 {
        match self {
            Self::Own(worker) => worker.pid(),
            Self::Foreign(client) => client.pid(),
        }
    }

    /// So many tasks, each with a name of its own, for so long.
    pub(crate) fn cycles(&mut self, tasks: usize, length: Duration) -> Result<Cycles> {
        match self {
            Self::Own(worker) => {
                worker.tell(&format!("go {tasks} {}", length.as_millis()))?;
                let numbers = worker.hear_all()?;
                let (took, each) = numbers.split_first().ok_or("a worker told nothing")?;
                Ok(Cycles {
                    per_second: each.len() as f64 * 1e9 / *took as f64,
                    each: each.iter().map(|nanos| *nanos as f64 / 1e3).collect(),
                })
            }
            Self::Foreign(_) if tasks > 1 => Err("a foreign client has one task".into()),
            Self::Foreign(client) => {
                // Stopped while it is not its turn: a Java machine goes on compiling, on the core where
                // the next one is measured.
                client.resume()?;
                let each = client.cycles(length, NAME)?;
                client.pause()?;
                let took: Duration = each.iter().sum();
                Ok(Cycles {
                    per_second: each.len() as f64 / took.as_secs_f64(),
                    each: each.iter().map(|one| one.as_secs_f64() * 1e6).collect(),
                })
            }
        }
    }
}
