//! One foreign client as a child process, and the conversation with it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Doing, Error, Result};
use crate::home::Home;
use crate::{process, program};

/// What a client may take beyond the time it was asked to take: a Java machine starts in a second or
/// two, on a busy machine in many.
const PATIENCE: Duration = Duration::from_secs(60);

/// How asking for a lock ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquired {
    /// The client holds it.
    Got,
    /// Somebody else held it all the while.
    Busy,
}

/// How giving a lock back ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// It was still the client's.
    Freed,
    /// It was not the client's any more, as far as the client can tell.
    NotMine,
}

/// A lock client that somebody else wrote, in a process of its own that dies with this one.
#[derive(Debug)]
pub struct Client {
    name: &'static str,
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
    log: PathBuf,
    _home: Home,
}

impl Client {
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &Path)],
    ) -> Result<Client> {
        let home = Home::new("foreign", false)?;
        let directory = home.node("client", None)?;
        let log = directory.join("log");
        let errors = File::create(&log).doing("making the log of a foreign client")?;

        let mut command = Command::new(program::find("setpriv", "util-linux")?);
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command.args(arguments).current_dir(&directory);
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(errors);
        let mut child = process::spawn_lasting(command).doing(format!("starting {name}"))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for");
        };
        let mut client = Client {
            name,
            child,
            input,
            answers: lines_of(output),
            log,
            _home: home,
        };
        match client.answer(Duration::ZERO)?.as_str() {
            "ready" => Ok(client),
            other => Err(client.unexpected(other)),
        }
    }

    /// Asks for the lock, waits for it up to `wait`, and holds it for `lease` unless the client has
    /// its own way to stay alive.
    ///
    /// # Errors
    /// What the client threw; or it ended, or does not answer.
    pub fn acquire(&mut self, name: &str, wait: Duration, lease: Duration) -> Result<Acquired> {
        self.begin_acquire(name, wait, lease)?;
        self.finish_acquire(wait)
    }

    /// Asks for the lock without waiting for the answer, which [`Client::finish_acquire`] gives.
    ///
    /// # Errors
    /// When the client has ended.
    pub fn begin_acquire(&mut self, name: &str, wait: Duration, lease: Duration) -> Result<()> {
        let (wait, lease) = (wait.as_millis(), lease.as_millis());
        self.say(&format!("acquire {name} {wait} {lease}"))
    }

    /// How the lock that was asked for went, when asked to wait up to `wait` for it.
    ///
    /// # Errors
    /// What the client threw; or it ended, or does not answer.
    pub fn finish_acquire(&mut self, wait: Duration) -> Result<Acquired> {
        match self.answer(wait)?.as_str() {
            "got" => Ok(Acquired::Got),
            "busy" => Ok(Acquired::Busy),
            other => Err(self.unexpected(other)),
        }
    }

    /// Gives back what was got last.
    ///
    /// # Errors
    /// What the client threw; or it ended, or does not answer.
    pub fn release(&mut self) -> Result<Released> {
        self.say("release")?;
        match self.answer(Duration::ZERO)?.as_str() {
            "released" => Ok(Released::Freed),
            "not-mine" => Ok(Released::NotMine),
            other => Err(self.unexpected(other)),
        }
    }

    /// Acquires and releases again and again for so long, waiting for others as it must, and tells
    /// how long each cycle took.
    ///
    /// # Errors
    /// What the client threw; or it ended, or does not answer.
    pub fn cycles(&mut self, length: Duration, name: &str) -> Result<Vec<Duration>> {
        self.begin_cycles(length, name)?;
        self.finish_cycles(length)
    }

    /// Starts [`Client::cycles`] without waiting for the answer, so that several clients run at once.
    ///
    /// # Errors
    /// When the client has ended.
    pub fn begin_cycles(&mut self, length: Duration, name: &str) -> Result<()> {
        self.say(&format!("cycles {} {name}", length.as_millis()))
    }

    /// How the cycles that were asked for went.
    ///
    /// # Errors
    /// What the client threw; or it ended, or does not answer.
    pub fn finish_cycles(&mut self, length: Duration) -> Result<Vec<Duration>> {
        let answer = self.answer(length)?;
        let nanoseconds = answer.strip_prefix("cycles ").and_then(|all| {
            let each = all.split(' ').map(|one| one.parse().ok());
            each.map(|one| one.map(Duration::from_nanos)).collect()
        });
        nanoseconds.ok_or_else(|| self.unexpected(&answer))
    }

    /// Stops it without its knowledge, as a long pause of its machine would.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on after [`Client::pause`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Ends it without its knowledge.
    pub fn kill(self) {
        drop(self);
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| self.ended())?;
        kill_process(pid, signal).doing(format!("signalling {}", self.name))
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let said = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        said.map_err(|_| self.ended())
    }

    fn answer(&mut self, beyond_patience: Duration) -> Result<String> {
        let within = PATIENCE + beyond_patience;
        match self.answers.recv_timeout(within) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
            Err(RecvTimeoutError::Timeout) => Err(Error::NotReady {
                server: self.name.to_owned(),
                within,
                log: self.log(),
            }),
        }
    }

    fn unexpected(&self, answer: &str) -> Error {
        Error::Command {
            what: format!("the client {}", self.name),
            output: format!("{answer}\n{}", self.log()),
        }
    }

    fn ended(&self) -> Error {
        Error::Died {
            server: self.name.to_owned(),
            status: "its conversation closed".to_owned(),
            log: self.log(),
        }
    }

    fn log(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a child's output as they come, until it ends or nobody wants them any more.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, answers) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(|line| line.ok());
        for line in lines {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    answers
}
