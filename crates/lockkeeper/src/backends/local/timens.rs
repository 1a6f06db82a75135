//! The time namespace: leases of one directory must be counted by one clock.

use super::faults::{denied, unreachable};
use crate::error::Error;

/// How far the boot-time clock of this process is ahead of the machine's, in nanoseconds.
pub(super) fn boottime_offset_ns() -> Result<i64, Error> {
    let namespace = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
    // The file below describes the clock of the children.
    if namespace("time") != namespace("time_for_children") {
        return Err(denied(
            "this process made a time namespace for its children only, so its own clock is not known: start it inside the time namespace",
        ));
    }
    let file = "/proc/self/timens_offsets";
    match std::fs::read_to_string(file) {
        Ok(text) => parse(&text).ok_or_else(|| unreachable(format!("reading {file}: {text:?}"))),
        // A kernel without time namespaces.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(unreachable(format!("reading {file}: {error}"))),
    }
}

fn parse(text: &str) -> Option<i64> {
    let mut words = text
        .lines()
        .find_map(|line| line.strip_prefix("boottime"))?
        .split_whitespace();
    let seconds: i64 = words.next()?.parse().ok()?;
    let nanos: i64 = words.next()?.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: L1
    #[test]
    fn offsets_are_read_as_the_kernel_prints_them() {
        let text = "monotonic           5         0\nboottime       -7 250000000\n";
        assert_eq!(parse(text), Some(-6_750_000_000));
        assert_eq!(parse("monotonic 5 0\n"), None);
        assert_eq!(parse("boottime 99999999999 0\n"), None);
    }
}
