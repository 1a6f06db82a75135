//! One lock that goes from process to process: how long from a release to the next acquire, how often
//! per second, and whether everybody gets as much.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::Measured;
use crate::Result;
use crate::contenders::{FLOOR, OURS};
use crate::engines::Engine;
use crate::machine::nanos_after;
use crate::picture::{Line, Picture};
use crate::report::{Figure, Target};
use crate::statistics::{median, median_ratio, percentile};
use crate::turns::Turns;
use crate::workers::Worker;

/// All processes begin together this long after they were told.
const LEAD: Duration = Duration::from_millis(50);

/// What distinguishes one relay from another.
#[derive(Debug)]
pub(super) struct Relay {
    engine: Engine,
    processes: usize,
    /// How long a holder works before it lets go.
    work: Duration,
    round: Duration,
    rounds: usize,
    /// Beside lockkeeper.
    others: &'static [&'static str],
    targets: &'static [Goal],
}

/// What is looked at, and what it should be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Goal {
    /// Microseconds of this percentile, as a multiple of the floor's.
    OfFloor { percent: f64, at_most: f64 },
    /// The median as a multiple of another's, for comparison only.
    Beside(&'static str),
    /// Milliseconds of the median.
    MedianBelowMs(f64),
    /// Hand-overs per second, as a part of the floor's.
    Rate { at_least: f64 },
    /// Turns of the process that had most, as a multiple of those of the one that had least.
    Fairness { at_most: f64 },
}

/// The processes of one kind, and what their turns told.
struct Team {
    kind: &'static str,
    runners: Vec<Worker>,
    /// Microseconds of each hand-over.
    gaps: Vec<f64>,
    per_second: Vec<f64>,
    shares: BTreeMap<u32, u64>,
}

/// What a holder does before it lets go, where it does anything.
const WORK: Duration = Duration::from_millis(20);
const MANY: usize = 32;

impl Relay {
    /// Two processes: one works, the other waits.
    pub(super) const fn of_two(
        engine: Engine,
        others: &'static [&'static str],
        targets: &'static [Goal],
    ) -> Self {
        Self {
            engine,
            processes: 2,
            work: WORK,
            round: Duration::from_millis(1500),
            rounds: 11,
            others,
            targets,
        }
    }

    /// A long queue; everybody has its turn several times in a round.
    pub(super) const fn of_many(
        engine: Engine,
        others: &'static [&'static str],
        targets: &'static [Goal],
    ) -> Self {
        Self {
            processes: MANY,
            round: Duration::from_secs(5),
            rounds: 3,
            ..Self::of_two(engine, others, targets)
        }
    }

    /// A long queue in which nobody does anything but hand over.
    pub(super) const fn without_work(
        engine: Engine,
        others: &'static [&'static str],
        targets: &'static [Goal],
    ) -> Self {
        Self {
            processes: MANY,
            work: Duration::ZERO,
            ..Self::of_two(engine, others, targets)
        }
    }

    pub(super) fn measure(&self) -> Result<Measured> {
        let engine = self.engine.start()?;
        let kinds = [OURS].iter().chain(self.others);
        let team = |kind: &&'static str| Team::start(kind, &engine.url(), self.processes);
        let mut teams: Vec<Team> = kinds.map(team).collect::<Result<_>>()?;
        // The first round connects everybody and is thrown away.
        for round in 0..=self.rounds {
            for team in &mut teams {
                team.run(self.round, self.work)?;
                if round == 0 {
                    team.forget();
                }
            }
            // A machine has quicker and slower moments, and who comes before leaves its caches behind.
            teams.reverse();
        }
        let line = |team: &Team| Line::new(team.kind, &team.gaps);
        let picture = Picture {
            title: format!("{}: hand-over", self.what()),
            lines: teams.iter().map(line).collect(),
        };
        let goals = self.targets.iter();
        let figures = goals.map(|goal| self.figure(&teams, *goal));
        Ok(Measured {
            figures: figures.collect::<Result<_>>()?,
            pictures: vec![picture],
        })
    }

    fn what(&self) -> String {
        let work = match self.work.as_millis() {
            0 => "no work".to_owned(),
            millis => format!("{millis} ms work"),
        };
        let (name, processes) = (self.engine.name(), self.processes);
        format!("{name}: {processes} processes, {work}")
    }

    fn figure(&self, teams: &[Team], goal: Goal) -> Result<Figure> {
        let of = |kind| teams.iter().find(|team| team.kind == kind);
        let ours = of(OURS).ok_or("lockkeeper did not take part")?;
        let beside = match goal {
            Goal::Beside(kind) => Some(of(kind).ok_or(format!("{kind} did not take part"))?),
            _ => of(FLOOR),
        };
        let (aspect, target) = goal.asks_for();
        let told = |team: &Team| goal.told(team, self.processes);
        let detail: Vec<Value> = teams.iter().map(Team::json).collect();
        let (value, unit) = match (goal, beside) {
            (Goal::MedianBelowMs(_), _) => (median(&ours.gaps) / 1e3, "ms"),
            (Goal::Fairness { .. }, _) => (ours.fairness(self.processes), "x"),
            (Goal::Rate { .. }, Some(one)) => {
                (median_ratio(&ours.per_second, &one.per_second), "x")
            }
            (_, Some(one)) => (goal.number(ours) / goal.number(one), "x"),
            (_, None) => (f64::NAN, "x"),
        };
        Ok(Figure {
            what: format!("{}: {aspect}", self.what()),
            limit: beside.map_or_else(|| "-".into(), |one| format!("{} {}", one.kind, told(one))),
            ours: match goal {
                Goal::Fairness { .. } => ours.share_range(),
                _ => told(ours),
            },
            value,
            unit,
            target,
            detail: Value::from(detail),
        })
    }
}

impl Goal {
    fn asks_for(self) -> (String, Target) {
        match self {
            Self::OfFloor { percent, at_most } => {
                (format!("hand-over p{percent}"), Target::AtMost(at_most))
            }
            Self::Beside(kind) => (format!("hand-over p50, of {kind}"), Target::None),
            Self::MedianBelowMs(millis) => ("hand-over p50".into(), Target::Below(millis)),
            Self::Rate { at_least } => ("hand-overs".into(), Target::AtLeast(at_least)),
            Self::Fairness { at_most } => ("most / fewest turns".into(), Target::AtMost(at_most)),
        }
    }

    /// Of one team, for people.
    fn told(self, team: &Team, processes: usize) -> String {
        match self {
            Self::Rate { .. } => format!("{:.0}/s", median(&team.per_second)),
            Self::Fairness { .. } => format!("{:.2}", team.fairness(processes)),
            _ => format!("{:.0} us", self.number(team)),
        }
    }

    /// The microseconds of a hand-over that are looked at.
    fn number(self, team: &Team) -> f64 {
        match self {
            Self::OfFloor { percent, .. } => percentile(&team.gaps, percent),
            _ => median(&team.gaps),
        }
    }
}

impl Team {
    fn start(kind: &'static str, url: &str, processes: usize) -> Result<Self> {
        let start = |_| Worker::start("relay", kind, url);
        Ok(Self {
            kind,
            runners: (0..processes).map(start).collect::<Result<_>>()?,
            gaps: Vec::new(),
            per_second: Vec::new(),
            shares: BTreeMap::new(),
        })
    }

    fn run(&mut self, length: Duration, work: Duration) -> Result<()> {
        let begin = nanos_after(LEAD);
        let end = begin + length.as_nanos() as u64;
        for runner in &mut self.runners {
            runner.tell(&format!("run {begin} {end} {}", work.as_micros()))?;
        }
        let mut turns = Vec::new();
        for runner in &mut self.runners {
            turns.extend(runner.hear_turns()?);
        }
        let turns = Turns::in_order(turns).map_err(|error| format!("{}: {error}", self.kind))?;
        self.gaps.extend(turns.gaps());
        let per_second = turns.hand_overs(end) as f64 / length.as_secs_f64();
        self.per_second.push(per_second);
        for (process, turns) in turns.shares(end) {
            *self.shares.entry(process).or_default() += turns;
        }
        Ok(())
    }

    fn forget(&mut self) {
        self.gaps.clear();
        self.per_second.clear();
        self.shares.clear();
    }

    /// Infinite when somebody never had a turn.
    fn fairness(&self, processes: usize) -> f64 {
        let (most, fewest) = (self.shares.values().max(), self.shares.values().min());
        match (most, fewest) {
            (Some(most), Some(fewest)) if self.shares.len() == processes => {
                *most as f64 / *fewest as f64
            }
            _ => f64::INFINITY,
        }
    }

    fn share_range(&self) -> String {
        let (fewest, most) = (self.shares.values().min(), self.shares.values().max());
        format!("{} to {} turns", fewest.unwrap_or(&0), most.unwrap_or(&0))
    }

    fn json(&self) -> Value {
        let at = |percent| percentile(&self.gaps, percent);
        json!({
            "kind": self.kind, "hand_overs": self.gaps.len(), "per_second": self.per_second,
            "p10_us": at(10.0), "p50_us": at(50.0), "p90_us": at(90.0), "p99_us": at(99.0),
            "max_us": at(100.0), "turns": self.shares.values().collect::<Vec<_>>(),
        })
    }
}
