//! A place of locks of its own, and the real program on it.
#![allow(dead_code, reason = "each test file uses the part that it needs")]

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_lockkeeper");

pub(crate) struct Place {
    dir: TempDir,
    /// Where the locks live, unless it is the directory.
    engine: Option<String>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::Builder::new().prefix("lk").tempdir().unwrap(),
            engine: None,
        }
    }

    pub(crate) fn on(url: impl Into<String>) -> Self {
        Self {
            engine: Some(url.into()),
            ..Self::new()
        }
    }

    pub(crate) fn url(&self) -> String {
        let local = || format!("local:{}", self.locks().display());
        self.engine.clone().unwrap_or_else(local)
    }

    /// Where the locks live.
    pub(crate) fn locks(&self) -> PathBuf {
        self.dir.path().join("locks")
    }

    /// A file for the commands under test.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// The program with these arguments; `LK` and `DIR` are there for scripts.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args);
        self.equip(&mut command);
        command
    }

    /// A shell script in which `$LK` is the program.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        self.equip(&mut command);
        command
    }

    fn equip(&self, command: &mut Command) {
        command
            .env("LOCKKEEPER_URL", self.url())
            .env("LK", PROGRAM)
            .env("DIR", self.dir.path())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        Finished::of(self.command(args).output().unwrap())
    }

    pub(crate) fn start(&self, args: &[&str]) -> Job {
        Job::start(&mut self.command(args))
    }

    /// A command that holds the name until it is ended, already holding.
    pub(crate) fn holder(&self, name: &str, options: &[&str]) -> Job {
        let marker = format!("held-{}", unique());
        let script = format!("echo > $DIR/{marker}; exec sleep 60");
        let job = self.start(&[&["run", name], options, &["--", "sh", "-c", &script]].concat());
        until("the holder holds", || self.file(&marker).exists());
        job
    }

    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        let finished = self.run(args);
        assert_eq!(finished.code, 0, "{finished:?}");
        serde_json::from_str(&finished.stdout).unwrap()
    }

    /// How many wait for the name.
    pub(crate) fn waiters(&self, name: &str) -> usize {
        self.json(&["show", name, "--json"])["waiters"]
            .as_array()
            .unwrap()
            .len()
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        self.run(&["run", name, "--try", "--", "true"]).code == 0
    }
}

fn unique() -> u32 {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// How a run ended. A signal that ended the program itself is no exit status.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A running program; killed when the test is over.
pub(crate) struct Job {
    child: Option<Child>,
}

impl Job {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self {
            child: Some(command.spawn().unwrap()),
        }
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().unwrap()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child().try_wait().unwrap()
    }

    pub(crate) fn finish(mut self) -> Finished {
        Finished::of(self.child.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // TERM first: it is passed on, so that the command does not outlive the test.
            let pid = Pid::from_child(child);
            let _ended = rustix::process::kill_process(pid, Signal::CONT);
            let _ended = rustix::process::kill_process(pid, Signal::TERM);
            std::thread::sleep(Duration::from_millis(50));
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The state letter of a process: `R`, `S`, `T`, `Z`; `None` when there is none.
pub(crate) fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

pub(crate) fn is_alive(pid: i32) -> bool {
    state(pid).is_some_and(|letter| letter != 'Z')
}
