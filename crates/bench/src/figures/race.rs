//! Cycles of acquire + release on names that nobody else wants: the bare limit, lockkeeper and its
//! peers, each in a process of its own, taking turns.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::Measured;
use crate::contenders::{BARE, OURS};
use crate::engines::{Engine, Running};
use crate::picture::{Line, Picture};
use crate::pinning::{Placement, pin};
use crate::racers::{Cycles, Peer, Racer};
use crate::report::{Figure, Target};
use crate::statistics::{Percentiles, median, median_ratio};
use crate::{Result, cpu};

/// In pairs, of which there is an odd number.
const ROUNDS: usize = 14;
const ROUND: Duration = Duration::from_millis(250);
/// Long enough for a Java machine to have compiled what is used.
const WARM_UP: Duration = Duration::from_secs(2);

/// What distinguishes one race from another.
#[derive(Debug)]
pub(super) struct Race {
    pub(super) engine: Engine,
    /// Tasks of the one process, each with a name of its own.
    pub(super) tasks: usize,
    pub(super) placement: Placement,
    /// The part of the bare limit's cycles that is the target.
    pub(super) of_bare: f64,
    /// Whom lockkeeper must be ahead of.
    pub(super) ahead_of: &'static [Peer],
    /// Who takes part for comparison only.
    pub(super) beside: &'static [Peer],
}

impl Race {
    pub(super) fn measure(&self) -> Result<Measured> {
        let engine = self.engine.start()?;
        let mut field = self.line_up(&engine)?;
        let servers = engine.pids()?;
        for racer in &mut field.racers {
            racer.run(self.tasks, WARM_UP, &servers)?;
            racer.forget();
        }
        for _ in 0..ROUNDS {
            for racer in &mut field.racers {
                racer.run(self.tasks, ROUND, &servers)?;
            }
            // Of two rounds the second goes backwards: servers tidy up after one racer while the next one runs, so it matters who
            // came before.
            field.racers.reverse();
        }
        Ok(self.judge(&field))
    }

    fn line_up(&self, engine: &Running) -> Result<Field> {
        let (server_core, client_core) = self.placement.cores()?;
        for pid in engine.pids()? {
            pin(pid, server_core)?;
        }
        let mut field = Field::default();
        let everybody = [Peer::Own(BARE), Peer::Own(OURS)];
        for peer in everybody.iter().chain(self.ahead_of).chain(self.beside) {
            match peer.start(engine) {
                Ok(racer) => {
                    pin(racer.pid(), client_core)?;
                    field.racers.push(Runner::new(peer.name(), racer));
                }
                // Without these two there is nothing to say; a peer may be missing, loudly.
                Err(error) if everybody.contains(peer) => return Err(error),
                Err(error) => {
                    field.absent.insert(peer.name(), error.to_string());
                }
            }
        }
        Ok(field)
    }

    fn what(&self) -> String {
        let name = self.engine.name();
        match self.tasks {
            1 => format!("{name}: one task, own name"),
            tasks => format!("{name}: {tasks} tasks, own names"),
        }
    }

    fn judge(&self, field: &Field) -> Measured {
        let peers = |peers: &'static [Peer], target| {
            let named = peers.iter().map(|peer| peer.name());
            named.map(move |name| (name, target))
        };
        let against = [(BARE, Target::AtLeast(self.of_bare))]
            .into_iter()
            .chain(peers(self.ahead_of, Target::AtLeast(1.0)))
            .chain(peers(self.beside, Target::None));
        let figures = against.map(|(name, target)| self.figure(field, name, target));
        let line = |runner: &Runner| Line::new(runner.name, &runner.each);
        let picture = Picture {
            title: format!("{}: acquire + release", self.what()),
            lines: field.racers.iter().map(line).collect(),
        };
        Measured {
            figures: figures.collect(),
            pictures: vec![picture],
        }
    }

    fn figure(&self, field: &Field, other: &str, target: Target) -> Figure {
        let rates = |name: &str| field.of(name).map_or_else(Vec::new, Runner::per_pair);
        let (theirs, ours) = (&rates(other), &rates(OURS));
        let limit = match field.absent.get(other) {
            Some(why) => format!("{other} NOT MEASURED: {}", first_line(why)),
            None => format!("{other} {:.0}/s", median(theirs)),
        };
        Figure {
            what: format!("{}, of {other}", self.what()),
            limit,
            ours: format!("{:.0}/s", median(ours)),
            value: median_ratio(ours, theirs),
            unit: "x",
            target,
            detail: json!({
                "rounds": ROUNDS, "placement": format!("{:?}", self.placement),
                "ours": field.of(OURS).map(Runner::json),
                "theirs": field.of(other).map(Runner::json),
                "not_measured": field.absent.get(other),
            }),
        }
    }
}

/// Who is at the start, and who is not.
#[derive(Default)]
struct Field {
    racers: Vec<Runner>,
    absent: BTreeMap<&'static str, String>,
}

impl Field {
    fn of(&self, name: &str) -> Option<&Runner> {
        self.racers.iter().find(|runner| runner.name == name)
    }
}

struct Runner {
    name: &'static str,
    racer: Racer,
    per_second: Vec<f64>,
    each: Vec<f64>,
    /// Processor time of the client and of the servers, microseconds per cycle.
    cpu: [Vec<f64>; 2],
}

impl Runner {
    fn new(name: &'static str, racer: Racer) -> Self {
        Self {
            name,
            racer,
            per_second: Vec::new(),
            each: Vec::new(),
            cpu: [Vec::new(), Vec::new()],
        }
    }

    fn run(&mut self, tasks: usize, length: Duration, servers: &[u32]) -> Result<()> {
        let parties = [&[self.racer.pid()], servers];
        let before = parties.map(cpu::of_all);
        let told = self.racer.cycles(tasks, length);
        let Cycles { per_second, each } =
            told.map_err(|error| format!("{}: {error}", self.name))?;
        for ((party, before), cpu) in parties.into_iter().zip(before).zip(&mut self.cpu) {
            let used = cpu::of_all(party)? - before?;
            cpu.push(used.as_secs_f64() * 1e6 / each.len() as f64);
        }
        self.per_second.push(per_second);
        self.each.extend(each);
        Ok(())
    }

    /// Cycles a second, of the two rounds of each pair together.
    fn per_pair(&self) -> Vec<f64> {
        let pairs = self.per_second.chunks_exact(2);
        pairs.map(|pair| (pair[0] + pair[1]) / 2.0).collect()
    }

    fn forget(&mut self) {
        self.per_second.clear();
        self.each.clear();
        self.cpu.iter_mut().for_each(Vec::clear);
    }

    fn json(&self) -> Value {
        let [client, server] = &self.cpu;
        let each = Percentiles::of(&self.each);
        json!({
            "per_s": self.per_second, "p50_us": each.at(50.0), "p99_us": each.at(99.0),
            "client_cpu_us": median(client), "server_cpu_us": median(server),
        })
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
