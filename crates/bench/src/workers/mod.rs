//! The processes that are measured: this very program, started again in a role. A word per line goes
//! in, numbers come out. They die with the process that started them.

mod roles;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::Result;

/// A process in a role.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    words: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// One turn of holding a lock, in nanoseconds of the clock that all processes share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) process: u64,
    pub(crate) asked: u64,
    pub(crate) acquired: u64,
    pub(crate) released: u64,
}

impl Worker {
    /// Starts a process in a role. The kernel kills it when the thread that called this ends.
    pub(crate) fn start(role: &str, arguments: &[&str]) -> Result<Self> {
        let parent = std::process::id().to_string();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", &parent, role])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (words, answers) = (child.stdin.take(), child.stdout.take());
        let words = words.ok_or("a worker has no input")?;
        let answers = BufReader::new(answers.ok_or("a worker has no output")?);
        Ok(Self {
            child,
            words,
            answers,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self, word: &str) -> Result<()> {
        // In one piece: half a line would wake it twice.
        Ok(self.words.write_all(format!("{word}\n").as_bytes())?)
    }

    /// The numbers of the next line.
    pub(crate) fn hear_all(&mut self) -> Result<Vec<u64>> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("the worker {} has ended", self.pid()).into());
        }
        let numbers = line.split_whitespace().map(str::parse);
        Ok(numbers.collect::<std::result::Result<_, _>>()?)
    }

    pub(crate) fn hear<const N: usize>(&mut self) -> Result<[u64; N]> {
        let numbers = self.hear_all()?;
        let wrong = |numbers| format!("{N} numbers were expected from a worker, not {numbers:?}");
        Ok(numbers.try_into().map_err(wrong)?)
    }

    pub(crate) fn ask<const N: usize>(&mut self, word: &str) -> Result<[u64; N]> {
        self.tell(word)?;
        self.hear()
    }

    pub(crate) fn hear_turn(&mut self) -> Result<Turn> {
        let [asked, acquired, released] = self.hear()?;
        Ok(Turn {
            process: self.pid().into(),
            asked,
            acquired,
            released,
        })
    }

    /// Lets it end by itself, and sees that it went well.
    pub(crate) fn end(mut self) -> Result<()> {
        self.tell("end")?;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("a worker ended with {status}").into()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ended = self.child.kill();
        let _waited_for = self.child.wait();
    }
}

/// Is a worker: `PARENT ROLE ARGUMENT`.
pub(crate) fn work(arguments: &[String]) -> Result<()> {
    let [parent, role, argument] = arguments else {
        return Err("a worker is started by this program only".into());
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the kernel was told.
    let parent = parent.parse().ok();
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != parent {
        return Err("the process that started this worker is gone".into());
    }
    roles::play(role, argument)
}
