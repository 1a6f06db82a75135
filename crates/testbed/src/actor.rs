//! Another process of a test: the test's own program again, which plays a role and says how it fares.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Slower than this is broken even on a loaded machine.
const SOON: Duration = Duration::from_secs(20);

/// Another process. Dropping it kills it, as SIGKILL does.
///
/// What is said is a line `says: WORD NUMBER` on its standard output. A role that goes wrong ends the test,
/// so these methods panic as assertions do.
#[derive(Debug)]
pub struct Actor {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Actor {
    /// Starts the running test program once more with its test `roles::play` alone and this environment.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn play(environment: &[(&str, &str)]) -> Actor {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["--exact", "roles::play", "--nocapture", "--test-threads=1"])
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        let stdout = child.stdout.take().expect("it was asked for");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(|line| line.ok()) {
                if let Some((_, said)) = line.split_once("says: ") {
                    let _nobody_listens = sender.send(said.to_owned());
                }
            }
        });
        Actor { child, lines }
    }

    /// What it says next must begin with this word; gives the number after it.
    ///
    /// # Panics
    /// When it says something else, or nothing in time.
    #[track_caller]
    pub fn says(&self, word: &str) -> u64 {
        let said = self.lines.recv_timeout(SOON);
        let said = said.expect("the other process said nothing in time");
        let (first, rest) = said.split_once(' ').unwrap_or((&said, "0"));
        assert_eq!(first, word, "it said {said:?}");
        rest.parse().expect("a number")
    }

    /// Stops it without its knowledge, as a long pause of its machine would.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// Lets it go on after [`Actor::stop`].
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Ends it without its knowledge; tells when.
    pub fn kill(&mut self) -> Instant {
        let at = Instant::now();
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
        at
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}
