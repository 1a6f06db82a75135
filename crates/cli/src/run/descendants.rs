//! All processes that the command started, at any depth. A shell that gets TERM dies and leaves its
//! children at work: ending the command means ending them too.

use std::collections::HashMap;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Everything below us that still runs. Orphans are among them: we are their subreaper.
pub(super) fn alive() -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        // One that ends while we look is not there any more: fine.
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        if let Some(parent) = live_parent(&stat) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children
        .remove(&rustix::process::getpid())
        .unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// The parent, unless the process is dead and only waits for its parent to notice.
fn live_parent(stat: &str) -> Option<Pid> {
    // The name in parentheses can hold anything, also spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X").then(|| Pid::from_raw(parent))?
}

/// Sends the signal to all of them.
pub(super) fn send(signal: Signal) {
    for pid in alive() {
        // It may have ended this moment; one of another user shows in what `kill_all` leaves.
        let _ended = rustix::process::kill_process(pid, signal);
    }
}

/// Kills until nothing is left, since what forks while it is being killed leaves a child behind.
/// Returns what could not be killed.
pub(super) fn kill_all() -> Vec<Pid> {
    const ROUNDS: u32 = 200;
    for _ in 0..ROUNDS {
        send(Signal::KILL);
        if alive().is_empty() {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    alive()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stat_of_hostile_names() {
        let parent = |stat| live_parent(stat).map(Pid::as_raw_pid);
        assert_eq!(parent("12 (sh) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a) Z 1 (b) R 7 12"), Some(7));
        assert_eq!(parent("12 (sh) Z 7 12"), None);
        assert_eq!(parent(""), None);
    }
}
