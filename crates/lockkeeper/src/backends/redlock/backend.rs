//! The verbs: each asks all nodes at the same time and answers as soon as the outcome is decided.

use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;

use super::REDLOCK;
use super::ballot::{Ballot, Batch};
use super::debts::Free;
use super::quorum::{Count, Vote, validity};
use super::set::{Message, Set, bucket};
use super::view;
use super::wire::{Record, Said, number};
use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wakes};
use crate::backends::redis::packed::Packed;
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::Moment;
use crate::{Mode, Name};

/// How often a number is written back before the vote counts as lost.
const WRITE_BACKS: usize = 6;

/// One keeper's connections to the nodes.
#[derive(Debug)]
pub(super) struct Redlock {
    pub(super) set: Arc<Set>,
    pub(super) bell: Bell,
    pub(super) guarantees: Guarantees,
    pub(super) place: String,
    /// The claims of this keeper that hold.
    pub(super) held: Mutex<HashMap<ClaimId, Hold>>,
}

/// What this keeper knows of a claim that holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hold {
    order: u64,
    /// Until when a majority has confirmed it.
    until: Moment,
    since: Duration,
}

/// When a question was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    at: Moment,
    /// For people: nothing is decided by it.
    wall: Duration,
}

/// How long the nodes may take: a small part of the lease, since two rounds and a repetition must fit.
fn node_limit(lease: Duration) -> Duration {
    (lease / 6).clamp(Duration::from_millis(30), Duration::from_secs(1))
}

#[async_trait]
impl Backend for Redlock {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        only_exclusive(claim.mode)?;
        // A number once told is kept: a new offer could win where the claim had not arrived yet.
        if self.held().contains_key(&claim.id)
            && let [holds @ Standing::Holds { .. }] = self.renew(slice::from_ref(claim)).await?[..]
        {
            return Ok(holds);
        }
        let sent = self.now();
        let offer = self.set.offer(bucket(&claim.name));
        let record = Record::new(claim, offer, sent.wall);
        let cmd = self.set.keys.enter(claim, &record, entry);
        let mut ballot = Ballot::new(self.set.quorum);
        let limit = node_limit(claim.lease);
        self.set
            .ask(Message::Vote(cmd), limit, |place, told| {
                let said = told.ok().and_then(|value| Said::one(&value, offer));
                self.hears(claim, place, said);
                ballot.take_in(place, said)
            })
            .await;
        self.settle(claim, entry, sent, &ballot).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let Some(shortest) = claims.iter().map(|claim| claim.lease).min() else {
            return Ok(Vec::new());
        };
        let sent = self.now();
        let offers: Vec<u64> = claims.iter().map(|claim| self.offer_for(claim)).collect();
        let cmd = self.set.keys.renew(claims, &offers);
        let mut batch = Batch::new(self.set.quorum, claims.len());
        self.set
            .ask(Message::Vote(cmd), node_limit(shortest), |place, told| {
                let said = told.ok().and_then(|value| Said::all(&value));
                let said = said.filter(|said| said.len() == claims.len());
                for (claim, said) in claims.iter().zip(said.iter().flatten()) {
                    self.hears(claim, place, Some(*said));
                }
                batch.take_in(place, said)
            })
            .await;
        if !batch.answered() {
            self.give_back_all(claims, &batch);
            return Err(self.set.trouble("renewing leases"));
        }
        // Side by side and not for long: holders' answers are in this batch too.
        let standings = (claims.iter().zip(batch.ballots()))
            .map(|(claim, ballot)| self.renewed(claim, sent, ballot, node_limit(shortest) / 2));
        let standings = join_all(standings).await;
        if standings.iter().all(Option::is_none) {
            return Err(self.set.trouble("renewing leases"));
        }
        let clear = |standing: Option<Standing>| standing.unwrap_or(Standing::Unknown);
        Ok(standings.into_iter().map(clear).collect())
    }

    async fn downgrade(&self, _: &Claim) -> Result<Standing, Error> {
        only_exclusive(Mode::Shared).map(|()| Standing::Gone)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        // First: from here on nothing puts it back.
        let hold = self.held().remove(&claim.id);
        let message = match hold {
            Some(Hold { order, since, .. }) => {
                let record = Record::new(claim, order, since);
                self.frees_by(claim, self.set.keys.release_held(claim, &record))
            }
            None => self.frees(claim),
        };
        self.take_out(message, node_limit(claim.lease), "releasing")
            .await
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        view::locks(&self.set, query).await
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let Some(id) = view::claim_with(&self.set, name, order).await? else {
            return Ok(Released::Gone);
        };
        let record = format!("{name} order {order}: {why}");
        let free = Free {
            claim: ClaimId::from_bytes(id),
            cmd: self.set.keys.evict(name, &id, &record),
            within: self.guarantees.longest_lease,
        };
        self.take_out(
            Message::Free(free),
            Duration::from_secs(1),
            "breaking a claim",
        )
        .await
    }

    fn wakes(&self) -> Wakes {
        self.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

fn only_exclusive(mode: Mode) -> Result<(), Error> {
    if mode == Mode::Exclusive {
        return Ok(());
    }
    Err(Error::Refused {
        backend: REDLOCK,
        why: format!(
            "mode {mode} needs one list that all nodes agree on, and the nodes of a Redlock agree on one \
             holder only; use redis, etcd or another engine for it"
        ),
    })
}

impl Redlock {
    fn held(&self) -> MutexGuard<'_, HashMap<ClaimId, Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Sent {
        let clock = &self.set.clock;
        Sent {
            at: clock.now(),
            wall: clock.wall(),
        }
    }

    /// A claim that holds needs no number; a claim that waits may come to hold.
    fn offer_for(&self, claim: &Claim) -> u64 {
        if self.held().contains_key(&claim.id) {
            0
        } else {
            self.set.offer(bucket(&claim.name))
        }
    }

    /// Learns from an answer, also from one that no longer matters to the vote.
    fn hears(&self, claim: &Claim, place: usize, said: Option<Said>) {
        let Some(said) = said else { return };
        self.set.learn(bucket(&claim.name), said.seen);
        let member = &self.set.members[place];
        if matches!(said.vote, Vote::Mine { .. }) {
            member.debts.are_paid(&claim.id);
        }
        if member.notice(&said) {
            self.set.nudge();
        }
    }

    /// What a vote means for a claim that asks or waits.
    async fn settle(
        &self,
        claim: &Claim,
        entry: Entry,
        sent: Sent,
        ballot: &Ballot,
    ) -> Result<Standing, Error> {
        let number = match ballot.count() {
            Count::Won(order) => Some(order),
            Count::Unnumbered => Box::pin(self.write_back(claim, sent.at)).await,
            Count::Open | Count::Lost => None,
        };
        let elapsed = self.set.clock.now() - sent.at;
        if let Some(order) = number {
            if let Some(lease_left) = validity(claim.lease, elapsed) {
                let hold = Hold {
                    order,
                    until: self.set.clock.now() + lease_left,
                    since: sent.wall,
                };
                self.held().insert(claim.id, hold);
                return Ok(Standing::Holds { order, lease_left });
            }
            self.give_back(claim, entry, |_| true);
            return Err(Error::Unreachable {
                backend: REDLOCK,
                during: "asking for a lock, which took longer than its lease, so it was given back"
                    .into(),
                source: None,
            });
        }
        self.give_back(claim, entry, |place| !ballot.refused(place));
        if !ballot.usable() {
            return Err(self.set.trouble("asking for a lock"));
        }
        Ok(match entry {
            Entry::Try => Standing::Gone,
            Entry::Queue => ballot.waits(),
        })
    }

    /// Gives back what a failed vote may have won: on every node that did not refuse, also on those that
    /// seemed to fail. It is on its way when this returns, whatever becomes of the caller, and arrives
    /// before whatever is asked next.
    fn give_back(&self, claim: &Claim, entry: Entry, which: impl Fn(usize) -> bool) {
        let message = match entry {
            Entry::Try => self.frees(claim),
            Entry::Queue => self.frees_by(claim, self.set.keys.stand_back(claim)),
        };
        self.set.tell(&message, which);
    }

    /// Takes the claim out, wherever it is.
    fn frees(&self, claim: &Claim) -> Message {
        self.frees_by(claim, self.set.keys.release(claim))
    }

    fn frees_by(&self, claim: &Claim, cmd: Arc<Packed>) -> Message {
        Message::Free(Free {
            claim: claim.id,
            cmd,
            within: claim.lease,
        })
    }

    fn give_back_all(&self, claims: &[Claim], batch: &Batch) {
        let held = self.held().clone();
        for (claim, ballot) in claims.iter().zip(batch.ballots()) {
            if !held.contains_key(&claim.id) && ballot.any_mine() {
                self.give_back(claim, Entry::Queue, |place| ballot.is_mine(place));
            }
        }
    }

    /// A majority is the claim's, but it has not stored one number: offers higher ones until it has.
    async fn write_back(&self, claim: &Claim, sent: Moment) -> Option<u64> {
        for _ in 0..WRITE_BACKS {
            let elapsed = self.set.clock.now() - sent;
            validity(claim.lease, elapsed + node_limit(claim.lease))?;
            let offer = self.set.offer(bucket(&claim.name));
            let cmd = self.set.keys.number(claim, offer);
            let mut ballot = Ballot::new(self.set.quorum);
            self.set
                .ask(
                    Message::Vote(cmd),
                    node_limit(claim.lease),
                    |place, told| {
                        let said = told.ok().and_then(|value| Said::all(&value)?.pop());
                        self.hears(claim, place, said);
                        ballot.take_in_number(place, said, offer)
                    },
                )
                .await;
            match ballot.count() {
                Count::Won(order) => return Some(order),
                _ if !ballot.any_listed() => return None,
                _ => {}
            }
        }
        None
    }

    /// What a renewal's answers mean for one claim; `None` when nobody can tell.
    async fn renewed(
        &self,
        claim: &Claim,
        sent: Sent,
        ballot: &Ballot,
        within: Duration,
    ) -> Option<Standing> {
        let hold = self.held().get(&claim.id).copied();
        if let Some(hold) = hold {
            return Some(self.renewed_hold(claim, hold, sent.at, ballot));
        }
        match ballot.count() {
            Count::Won(_) | Count::Unnumbered => {
                let settled = self.settle(claim, Entry::Queue, sent, ballot);
                match tokio::time::timeout(within, settled).await {
                    Ok(Ok(standing)) => return Some(standing),
                    // It was given back, and may ask again.
                    Ok(Err(_)) => {}
                    Err(_) => self.give_back(claim, Entry::Queue, |_| true),
                }
                Some(ballot.waits())
            }
            Count::Open | Count::Lost => self.still_waits(claim, ballot),
        }
    }

    fn still_waits(&self, claim: &Claim, ballot: &Ballot) -> Option<Standing> {
        if !ballot.any_listed() {
            return ballot.usable().then_some(Standing::Gone);
        }
        if ballot.known() {
            self.give_back(claim, Entry::Queue, |place| {
                ballot.is_mine(place) || ballot.failed(place)
            });
            return Some(ballot.waits());
        }
        self.set.tell(&self.frees(claim), |_| true);
        Some(Standing::Gone)
    }

    fn renewed_hold(&self, claim: &Claim, hold: Hold, sent: Moment, ballot: &Ballot) -> Standing {
        let now = self.set.clock.now();
        let order = hold.order;
        if ballot.holds() {
            let Some(lease_left) = validity(claim.lease, now - sent) else {
                return self.unconfirmed(claim, hold);
            };
            self.restore(claim, order, now + lease_left, ballot);
            return Standing::Holds { order, lease_left };
        }
        if ballot.may_hold() {
            return self.unconfirmed(claim, hold);
        }
        self.held().remove(&claim.id);
        if ballot.any_listed() {
            self.set.tell(&self.frees(claim), |_| true);
        }
        Standing::Gone
    }

    /// Too few answered to tell: it holds for as long as a majority last said, and no longer.
    fn unconfirmed(&self, claim: &Claim, hold: Hold) -> Standing {
        let lease_left = hold.until - self.set.clock.now();
        if lease_left.is_zero() {
            self.held().remove(&claim.id);
            return Standing::Gone;
        }
        Standing::Holds {
            order: hold.order,
            lease_left,
        }
    }

    /// Puts a claim that holds back on nodes that lost it or never had it, so that the loss of one node
    /// after the other does not wear its majority out.
    fn restore(&self, claim: &Claim, order: u64, until: Moment, ballot: &Ballot) {
        let mut held = self.held();
        // Under the lock: once a release has taken it out, nothing may be sent after that release.
        let Some(hold) = held.get_mut(&claim.id) else {
            return;
        };
        hold.until = until;
        if ballot.any_free() {
            let cmd = self.set.keys.restore(claim, order);
            self.set
                .tell(&Message::Vote(cmd), |place| ballot.is_free(place));
        }
    }

    /// Takes a claim out on all nodes; a majority says whether it was there.
    async fn take_out(
        &self,
        message: Message,
        limit: Duration,
        during: &str,
    ) -> Result<Released, Error> {
        let mut ballot = Ballot::new(self.set.quorum);
        self.set
            .ask(message, limit, |place, told| {
                let freed = told.ok().and_then(|value| number(&value));
                ballot.take_in_freed(place, freed.map(|freed| freed == 1))
            })
            .await;
        match ballot.count() {
            Count::Won(_) | Count::Unnumbered => Ok(Released::Freed),
            _ if ballot.may_hold() => Err(self.set.trouble(during)),
            _ => Ok(Released::Gone),
        }
    }
}
