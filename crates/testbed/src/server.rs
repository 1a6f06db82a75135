//! One running server, of whatever kind: its address, its log, and the faults that can be done to
//! a process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Clock;
use crate::error::{Doing, Error, Result};
use crate::home::{self, Home};
use crate::launch::Launch;
use crate::process::{self, Status};

/// Pause between two looks at something that changes within milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long the kernel is given to stop or end a process.
const KERNEL_WITHIN: Duration = Duration::from_secs(10);

/// What servers say when their port is taken; Java's and C's words are the same.
const PORT_TAKEN: &[&str] = &[
    "Address already in use",
    "address already in use",
    "in use?",
];

/// A server process that this one owns. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    child: Mutex<Option<Child>>,
    /// The last server of a home removes it.
    _home: Arc<Home>,
}

impl Server {
    /// Starts the process and returns at once; see [`Server::await_ready`].
    pub(crate) fn spawn(launch: Launch, home: &Arc<Home>) -> Result<Server> {
        let child = launch.spawn()?;
        Ok(Server {
            launch,
            child: Mutex::new(Some(child)),
            _home: Arc::clone(home),
        })
    }

    /// Starts the process and waits until it answers.
    pub(crate) fn start(launch: Launch, home: &Arc<Home>) -> Result<Server> {
        let server = Server::spawn(launch, home)?;
        server.await_ready()?;
        Ok(server)
    }

    /// Starts several at once, since the members of a quorum only answer together.
    pub(crate) fn start_together(launches: Vec<Launch>, home: &Arc<Home>) -> Result<Vec<Server>> {
        let started = launches
            .into_iter()
            .map(|launch| Server::spawn(launch, home));
        let servers = started.collect::<Result<Vec<Server>>>()?;
        servers.iter().try_for_each(Server::await_ready)?;
        Ok(servers)
    }

    /// The name of this server within its set, as in error messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.launch.name
    }

    /// Where clients reach it; the same after a restart.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.launch.address
    }

    /// The port of [`Server::address`].
    #[must_use]
    pub fn port(&self) -> u16 {
        self.launch.address.port()
    }

    /// Its own directory, with its data and its log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.launch.directory
    }

    /// The last lines that it wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.launch.log_tail()
    }

    /// Its process id.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pid(&self) -> Result<i32> {
        let child = self.child();
        child.as_ref().map(pid_of).ok_or_else(|| self.not_running())
    }

    /// Whether the process exists, answering or not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.pid().is_ok_and(|pid| Status::of(pid).is_some())
    }

    /// The wall clock of this server alone.
    ///
    /// # Errors
    /// When it was started without [`Setup::movable_clock`](crate::Setup::movable_clock).
    pub fn clock(&self) -> Result<&Clock> {
        let none = || Error::NoClock {
            server: self.name().to_owned(),
        };
        self.launch.clock.as_ref().ok_or_else(none)
    }

    /// Stops the process in its tracks (SIGSTOP). What clients send meanwhile is queued by the
    /// kernel and *is carried out* on [`Server::resume`].
    ///
    /// # Errors
    /// When it is not running, or does not stop.
    pub fn pause(&self) -> Result<()> {
        let pid = self.pid()?;
        // The parent first: it can then make no more children that would be missed.
        self.signal(pid, Signal::STOP)?;
        for child in self.family_below(pid) {
            let _ = self.signal(child, Signal::STOP);
        }
        let stopped = || Status::of(pid).is_none_or(|status| status.state == 'T');
        self.within(KERNEL_WITHIN, stopped)
    }

    /// Lets a paused process go on (SIGCONT).
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&self) -> Result<()> {
        let pid = self.pid()?;
        for child in self.family_below(pid) {
            let _ = self.signal(child, Signal::CONT);
        }
        self.signal(pid, Signal::CONT)
    }

    /// Kills it as a crash does (SIGKILL); the data directory stays. Returns when it is gone.
    ///
    /// # Errors
    /// When the kernel refuses. A server that is gone already is no error.
    pub fn kill(&self) -> Result<()> {
        let Some(mut child) = self.child().take() else {
            return Ok(());
        };
        let pid = pid_of(&child);
        if self.launch.forks {
            // Stopped, it makes no more children that would be missed.
            let _ = self.signal(pid, Signal::STOP);
        }
        let family = self.family_below(pid);
        child.kill().doing(format!("killing {}", self.name()))?;
        child
            .wait()
            .doing(format!("waiting for the end of {}", self.name()))?;
        for member in &family {
            let _ = self.signal(*member, Signal::KILL);
        }
        let gone = || family.iter().all(|member| Status::of(*member).is_none());
        self.within(KERNEL_WITHIN, gone)
    }

    /// Starts it again in place, with the same data and address, killing it first if it still
    /// runs. Returns when it answers.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn restart(&self) -> Result<()> {
        self.restart_unready()?;
        self.await_ready()
    }

    /// As [`Server::restart`], without waiting: for members of a quorum that only answer together.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn restart_unready(&self) -> Result<()> {
        self.kill()?;
        *self.child() = Some(self.launch.spawn()?);
        Ok(())
    }

    /// Waits, within bounds, until it answers over its own protocol.
    ///
    /// # Errors
    /// When it ended or stays silent; the message has the end of its log.
    pub fn await_ready(&self) -> Result<()> {
        self.await_that(&self.launch.ready)
    }

    /// Waits until the server, asked in this way, says yes.
    pub(crate) fn await_that(&self, yes: impl Fn(SocketAddr) -> bool) -> Result<()> {
        let within = self.launch.ready_within;
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.ended()? {
                return Err(self.why_it_ended(&status));
            }
            if yes(self.address()) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(self.not_ready(within));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exit status, if the process ended by itself.
    fn ended(&self) -> Result<Option<String>> {
        let mut child = self.child();
        let running = child.as_mut().ok_or_else(|| self.not_running())?;
        let status = running
            .try_wait()
            .doing(format!("looking after {}", self.name()))?;
        if status.is_some() {
            *child = None;
        }
        Ok(status.map(|status| status.to_string()))
    }

    fn why_it_ended(&self, status: &str) -> Error {
        let (server, log) = (self.name().to_owned(), self.log_tail());
        if PORT_TAKEN.iter().any(|words| log.contains(words)) {
            return Error::PortTaken { server, log };
        }
        Error::Died {
            server,
            status: status.to_owned(),
            log,
        }
    }

    fn not_ready(&self, within: Duration) -> Error {
        Error::NotReady {
            server: self.name().to_owned(),
            within,
            log: self.log_tail(),
        }
    }

    fn not_running(&self) -> Error {
        Error::NotRunning {
            server: self.name().to_owned(),
        }
    }

    fn family_below(&self, pid: i32) -> Vec<i32> {
        if self.launch.forks {
            process::children_of(pid)
        } else {
            Vec::new()
        }
    }

    fn signal(&self, pid: i32, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(pid).ok_or_else(|| self.not_running())?;
        kill_process(pid, signal).doing(format!("signalling {}", self.name()))
    }

    fn within(&self, limit: Duration, done: impl Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + limit;
        while !done() {
            if Instant::now() > deadline {
                return Err(self.not_ready(limit));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; the kernel kills it with this process anyway.
        let _ = self.kill();
        home::remove_shared_memory(&self.launch.directory.join("data"));
    }
}

fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap_or_default()
}
