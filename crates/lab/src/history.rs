//! What happened in a run, in the order in which it became known: one event per line of JSON.
//!
//! All times are nanoseconds of the machine's monotonic clock since the run began. Every process of a run reads that
//! same clock, so the times of two lanes can be compared; the clocks that a scenario moves are others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in nanoseconds since the run began.
    pub at: u64,
    /// To whom: a client, a server, or the resource.
    pub lane: String,
    /// What.
    #[serde(flatten)]
    pub what: What,
}

/// What can happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum What {
    /// A client asks for something; the answer carries the same number.
    Asked {
        /// The number of the question, unique in its lane.
        call: u64,
        /// As a person would write it.
        deed: String,
    },
    /// The answer to a question, and that it was done.
    Done {
        /// The number of the question.
        call: u64,
        /// As a person would write it.
        answer: String,
    },
    /// It was definitely not done.
    Failed {
        /// The number of the question.
        call: u64,
        /// Why.
        why: String,
    },
    /// Nobody knows whether it was done.
    Unknown {
        /// The number of the question.
        call: u64,
        /// Why.
        why: String,
    },
    /// A client begins to wait for a lock.
    Waits {
        /// The lock.
        lock: String,
    },
    /// From now on the client believes that it holds.
    Believes {
        /// The lock.
        lock: String,
        /// Its fencing token, if it has one.
        token: Option<u64>,
        /// Until when at most, as it was told; `None`: for ever.
        until: Option<u64>,
    },
    /// The client may believe this much longer: a renewal was answered.
    Renewed {
        /// The lock.
        lock: String,
        /// Until when at most.
        until: u64,
    },
    /// From now on the client does not believe any more, and did nothing about it.
    Lost {
        /// The lock.
        lock: String,
        /// What it was told.
        why: String,
    },
    /// From now on the client does not believe any more, because it gave the lock back.
    GaveBack {
        /// The lock.
        lock: String,
    },
    /// The server says that this one holds, or nobody.
    Holds {
        /// The lock.
        lock: String,
        /// The lane of who really holds.
        owner: Option<String>,
    },
    /// A write reached the resource.
    Write {
        /// Where to.
        resource: String,
        /// What.
        value: String,
        /// Its fencing token, if it came with one.
        token: Option<u64>,
        /// Whether the resource took it.
        accepted: bool,
        /// What to know about it: both numbers of a refusal, what it overwrote.
        note: String,
    },
    /// What a write without a token replaced, at the time of the write.
    Replaced {
        /// Where.
        resource: String,
        /// What its writer had read there and based its write on.
        read: String,
        /// What was really there: another value is an update that is lost.
        found: String,
    },
    /// The process stands still (SIGSTOP).
    Paused,
    /// The process goes on (SIGCONT).
    Resumed,
    /// The process was killed (SIGKILL).
    Killed,
    /// The server was started again.
    Restarted {
        /// Whether its data were still there.
        with_data: bool,
    },
    /// The wall clock of this server was moved.
    ClockMoved {
        /// By so many milliseconds, to the past if negative.
        by_ms: i64,
    },
    /// The link of this lane does not carry anything any more, or only slowly.
    LinkBroken {
        /// How.
        how: String,
    },
    /// The link of this lane is as it was.
    LinkHealed,
    /// Something was counted.
    Counted {
        /// What.
        of: String,
        /// How many.
        number: u64,
    },
    /// A word to the reader of the picture.
    Note {
        /// The word.
        text: String,
    },
}

/// Writes down what happens, from many threads.
#[derive(Debug, Clone)]
pub struct Recorder {
    began: u64,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    /// A history that begins now.
    #[must_use]
    pub fn begin() -> Recorder {
        Recorder {
            began: monotonic(),
            events: Arc::default(),
        }
    }

    /// Nanoseconds since the beginning.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.since_beginning(monotonic())
    }

    /// A reading of [`monotonic`], taken by any process, as a time of this history.
    #[must_use]
    pub fn since_beginning(&self, reading: u64) -> u64 {
        reading.saturating_sub(self.began)
    }

    /// Notes what happens now.
    pub fn note(&self, lane: &str, what: What) {
        self.note_at(self.now(), lane, what);
    }

    /// Notes what happened at a time of this history.
    pub fn note_at(&self, at: u64, lane: &str, what: What) {
        let lane = lane.to_owned();
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(Event { at, lane, what });
    }

    /// What has happened so far, in the order of time.
    #[must_use]
    pub fn history(&self) -> Vec<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = events.clone();
        events.sort_by_key(|event| event.at);
        events
    }
}

/// The machine's monotonic clock, in nanoseconds: the same for all of its processes.
#[must_use]
pub fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A length of time as histories count it.
#[must_use]
pub fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

/// The history as lines of JSON.
///
/// # Errors
/// Never for what a [`Recorder`] wrote; the signature is that of the library beneath.
pub fn to_lines(history: &[Event]) -> Result<String, serde_json::Error> {
    let line = |event| serde_json::to_string(event).map(|line| line + "\n");
    history.iter().map(line).collect()
}

/// Reads [`to_lines`] back.
///
/// # Errors
/// With the line's fault, when it is not an event.
pub fn from_lines(lines: &str) -> Result<Vec<Event>, serde_json::Error> {
    lines.lines().map(serde_json::from_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_were() {
        let recorder = Recorder::begin();
        recorder.note("client A", What::Paused);
        let token = Some(7);
        let write = What::Write {
            resource: "account".to_owned(),
            value: "a \"quoted\"\nline".to_owned(),
            token,
            accepted: false,
            note: String::new(),
        };
        recorder.note_at(1, "resource", write);
        let history = recorder.history();
        let lines = to_lines(&history).unwrap();
        assert_eq!(lines.lines().count(), 2);
        assert_eq!(from_lines(&lines).unwrap(), history);
        assert!(from_lines("{\"at\":1}").is_err());
    }
}
