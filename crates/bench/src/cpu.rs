//! How much processor time a process used. Taken from the scheduler's own count in nanoseconds: in
//! clock ticks, two hundred nearly idle processes would all read zero.

use std::fs;
use std::time::Duration;

use crate::Result;

/// Processor time of all living threads of a process so far.
pub(crate) fn of_process(pid: u32) -> Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let first = text.split_whitespace().next().unwrap_or_default();
        nanos += first.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// Processor time of many processes together.
pub(crate) fn of_all(pids: &[u32]) -> Result<Duration> {
    pids.iter().map(|pid| of_process(*pid)).sum()
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap_or_default().trim().trim_end_matches(" kB");
    Ok(kib.parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_time_and_memory() {
        let me = std::process::id();
        let before = of_process(me).unwrap();
        let mut sum = 0_u64;
        while of_process(me).unwrap() < before + Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(resident().unwrap() > 100 * 1024);
    }
}
