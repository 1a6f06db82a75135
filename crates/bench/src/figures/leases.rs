//! Ten thousand leases kept alive by one keeper: how many calls the engine gets, and what they cost.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Measured;
use crate::contenders::OURS;
use crate::engines::{Counts, Engine};
use crate::report::{Figure, Target};
use crate::workers::Worker;
use crate::{Result, cpu};

const LEASES: u64 = 10_000;
/// As many as a keeper renews at a time, at most.
const BATCH: u64 = 500;
const LEASE: Duration = Duration::from_secs(30);
/// A lease is renewed when a third of it has passed.
const INTERVAL: Duration = Duration::from_secs(10);
const INTERVALS: u32 = 3;
/// What is done once for a claim that has just come to hold is done by then.
const SETTLE: Duration = Duration::from_secs(2);

/// What distinguishes the engines.
#[derive(Debug)]
pub(super) struct Leases {
    pub(super) engine: Engine,
    pub(super) cost: Cost,
}

/// What may be paid for them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cost {
    /// So many calls in an interval for five hundred leases, and so much of a core.
    Batches { calls: f64, core_percent: f64 },
    /// No more than one lease alone: what keeps the session alive keeps all alive. One more may fall
    /// into the window.
    OneKeepAlive,
}

struct Watched {
    counts: Counts,
    core_percent: f64,
    held: u64,
}

impl Leases {
    pub(super) fn measure(&self) -> Result<Measured> {
        let many = self.watch(LEASES)?;
        let name = self.engine.name();
        let calls = |counts: &Counts| counts.commands + counts.keep_alives;
        let detail = json!({
            "leases": many.held, "intervals": INTERVALS, "interval_s": INTERVAL.as_secs(),
            "commands": many.counts.commands, "keep_alives": many.counts.keep_alives,
            "script_calls": many.counts.inner, "core_percent": many.core_percent,
        });
        let total = calls(&many.counts);
        let figures = match self.cost {
            Cost::Batches {
                calls,
                core_percent,
            } => vec![
                Figure {
                    what: format!("{name}: {LEASES} leases, calls for each {BATCH} renewals"),
                    limit: format!("{:.0} s interval", INTERVAL.as_secs_f64()),
                    ours: format!("{total} calls in {INTERVALS} intervals"),
                    value: total as f64 / f64::from(INTERVALS) / (LEASES / BATCH) as f64,
                    unit: "calls",
                    target: Target::AtMost(calls),
                    detail: detail.clone(),
                },
                Figure {
                    what: format!("{name}: {LEASES} leases, processor"),
                    limit: "-".into(),
                    ours: "all held".into(),
                    value: many.core_percent,
                    unit: "% of a core",
                    target: Target::Below(core_percent),
                    detail,
                },
            ],
            Cost::OneKeepAlive => {
                let one = calls(&self.watch(1)?.counts);
                vec![Figure {
                    what: format!("{name}: {LEASES} claims, calls beyond those of one"),
                    limit: format!("1 claim {one} in {INTERVALS} intervals"),
                    ours: format!("{total}, {:.2} % of a core", many.core_percent),
                    value: total as f64 - one as f64,
                    unit: "calls",
                    target: Target::AtMost(1.0),
                    detail,
                }]
            }
        };
        Ok(figures.into())
    }

    fn watch(&self, leases: u64) -> Result<Watched> {
        let engine = self.engine.start_counting()?;
        let meter = engine.meter()?;
        let mut worker = Worker::start("leases", OURS, &meter.url())?;
        let [_before, _after] = worker.ask(&format!("hold {leases} {}", LEASE.as_millis()))?;
        sleep(SETTLE);
        let (used, start) = (cpu::of_process(worker.pid())?, Instant::now());
        let before = meter.read()?;
        sleep(INTERVAL * INTERVALS);
        let counts = meter.read()? - before;
        let used = cpu::of_process(worker.pid())? - used;
        let core_percent = 100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64();
        let [held, listed, _memory] = worker.ask("check")?;
        if (held, listed) != (leases, leases) {
            return Err(format!("of {leases} leases {held} are held, {listed} are listed").into());
        }
        Ok(Watched {
            counts,
            core_percent,
            held,
        })
    }
}
