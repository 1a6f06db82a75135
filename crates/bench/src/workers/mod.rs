//! The processes that are measured: this very program, started again in a role. A word per line goes
//! in, numbers come out. They die with the process that started them.

mod roles;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::Result;
use crate::turns::Turn;

/// A process in a role.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    words: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts a process in a role, of a kind, at a URL. The kernel kills it when the thread that called
    /// this ends.
    pub(crate) fn start(role: &str, kind: &str, url: &str) -> Result<Self> {
        let parent = std::process::id().to_string();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["worker", &parent, role, kind, url])
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

    /// The turns of the next line.
    pub(crate) fn hear_turns(&mut self) -> Result<Vec<Turn>> {
        let numbers = self.hear_all()?;
        let process = self.pid();
        let (turns, []) = numbers.as_chunks() else {
            return Err("half a turn came from a worker".into());
        };
        let turn = |[asked, acquired, released]: &[u64; 3]| Turn {
            process,
            asked: *asked,
            acquired: *acquired,
            released: *released,
        };
        Ok(turns.iter().map(turn).collect())
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

/// Is a worker: `PARENT ROLE KIND URL`.
pub(crate) fn work(arguments: &[String]) -> Result<()> {
    let [parent, role, kind, url] = arguments else {
        return Err("a worker is started by this program only".into());
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the kernel was told.
    let parent = parent.parse().ok();
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != parent {
        return Err("the process that started this worker is gone".into());
    }
    roles::play(role, kind, url)
}
