//! The recipe of one server process: what to run, where, as whom, and how to know that it is up.
//! A recipe can be used again, which is what a restart in place is.

use std::fmt;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Doing, Result};
use crate::ports::Port;
use crate::process;
use crate::program::{self, User};

/// How many lines of a server's log an error shows.
const TAIL_LINES: usize = 20;

/// Whether the server is up, asked over its own protocol.
type Ready = Box<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// What to run for one server.
pub(crate) struct Launch {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    pub(crate) directory: PathBuf,
    pub(crate) ready: Ready,
    pub(crate) ready_within: Duration,
    pub(crate) clock: Option<Clock>,
    pub(crate) forks: bool,
    arguments: Vec<String>,
    user: Option<User>,
    /// Kept reserved as long as the server may be started again.
    _ports: Vec<Port>,
}

impl Launch {
    /// A server that lives in `directory` and listens at the first of `ports`.
    pub(crate) fn new(name: &str, directory: PathBuf, ports: Vec<Port>) -> Launch {
        Launch {
            name: name.to_owned(),
            address: ports[0].address(),
            directory,
            ready: Box::new(|_| true),
            ready_within: Duration::from_secs(30),
            clock: None,
            forks: false,
            arguments: Vec::new(),
            user: None,
            _ports: ports,
        }
    }

    pub(crate) fn program(mut self, program: &Path) -> Launch {
        self.arguments.push(program.display().to_string());
        self
    }

    pub(crate) fn args<S: AsRef<str>>(mut self, more: impl IntoIterator<Item = S>) -> Launch {
        self.arguments.extend(
            more.into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    pub(crate) fn user(mut self, user: Option<User>) -> Launch {
        self.user = user;
        self
    }

    pub(crate) fn clock(mut self, clock: Option<Clock>) -> Launch {
        self.clock = clock;
        self
    }

    pub(crate) fn ready(
        mut self,
        within: Duration,
        ready: impl Fn(SocketAddr) -> bool + Send + Sync + 'static,
    ) -> Launch {
        self.ready_within = within;
        self.ready = Box::new(ready);
        self
    }

    /// The server is a family of processes, which are paused and killed together.
    pub(crate) fn forks(mut self) -> Launch {
        self.forks = true;
        self
    }

    /// Starts the process; its output goes to the log from here on.
    pub(crate) fn spawn(&self) -> Result<Child> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path());
        let log = log.doing(format!("opening the log of {}", self.name))?;
        let errors = log.try_clone().doing("sharing the log")?;

        let mut command = Command::new(program::find("setpriv", "util-linux")?);
        // SIGKILL, because a paused server would not act on anything else.
        command.args(["--pdeathsig", "KILL"]);
        command.args(self.user.iter().flat_map(User::setpriv_arguments));
        // Through `env`, so that only the server sees the moved clock, not setpriv.
        command.arg("--").arg(program::find("env", "coreutils")?);
        command.args(self.clock.iter().flat_map(Clock::environment));
        command.args(&self.arguments);
        // The sweeper finds what is left of a server by its working directory.
        command.current_dir(&self.directory);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        process::spawn_lasting(command).doing(format!("starting {}", self.name))
    }

    /// The last lines of the log.
    pub(crate) fn log_tail(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.join("log")
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("name", &self.name)
            .field("address", &self.address)
            .field("directory", &self.directory)
            .field("arguments", &self.arguments)
            .finish_non_exhaustive()
    }
}
