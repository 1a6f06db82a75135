//! The leases of one keeper: one for each length in whole seconds, shared by all claims of that length.
//!
//! Each has a *session key* in etcd, bound to it. Every entry compares that key's revision, and whoever takes a
//! claim out whose entry may still be under way changes the key in the same step: then the late entry is
//! refused, and can leave nothing behind that this keeper would keep alive for ever. The key also tells, by a
//! watch, that the lease is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use super::client::Client;
use super::faults::{Fault, unreachable};
use super::keep_alive::{KeepAlive, Kept};
use super::keys::Keys;
use super::patience;
use super::proto::{Compare, Done, Grant, GrantAnswer, LeaseId, Put, Request, Txn, method};
use super::watch::{Heed, Target, Watcher};
use crate::error::Error;
use crate::lifecycle::deadline::{Clock, Moment};

/// A lease as it is now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Live {
    pub(super) id: i64,
    /// The revision of its session key.
    pub(super) epoch: i64,
    /// When the last grant or keep-alive that was answered was sent.
    pub(super) kept: Moment,
    /// How long etcd keeps it from then on, at least.
    pub(super) ttl: Duration,
    /// The revision that the last keep-alive was answered at.
    pub(super) revision: i64,
    /// The term that it was answered in.
    pub(super) term: u64,
}

impl Live {
    /// Until when etcd surely keeps it.
    pub(super) fn ends(&self) -> Moment {
        self.kept + self.ttl
    }
}

/// One length.
#[derive(Debug, Default)]
struct Slot {
    live: Mutex<Option<Live>>,
    granting: tokio::sync::Mutex<()>,
    keeping: tokio::sync::Mutex<()>,
}

/// All leases of one keeper.
#[derive(Debug)]
pub(super) struct Leases {
    client: Arc<Client>,
    keys: Keys,
    clock: Clock,
    keep_alive: KeepAlive,
    watcher: Watcher,
    slots: Mutex<HashMap<u64, Arc<Slot>>>,
}

impl Leases {
    pub(super) fn new(client: &Arc<Client>, keys: &Keys, clock: &Clock, watcher: &Watcher) -> Self {
        Self {
            watcher: watcher.clone(),
            client: client.clone(),
            keys: keys.clone(),
            clock: clock.clone(),
            keep_alive: KeepAlive::start(client),
            slots: Mutex::default(),
        }
    }

    /// The lease for claims of this length; granted, if there is none.
    pub(super) async fn ready(&self, lease: Duration) -> Result<Live, Error> {
        let slot = self.slot(lease);
        if let Some(live) = self.alive(&slot) {
            return Ok(live);
        }
        let _one_grants = slot.granting.lock().await;
        if let Some(live) = self.alive(&slot) {
            return Ok(live);
        }
        let live = self.grant(lease).await?;
        let ended = locked(&slot.live).replace(live);
        if let Some(ended) = ended {
            self.watcher.forget(Target::Lease(ended.id));
        }
        Ok(live)
    }

    /// The lease as it is known to be, if it may still be used.
    fn alive(&self, slot: &Slot) -> Option<Live> {
        let now = self.clock.now();
        locked(&slot.live).filter(|live| now < live.ends())
    }

    async fn grant(&self, lease: Duration) -> Result<Live, Error> {
        let limit = patience(lease, self.client.members());
        let id = new_id()?;
        let mut unfinished = Unfinished(Some((self.client.clone(), id)));
        let kept = self.clock.now();
        let grant = Grant {
            ttl: i64::try_from(seconds(lease)).unwrap_or(i64::MAX),
            id,
        };
        let granted = self
            .client
            .ask::<_, GrantAnswer>(method::GRANT, &grant, limit);
        let ttl = match granted.await {
            Ok(told) => told.answer.ttl,
            // Our own, whose answer was lost.
            Err(Fault::LeaseExists) => grant.ttl,
            Err(fault) => return Err(fault.into()),
        };
        let begin = Txn {
            compare: vec![Compare::created_at(&self.keys.session(id), 0)],
            success: vec![self.session_put(id)],
            failure: vec![self.session_put(id)],
        };
        let told = self.client.txn(&begin, limit).await?;
        let header = told.answer.header.unwrap_or_default();
        let session = self.keys.session(id);
        self.watcher
            .watch(Target::Lease(id), vec![session], Heed::End);
        unfinished.0 = None;
        Ok(Live {
            id,
            epoch: header.revision,
            kept,
            ttl: Duration::from_secs(u64::try_from(ttl).unwrap_or_default()),
            revision: header.revision,
            term: header.raft_term,
        })
    }

    /// Writes the session key anew: entries that compared its revision before are refused from now on.
    pub(super) fn session_put(&self, lease: i64) -> super::proto::Operation {
        let put = Put {
            key: self.keys.session(lease),
            lease,
            ..Put::default()
        };
        Request::Put(put).into()
    }

    /// The session key has this revision now, or a later one.
    pub(super) fn moved(&self, lease: i64, epoch: i64) {
        for slot in locked(&self.slots).values() {
            if let Some(live) = locked(&slot.live).as_mut().filter(|live| live.id == lease) {
                live.epoch = live.epoch.max(epoch);
            }
        }
    }

    /// The lease as it is known to be, whether or not it can still be used.
    pub(super) fn known(&self, lease: Duration) -> Option<Live> {
        *locked(&self.slot(lease).live)
    }

    /// The lease lives for its whole length from `since` on: it is kept alive, unless that was asked for
    /// since then. `None` if it is gone.
    pub(super) async fn kept(
        &self,
        lease: Duration,
        id: i64,
        since: Moment,
    ) -> Result<Option<Live>, Error> {
        let slot = self.slot(lease);
        let current = |live: &Live| live.kept >= since && live.term >= self.client.term();
        let fresh = || locked(&slot.live).filter(|live| live.id == id && current(live));
        if let Some(live) = fresh() {
            return Ok(Some(live));
        }
        let _one_asks = slot.keeping.lock().await;
        if let Some(live) = fresh() {
            return Ok(Some(live));
        }
        if locked(&slot.live).is_none_or(|live| live.id != id) {
            return Ok(None);
        }
        let sent = self.clock.now();
        let kept = self
            .keep_alive
            .keep(id, patience(lease, self.client.members()));
        match kept.await? {
            Kept::Gone => {
                self.forget(id);
                Ok(None)
            }
            // A leader that has been replaced may not know it, and what it keeps alive ends all the same.
            Kept::Alive { term, .. } if term < self.client.term() => {
                Err(unreachable("keeping a lease alive: the leader has changed"))
            }
            Kept::Alive { revision, term } => {
                let mut live = locked(&slot.live);
                let live = live.as_mut().filter(|live| live.id == id);
                Ok(live.map(|live| {
                    live.kept = live.kept.max(sent);
                    live.revision = live.revision.max(revision);
                    live.term = live.term.max(term);
                    *live
                }))
            }
        }
    }

    /// Whether the lease is in use, and something has happened between its session key's last writing and this
    /// revision.
    pub(super) fn may_have_ended(&self, id: i64, revision: i64) -> bool {
        let slots = locked(&self.slots);
        let lives = slots.values().filter_map(|slot| *locked(&slot.live));
        { lives }.any(|live| live.id == id && live.epoch < revision)
    }

    /// The lease is gone: the next claim gets another one.
    pub(super) fn forget(&self, id: i64) {
        self.watcher.forget(Target::Lease(id));
        for slot in locked(&self.slots).values() {
            let mut live = locked(&slot.live);
            if live.is_some_and(|live| live.id == id) {
                *live = None;
            }
        }
    }

    /// Ends all leases, and with them whatever is still bound to them.
    pub(super) async fn revoke_all(&self) {
        let ids: Vec<i64> = {
            let slots = locked(&self.slots);
            let lives = slots.values().filter_map(|slot| locked(&slot.live).take());
            lives.map(|live| live.id).collect()
        };
        for id in ids {
            revoke(&self.client, id).await;
        }
    }

    fn slot(&self, lease: Duration) -> Arc<Slot> {
        locked(&self.slots)
            .entry(seconds(lease))
            .or_default()
            .clone()
    }
}

/// A grant under way. Where it fails or nobody waits for it any more, the lease is of no use.
struct Unfinished(Option<(Arc<Client>, i64)>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let (Some((client, id)), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        runtime.spawn(async move { revoke(&client, id).await });
    }
}

/// Ends a lease; if that fails, it ends by itself.
pub(super) async fn revoke(client: &Client, id: i64) {
    let limit = Duration::from_secs(2);
    let question = LeaseId { id };
    let told = client.ask::<_, Done>(method::REVOKE, &question, limit);
    let _it_ends_by_itself = told.await;
}

/// An id that nobody else has: it exists before the first byte leaves, so that a lost answer does no harm.
pub(super) fn new_id() -> Result<i64, Error> {
    let id = getrandom::u64().map_err(|_| unreachable("making the id of a lease"))?;
    Ok((id >> 1).max(1) as i64)
}

/// Who asks for a keep-alive within so short a time after another one shares it.
pub(super) fn a_moment_before(called: Moment, lease: Duration) -> Moment {
    let moment = u64::try_from((lease / 200).as_nanos()).unwrap_or(u64::MAX);
    Moment::from_nanos(called.nanos().saturating_sub(moment))
}

/// Whole seconds, no fewer than asked for.
pub(super) fn seconds(lease: Duration) -> u64 {
    lease.as_secs() + u64::from(lease.subsec_nanos() > 0)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change above is made of steps that cannot panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
