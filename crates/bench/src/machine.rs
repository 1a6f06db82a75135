//! What else the machine did meanwhile: without it, no figure can be judged.

use std::fs;
use std::time::Duration;

use crate::Result;

/// A reading of the machine's counters.
#[derive(Debug)]
pub(crate) struct Reading {
    /// Processor time of all cores, in ticks: in use by anybody, taken away by the host, and all.
    busy: u64,
    stolen: u64,
    total: u64,
    /// Of this process and of its children that have ended.
    own: u64,
}

/// What others did between two readings, in percent of all cores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Disturbance {
    /// Used by programs that are none of this run.
    pub(crate) foreign: f64,
    /// Taken away by the host.
    pub(crate) stolen: f64,
}

impl Reading {
    pub(crate) fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .flat_map(str::parse)
            .collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time.
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = ticks[..8.min(ticks.len())]
        else {
            return Err("/proc/stat has no line of all cores".into());
        };
        let busy = user + nice + system + irq + softirq;
        Ok(Self {
            busy,
            stolen,
            total: busy + idle + iowait + stolen,
            own: own_ticks()?,
        })
    }

    /// What others did since then. Children must have ended, or they count as others.
    pub(crate) fn since(&self) -> Result<Disturbance> {
        let now = Self::now()?;
        let total = (now.total - self.total).max(1) as f64;
        let own = now.own - self.own;
        let foreign = (now.busy - self.busy).saturating_sub(own);
        Ok(Disturbance {
            foreign: 100.0 * foreign as f64 / total,
            stolen: 100.0 * (now.stolen - self.stolen) as f64 / total,
        })
    }
}

/// utime, stime, cutime and cstime of this process.
fn own_ticks() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    // The second field may contain anything, so count from behind its closing bracket.
    let (_, fields) = text.rsplit_once(')').ok_or("/proc/self/stat is odd")?;
    let times = fields.split_whitespace().skip(11).take(4);
    Ok(times.flat_map(str::parse::<u64>).sum())
}

/// The load averages of 1, 5 and 15 minutes, as the kernel prints them.
pub(crate) fn load() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let three: Vec<&str> = text.split_whitespace().take(3).collect();
    Ok(three.join(" "))
}

/// Kernel, cores and processor.
pub(crate) fn description() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_start_matches([' ', '\t', ':'])
        });
    format!("{cores} cores ({model}), Linux {}", kernel.trim())
}

/// Asks to be served before all others, with all processes that are started from now on; tells how this
/// process is served.
pub(crate) fn hurry() -> String {
    use rustix::process::{getpriority_process, setpriority_process};
    // Only the privileged may; everybody else is measured as they are.
    let _refused = setpriority_process(None, FIRST);
    // Where the kernel divides the machine among sessions first, it is the session's priority that counts.
    let _refused = fs::write("/proc/self/autogroup", FIRST.to_string());
    getpriority_process(None).map_or_else(|_| "unknown".into(), |nice| nice.to_string())
}

/// The priority before which there is none.
const FIRST: i32 = -20;

/// Nanoseconds on a clock that all processes of the machine share.
pub(crate) fn nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The moment this much later.
pub(crate) fn nanos_after(span: Duration) -> u64 {
    nanos() + span.as_nanos() as u64
}
