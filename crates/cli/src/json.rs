//! The JSON of `ls` and `show`, field for field as documented: programs read it.

use std::time::Duration;

use lockkeeper::Mode;
use lockkeeper::backend::{ClaimView, LockView};
use serde::Serialize;

/// One name.
#[derive(Debug, Serialize)]
pub(crate) struct Lock<'a> {
    name: &'a str,
    /// `null` of a name that nobody holds or waits for.
    mode: Option<&'static str>,
    holders: Vec<Holder<'a>>,
    waiters: Vec<Waiter<'a>>,
}

#[derive(Debug, Serialize)]
struct Holder<'a> {
    token: u64,
    owner: &'a str,
    host: &'a str,
    pid: u32,
    held_ms: u64,
    lease_left_ms: u64,
}

#[derive(Debug, Serialize)]
struct Waiter<'a> {
    token: u64,
    owner: &'a str,
    host: &'a str,
    pid: u32,
    waiting_ms: u64,
}

impl<'a> Lock<'a> {
    pub(crate) fn of(view: &'a LockView) -> Self {
        let first = view.holders.first().or(view.waiters.first());
        Self {
            name: view.name.as_str(),
            mode: first.map(|claim| mode_name(claim.mode)),
            holders: view.holders.iter().map(holder).collect(),
            waiters: view.waiters.iter().map(waiter).collect(),
        }
    }
}

fn holder(claim: &ClaimView) -> Holder<'_> {
    Holder {
        token: claim.token.get(),
        owner: &claim.party.label,
        host: &claim.party.host,
        pid: claim.party.pid,
        held_ms: millis(claim.since),
        lease_left_ms: millis(claim.lease_left),
    }
}

fn waiter(claim: &ClaimView) -> Waiter<'_> {
    Waiter {
        token: claim.token.get(),
        owner: &claim.party.label,
        host: &claim.party.host,
        pid: claim.party.pid,
        waiting_ms: millis(claim.since),
    }
}

pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Permits { .. } => "permits",
        _ => "other",
    }
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
