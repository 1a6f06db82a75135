//! Short words for the histories that the checkers' tests plant.

use crate::history::{Event, What};

/// A millisecond of a history.
pub(crate) const MS: u64 = 1_000_000;

/// What happens to a lane at a millisecond.
pub(crate) fn at(ms: u64, lane: &str, what: What) -> Event {
    let (at, lane) = (ms * MS, lane.to_owned());
    Event { at, lane, what }
}

pub(crate) fn believes(lock: &str, token: u64, until_ms: u64) -> What {
    let (token, until) = (Some(token), Some(until_ms * MS));
    let lock = lock.to_owned();
    What::Believes { lock, token, until }
}

/// The belief of a naive lock: no token, no end.
pub(crate) fn trusts(lock: &str) -> What {
    let (token, until) = (None, None);
    let lock = lock.to_owned();
    What::Believes { lock, token, until }
}

pub(crate) fn renewed(lock: &str, until_ms: u64) -> What {
    let (lock, until) = (lock.to_owned(), until_ms * MS);
    What::Renewed { lock, until }
}

pub(crate) fn gave_back(lock: &str) -> What {
    let lock = lock.to_owned();
    What::GaveBack { lock }
}

pub(crate) fn lost(lock: &str) -> What {
    let (lock, why) = (lock.to_owned(), "the lease is over".to_owned());
    What::Lost { lock, why }
}

pub(crate) fn waits_for(lock: &str) -> What {
    let lock = lock.to_owned();
    What::Waits { lock }
}

pub(crate) fn holds(lock: &str, owner: Option<&str>) -> What {
    let (lock, owner) = (lock.to_owned(), owner.map(str::to_owned));
    What::Holds { lock, owner }
}

pub(crate) fn write(token: Option<u64>, accepted: bool) -> What {
    What::Write {
        resource: "account".to_owned(),
        value: "100".to_owned(),
        token,
        accepted,
        note: String::new(),
    }
}

pub(crate) fn asked(call: u64) -> What {
    let deed = "acquire x".to_owned();
    What::Asked { call, deed }
}

pub(crate) fn done(call: u64) -> What {
    let answer = "done".to_owned();
    What::Done { call, answer }
}

pub(crate) fn failed(call: u64) -> What {
    let why = "the deadline is over".to_owned();
    What::Failed { call, why }
}

pub(crate) fn unknown(call: u64) -> What {
    let why = "no reply".to_owned();
    What::Unknown { call, why }
}
