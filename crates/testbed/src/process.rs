//! Children that die with this process, and what /proc says about processes.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

type Order = (Command, Sender<io::Result<Child>>);

/// The kernel ties a child's death signal to the *thread* that made it: a server started by a
/// test's own thread would die with that test, though another test may share it. So one thread,
/// which lasts as long as the process, makes them all.
static SPAWNER: LazyLock<Mutex<Sender<Order>>> = LazyLock::new(|| {
    let (orders, inbox) = channel::<Order>();
    let run = move || {
        for (mut command, reply) in inbox {
            // The asker waits for it, so it is still there.
            let _ = reply.send(command.spawn());
        }
    };
    let spawner = thread::Builder::new()
        .name("testbed-spawner".to_owned())
        .spawn(run);
    drop(spawner.expect("a thread can be started"));
    Mutex::new(orders)
});

/// Starts the command on the lasting thread. The command itself must ask for the death signal
/// (`setpriv --pdeathsig`), because doing so from here would need unsafe code.
pub(crate) fn spawn_lasting(command: Command) -> io::Result<Child> {
    let (reply, answer) = channel();
    let orders = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
    let gone = |_| io::Error::other("the spawner thread has ended");
    orders
        .send((command, reply))
        .map_err(|_| io::Error::other("the spawner thread has ended"))?;
    drop(orders);
    answer.recv().map_err(gone)?
}

/// What /proc tells about one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) state: char,
    pub(crate) parent: i32,
}

impl Status {
    /// `None` for a process that is gone; a zombie counts as gone, because an orphan may wait long
    /// for the machine's first process to collect it.
    pub(crate) fn of(pid: i32) -> Option<Status> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Status::parse(&text).filter(|status| !matches!(status.state, 'Z' | 'X'))
    }

    fn parse(text: &str) -> Option<Status> {
        // The name before it is in parentheses and may itself contain any of these characters.
        let mut fields = text.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        Some(Status { state, parent })
    }
}

/// The living children of a process.
pub(crate) fn children_of(parent: i32) -> Vec<i32> {
    let ours = |pid: &i32| Status::of(*pid).is_some_and(|status| status.parent == parent);
    all_processes().filter(ours).collect()
}

/// The processes whose working directory is `directory` or below.
pub(crate) fn living_in(directory: &Path) -> Vec<i32> {
    let inside = |pid: &i32| {
        let place = fs::read_link(format!("/proc/{pid}/cwd"));
        place.is_ok_and(|place| place.starts_with(directory))
    };
    all_processes().filter(inside).collect()
}

fn all_processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_survives_strange_names() {
        let text = "42 (a) Z (b) S 7 42 42 0 -1";
        assert_eq!(
            Status::parse(text),
            Some(Status {
                state: 'S',
                parent: 7
            })
        );
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let ask = || {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "--", "sleep", "60"]);
            spawn_lasting(command).unwrap()
        };
        let mut child = thread::spawn(ask).join().unwrap();
        thread::sleep(std::time::Duration::from_millis(50));
        let pid = i32::try_from(child.id()).unwrap();
        assert!(Status::of(pid).is_some());
        assert!(children_of(i32::try_from(std::process::id()).unwrap()).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(Status::of(pid).is_none());
    }
}
