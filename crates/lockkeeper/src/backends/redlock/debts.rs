//! What a node must still be told: releases and give-backs that it has not acknowledged.
//!
//! A question that waits in a broken connection's socket may be carried out after that connection was given
//! up, when its give-back already found the node gone. So what frees is noted before it is sent, struck off
//! when the node has answered, and otherwise sent by the next greeting: before anything new is asked, so that
//! it never frees what was granted later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::backends::redis::packed::Packed;
use crate::claim::ClaimId;
use crate::lifecycle::deadline::Moment;

/// No more than this is remembered; the leases of the others end by themselves.
const MOST: usize = 1000;

/// What frees a claim, wherever it is.
#[derive(Debug, Clone)]
pub(super) struct Free {
    pub(super) claim: ClaimId,
    pub(super) cmd: Arc<Packed>,
    /// How long there can be something to free: its lease.
    pub(super) within: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Debts {
    all: Mutex<VecDeque<Debt>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Debt {
    number: u64,
    claim: ClaimId,
    cmd: Arc<Packed>,
    /// The connection that it was sent on, and whether it is known to have failed.
    connection: u64,
    failed: bool,
    /// From then on there is nothing left to free.
    until: Moment,
}

impl Debts {
    fn all(&self) -> MutexGuard<'_, VecDeque<Debt>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is about to be sent.
    pub(super) fn note(&self, free: &Free, connection: u64, now: Moment) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut all = self.all();
        while all.front().is_some_and(|debt| debt.until <= now) || all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(Debt {
            number,
            claim: free.claim,
            cmd: free.cmd.clone(),
            connection,
            failed: false,
            until: now + free.within,
        });
        number
    }

    pub(super) fn is_paid(&self, number: u64) {
        self.all().retain(|debt| debt.number != number);
    }

    /// The node has granted the claim on the present connection, and carries out what it is told in order:
    /// whatever was to free the claim before is done, and must not be sent after the grant.
    pub(super) fn are_paid(&self, claim: &ClaimId) {
        self.all().retain(|debt| debt.claim != *claim);
    }

    pub(super) fn was_not_paid(&self, number: u64) {
        let mut all = self.all();
        if let Some(debt) = all.iter_mut().find(|debt| debt.number == number) {
            debt.failed = true;
        }
    }

    /// What earlier connections left undone, in the order in which it was sent. What is under way on this
    /// connection is left to it.
    pub(super) fn due(&self, connection: u64, now: Moment) -> Vec<(u64, Arc<Packed>)> {
        let mut all = self.all();
        all.retain(|debt| debt.until > now);
        let due = |debt: &&Debt| debt.failed || debt.connection < connection;
        let due = all.iter().filter(due);
        due.map(|debt| (debt.number, debt.cmd.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::deadline::Clock;

    fn free(claim: u8) -> Free {
        Free {
            claim: ClaimId::from_bytes([claim; 16]),
            cmd: Arc::new(Packed::words(&[b"PING"])),
            within: Duration::from_secs(60),
        }
    }

    #[test]
    fn what_was_not_acknowledged_is_due_on_the_next_connection_only() {
        let (debts, now) = (Debts::default(), Clock::system().now());
        let numbers = |connection| {
            let due = debts.due(connection, now);
            due.into_iter()
                .map(|(number, _)| number)
                .collect::<Vec<_>>()
        };
        let [paid, lost, failed] = [1, 2, 3].map(|claim| debts.note(&free(claim), 7, now));
        debts.is_paid(paid);
        debts.was_not_paid(failed);
        assert_eq!(numbers(7), [failed]);
        assert_eq!(numbers(8), [lost, failed]);
        debts.are_paid(&free(2).claim);
        assert_eq!(numbers(8), [failed]);
        let ended = now + Duration::from_secs(60);
        assert!(debts.due(8, ended).is_empty(), "its lease has ended");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (debts, now) = (Debts::default(), Clock::system().now());
        for _ in 0..2 * MOST {
            debts.note(&free(0), 0, now);
        }
        assert_eq!(debts.due(1, now).len(), MOST);
    }
}
