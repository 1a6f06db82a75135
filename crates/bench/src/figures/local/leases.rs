//! Ten thousand leases kept alive by one process.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::contenders::OURS;
use crate::place::Place;
use crate::report::{Figure, Target};
use crate::workers::Worker;
use crate::{Result, cpu};

const LEASES: u32 = 10_000;
const LEASE: Duration = Duration::from_secs(3);
const SETTLE: Duration = Duration::from_secs(3);
const WATCHED: Duration = Duration::from_secs(12);

pub(crate) fn measure(place: &Place) -> Result<Vec<Figure>> {
    let mut worker = Worker::start("leases", OURS, &place.url("leases")?)?;
    let lease_ms = LEASE.as_millis();
    let [before, _] = worker.ask(&format!("hold {LEASES} {lease_ms}"))?;
    sleep(SETTLE);
    let (used, start) = (cpu::of_process(worker.pid())?, Instant::now());
    sleep(WATCHED);
    let used = cpu::of_process(worker.pid())? - used;
    let watched = start.elapsed();
    let [held, listed, after] = worker.ask("check")?;
    worker.end()?;
    if (held, listed) != (u64::from(LEASES), u64::from(LEASES)) {
        return Err(format!("of {LEASES} leases {held} are held, {listed} are listed").into());
    }
    let percent = 100.0 * used.as_secs_f64() / watched.as_secs_f64();
    let bytes = after.saturating_sub(before) as f64 / f64::from(LEASES);
    let common = json!({
        "leases": LEASES, "lease_ms": lease_ms as u64, "watched_s": watched.as_secs_f64(),
        "held_at_the_end": held, "listed_at_the_end": listed,
        "resident_before": before, "resident_after": after,
    });
    Ok(vec![
        Figure {
            what: format!("{LEASES} leases of 3 s: processor"),
            limit: "-".into(),
            ours: format!("all held after {:.0} s", (SETTLE + watched).as_secs_f64()),
            value: percent,
            unit: "% of a core",
            target: Target::Below(25.0),
            detail: common.clone(),
        },
        Figure {
            what: format!("{LEASES} leases of 3 s: memory each"),
            limit: "-".into(),
            ours: format!("{bytes:.0} bytes"),
            value: bytes / 1024.0,
            unit: "KiB",
            target: Target::Below(4.0),
            detail: common,
        },
    ])
}
