//! Which core a process runs on. Where the scheduler may decide, it decides the result: two ends of a
//! connection on one core are four times as quick as on two that fall asleep in between.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Result;

/// Where client and server run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Both on one core.
    Together,
    /// Each on a core of its own, if there are two.
    Apart,
}

impl Placement {
    /// The core of the servers and the core of the clients.
    pub(crate) fn cores(self) -> Result<(usize, usize)> {
        let allowed = sched_getaffinity(None)?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|core| allowed.is_set(*core))
            .collect();
        // The first core has most of the machine's own work.
        let last = *all.last().ok_or("this process may run on no core")?;
        Ok(match self {
            Self::Together => (last, last),
            Self::Apart => (last, all.iter().rev().nth(1).copied().unwrap_or(last)),
        })
    }
}

/// Keeps all threads of a process on a core; those that it starts later follow.
pub(crate) fn pin(pid: u32, core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let number = thread?.file_name().to_string_lossy().parse()?;
        let thread = Pid::from_raw(number).ok_or("a thread has the number 0")?;
        // A thread may have ended since.
        let _ended = sched_setaffinity(Some(thread), &set);
    }
    Ok(())
}
