//! A client as its story sees it: told what to do, stopped, killed; all of it written down.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use lockkeeper_testbed::Redis;
use rustix::process::{Pid, Signal, kill_process};

use super::deeds::{Answer, Ask, Deed, Said, Shown, ZooKeeperVerb};
use crate::Result;
use crate::history::{Recorder, What, nanos};

/// Slower than this is a broken lab, on any machine.
const PATIENCE: Duration = Duration::from_secs(40);

/// A process that locks. Dropping it kills it.
#[derive(Debug)]
pub struct Client {
    name: String,
    child: Child,
    input: ChildStdin,
    answers: Receiver<(u64, Answer)>,
    recorder: Recorder,
    calls: u64,
    /// How often it has entered each lock of lockkeeper that it holds.
    entered: HashMap<String, u32>,
    /// What it has read last under each key.
    read: HashMap<String, String>,
}

impl Client {
    pub(crate) fn start(program: &[String], name: &str, recorder: &Recorder) -> Result<Client> {
        let (first, rest) = program.split_first().ok_or("no program for clients")?;
        let mut child = Command::new(first)
            .args(rest)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let input = input.ok_or("a client has no input")?;
        let output = output.ok_or("a client has no output")?;
        let (recorder, name) = (recorder.clone(), name.to_owned());
        let answers = listen(output, name.clone(), recorder.clone());
        Ok(Client {
            name,
            child,
            input,
            answers,
            recorder,
            calls: 0,
            entered: HashMap::new(),
            read: HashMap::new(),
        })
    }

    /// Its lane in the picture.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Tells it what to do, and waits until it is done.
    ///
    /// # Errors
    /// When it has ended, or does not answer for far too long.
    pub fn ask(&mut self, deed: Deed) -> Result<Answer> {
        self.begin(&deed)?;
        self.finish(&deed)
    }

    /// Tells it what to do, without waiting.
    ///
    /// # Errors
    /// When it has ended.
    pub fn begin(&mut self, deed: &Deed) -> Result<()> {
        self.calls += 1;
        let (call, words) = (self.calls, deed.words());
        self.note(What::Asked { call, deed: words });
        if let Deed::Acquire(Ask { name, .. }) = deed {
            self.note(What::Waits { lock: name.clone() });
        }
        if let Deed::Release { name } = deed {
            self.leave(name);
        }
        let line = serde_json::to_string(deed)? + "\n";
        self.input.write_all(line.as_bytes())?;
        Ok(self.input.flush()?)
    }

    /// The answer to what was begun with this deed.
    ///
    /// # Errors
    /// When it has ended, or does not answer for far too long.
    pub fn finish(&mut self, deed: &Deed) -> Result<Answer> {
        let (at, answer) = match self.answers.recv_timeout(PATIENCE) {
            Ok(answered) => answered,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(format!("{} has ended while: {}", self.name, deed.words()).into());
            }
            Err(RecvTimeoutError::Timeout) => {
                return Err(format!("{} does not answer: {}", self.name, deed.words()).into());
            }
        };
        self.write_down(at, deed, &answer);
        Ok(answer)
    }

    /// The answer to what was begun with this deed, if it comes within this time.
    pub fn finish_within(&mut self, deed: &Deed, patience: Duration) -> Option<Answer> {
        let (at, answer) = self.answers.recv_timeout(patience).ok()?;
        self.write_down(at, deed, &answer);
        Some(answer)
    }

    /// The lock is given back with the last of its entries.
    fn leave(&mut self, name: &str) {
        let entered = self.entered.get_mut(name);
        let left = entered.map_or(0, |entered| {
            *entered = entered.saturating_sub(1);
            *entered
        });
        if left == 0 {
            self.gives_back(name);
        }
    }

    fn write_down(&mut self, at: u64, deed: &Deed, answer: &Answer) {
        let (call, words) = (self.calls, answer.words());
        let note = |what| self.recorder.note_at(at, &self.name, what);
        note(match answer {
            Answer::Failed(why) => What::Failed {
                call,
                why: why.clone(),
            },
            Answer::Unknown(why) => What::Unknown {
                call,
                why: why.clone(),
            },
            _ => What::Done {
                call,
                answer: words,
            },
        });
        match (deed, answer) {
            (Deed::Acquire(ask), Answer::Granted { token, until }) => {
                note(What::Believes {
                    lock: ask.name.clone(),
                    token: Some(*token),
                    until: Some(self.recorder.since_beginning(*until)),
                });
                *self.entered.entry(ask.name.clone()).or_default() += 1;
            }
            (Deed::Redis { command, .. }, Answer::Text(text)) => {
                if let [verb, key] = command.as_slice()
                    && verb == "GET"
                {
                    self.read.insert(key.clone(), text.clone());
                }
            }
            (Deed::Write { key, value, .. }, answer) => self.note_write(at, key, value, answer),
            _ => {}
        }
    }

    fn note_write(&self, at: u64, key: &str, value: &str, answer: &Answer) {
        let (token, accepted, note) = match answer {
            Answer::Refused { offered, highest } => {
                let note = format!("token {offered} is older than {highest}");
                (Some(*offered), false, note)
            }
            Answer::Accepted { token } => (Some(*token), true, format!("by {}", self.name)),
            Answer::Text(before) => (None, true, format!("by {}, over {before:?}", self.name)),
            Answer::Nothing => (None, true, format!("by {}", self.name)),
            _ => return,
        };
        let write = What::Write {
            resource: key.to_owned(),
            value: value.to_owned(),
            token,
            accepted,
            note,
        };
        self.recorder.note_at(at, "resource", write);
        if let (Answer::Text(found), Some(read)) = (answer, self.read.get(key)) {
            let replaced = What::Replaced {
                resource: key.to_owned(),
                read: read.clone(),
                found: found.clone(),
            };
            self.recorder.note_at(at, "resource", replaced);
        }
    }

    /// A command on a Redis server: what a naive lock is made of. `None` is its nil.
    ///
    /// # Errors
    /// What the server says, or the client does not answer.
    pub fn redis(&mut self, server: &Redis, command: &[&str]) -> Result<Option<String>> {
        let answer = self.ask(redis(server, command))?;
        match answer {
            Answer::Text(text) => Ok(Some(text)),
            Answer::Nothing => Ok(None),
            other => Err(format!("{}: {}", command.join(" "), other.words()).into()),
        }
    }

    /// A statement on a SQL server.
    ///
    /// # Errors
    /// When the client does not answer; what the server says is an answer.
    pub fn sql(&mut self, url: &str, statement: &str) -> Result<Answer> {
        self.ask(sql(url, statement))
    }

    /// A verb on a ZooKeeper server, in the one session of this client.
    ///
    /// # Errors
    /// When the client does not answer; what the server says is an answer.
    pub fn zookeeper(
        &mut self,
        address: &str,
        session: Duration,
        verb: ZooKeeperVerb,
    ) -> Result<Answer> {
        let session_ms = u64::try_from(session.as_millis())?;
        let address = address.to_owned();
        self.ask(Deed::ZooKeeper {
            address,
            session_ms,
            verb,
        })
    }

    /// Acquires a lock of lockkeeper; from the grant on, it believes.
    ///
    /// # Errors
    /// When the client does not answer.
    pub fn acquire(&mut self, ask: &Ask) -> Result<Answer> {
        self.ask(Deed::Acquire(ask.clone()))
    }

    /// Gives back a lock of lockkeeper.
    ///
    /// # Errors
    /// When the client does not answer.
    pub fn release(&mut self, name: &str) -> Result<Answer> {
        let name = name.to_owned();
        self.ask(Deed::Release { name })
    }

    /// Asks the guard whether it still holds.
    ///
    /// # Errors
    /// When the client does not answer.
    pub fn check(&mut self, name: &str) -> Result<Answer> {
        let name = name.to_owned();
        self.ask(Deed::Check { name })
    }

    /// Writes to the resource; tells whether the resource took it.
    ///
    /// # Errors
    /// When the client or the resource does not answer.
    pub fn write(
        &mut self,
        resource: &Redis,
        key: &str,
        value: &str,
        pass: Option<Shown>,
    ) -> Result<bool> {
        let (address, key) = (resource.address().to_string(), key.to_owned());
        let value = value.to_owned();
        let deed = Deed::Write {
            address,
            key,
            value,
            pass,
        };
        match self.ask(deed)? {
            Answer::Refused { .. } => Ok(false),
            Answer::Accepted { .. } | Answer::Text(_) | Answer::Nothing => Ok(true),
            other => Err(format!("the write failed: {}", other.words()).into()),
        }
    }

    /// Writes down that this client now takes a naive lock for its own, until it gives it back or for this long.
    pub fn believes(&self, lock: &str, lease: Option<Duration>) {
        let until = lease.map(|lease| self.recorder.now() + nanos(lease));
        let (lock, token) = (lock.to_owned(), None);
        self.note(What::Believes { lock, token, until });
    }

    /// Writes down that this client does not take the lock for its own any more.
    pub fn gives_back(&self, lock: &str) {
        let lock = lock.to_owned();
        self.note(What::GaveBack { lock });
    }

    /// Stops it without its knowledge; returns when it stands still.
    ///
    /// # Errors
    /// When it has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let began = Instant::now();
        while self.state() != Some('T') {
            if began.elapsed() > PATIENCE {
                return Err(format!("{} does not stop", self.name).into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.note(What::Paused);
        Ok(())
    }

    /// Lets it go on.
    ///
    /// # Errors
    /// When it has ended.
    pub fn resume(&self) -> Result<()> {
        self.note(What::Resumed);
        self.signal(Signal::CONT)
    }

    /// Ends it without its knowledge.
    ///
    /// # Errors
    /// When it has ended before.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        self.note(What::Killed);
        Ok(())
    }

    /// Writes down what happens to it.
    pub fn note(&self, what: What) {
        self.recorder.note(&self.name, what);
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

/// A command on a Redis server, as a deed.
#[must_use]
pub fn redis(server: &Redis, command: &[&str]) -> Deed {
    let address = server.address().to_string();
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    Deed::Redis { address, command }
}

/// A statement on a SQL server, as a deed.
#[must_use]
pub fn sql(url: &str, statement: &str) -> Deed {
    let (url, statement) = (url.to_owned(), statement.to_owned());
    Deed::Sql { url, statement }
}

/// Passes answers on, and writes news down.
fn listen(output: ChildStdout, name: String, recorder: Recorder) -> Receiver<(u64, Answer)> {
    let (sender, answers) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(|line| line.ok()) {
            let at = |reading| recorder.since_beginning(reading);
            match serde_json::from_str(&line) {
                Ok(Said::Answer { at: when, answer }) => {
                    let _nobody_waits = sender.send((at(when), answer));
                }
                Ok(Said::Renewed {
                    at: when,
                    lock,
                    until,
                }) => {
                    let until = at(until);
                    recorder.note_at(at(when), &name, What::Renewed { lock, until });
                }
                Ok(Said::Lost {
                    at: when,
                    lock,
                    why,
                }) => {
                    recorder.note_at(at(when), &name, What::Lost { lock, why });
                }
                Err(error) => recorder.note(
                    &name,
                    What::Note {
                        text: format!("unreadable: {error}: {line}"),
                    },
                ),
            }
        }
    });
    answers
}
