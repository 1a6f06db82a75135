//! What the verbs and the background work of one keeper share, and the steps that both are made of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use super::background::{delete_surely, listen, reap, tell_the_next};
use super::claims::{Claims, Entry, Judged, Known};
use super::client::{Client, Told};
use super::faults::Fault;
use super::keys::Keys;
use super::leases::Leases;
use super::list::{self, List};
use super::patience;
use super::proto::{Compare, Delete, DeleteAnswer, KeyValue, Request, Txn, TxnAnswer, method};
use super::roll::Roll;
use super::watch::{Target, Watcher};
use crate::backend::{Bell, Wake};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::{Clock, Moment};

/// How long the background work waits for one answer.
pub(super) const IN_BACKGROUND: Duration = Duration::from_secs(2);

/// One keeper's part of etcd.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    pub(super) clock: Clock,
    pub(super) leases: Leases,
    pub(super) watcher: Watcher,
    pub(super) bell: Bell,
    pub(super) guarantees: Guarantees,
    pub(super) place: String,
    /// Members that vote; 0 if the server does not say.
    pub(super) voters: usize,
    pub(super) runtime: Handle,
    claims: Mutex<Claims>,
    /// The latest roll; see [`super::roll`].
    pub(super) roll: tokio::sync::Mutex<Option<Roll>>,
    /// Something ends earlier than what the reaper waits for.
    sooner: Arc<Notify>,
}

/// What a [`Shared`] is made of.
pub(super) struct Parts {
    pub(super) client: Arc<Client>,
    pub(super) keys: Keys,
    pub(super) clock: Clock,
    pub(super) guarantees: Guarantees,
    pub(super) place: String,
    pub(super) voters: usize,
}

impl Shared {
    pub(super) fn start(parts: Parts) -> Arc<Self> {
        let (notices, told) = mpsc::unbounded_channel();
        let watcher = Watcher::start(&parts.client, notices);
        let shared = Arc::new(Self {
            leases: Leases::new(&parts.client, &parts.keys, &parts.clock, &watcher),
            watcher,
            client: parts.client,
            keys: parts.keys,
            clock: parts.clock,
            bell: Bell::default(),
            guarantees: parts.guarantees,
            place: parts.place,
            voters: parts.voters,
            runtime: Handle::current(),
            claims: Mutex::default(),
            roll: tokio::sync::Mutex::default(),
            sooner: Arc::default(),
        });
        tokio::spawn(listen(Arc::downgrade(&shared), told));
        let reaper = reap(
            Arc::downgrade(&shared),
            shared.sooner.clone(),
            shared.clock.clone(),
        );
        tokio::spawn(reaper);
        shared
    }

    pub(super) fn claims(&self) -> MutexGuard<'_, Claims> {
        // Every change is made of steps that cannot panic half-way.
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn patience(&self, lease: Duration) -> Duration {
        patience(lease, self.client.members())
    }

    /// The claim lives until then; the reaper is told if that is sooner than it looks.
    pub(super) fn lives_until(&self, claim: &Claim, ends: Moment) {
        let mut claims = self.claims();
        claims.prolong(claim.id, ends);
        if claims.is_next_end(ends) {
            self.sooner.notify_one();
        }
    }

    /// An entry was made that ends then; perhaps sooner than what the reaper waits for.
    pub(super) fn look_sooner_than(&self, ends: Moment) {
        if self.claims().is_next_end(ends) {
            self.sooner.notify_one();
        }
    }

    /// The claim as it is known, if it is not over.
    pub(super) fn alive(&self, claim: &Claim) -> Option<Entry> {
        self.claims().alive(claim, self.clock.now())
    }

    pub(super) fn known(&self, claim: &Claim) -> Known {
        self.claims().known(claim, self.clock.now())
    }

    /// Takes in a list that was read, and watches whom the claim waits for.
    pub(super) fn judge(&self, id: ClaimId, list: &List) -> Judged {
        // Under the lock, so that the watches are those of the latest verdict, and none of a claim that is gone.
        let mut claims = self.claims();
        let judged = claims.judge(id, list);
        match &judged {
            Judged::Waits { blockers, heed } => {
                let blockers = blockers.clone();
                self.watcher.watch(Target::Claim(id), blockers, *heed);
            }
            Judged::Promoted { .. } | Judged::Gone => self.watcher.forget(Target::Claim(id)),
            Judged::Holds | Judged::Old => {}
        }
        drop(claims);
        judged
    }

    /// Takes the claim out of this keeper's table, and out of etcd in the background.
    pub(super) fn doom(self: &Arc<Self>, id: ClaimId) {
        let entry = self.claims().remove(id);
        self.watcher.forget(Target::Claim(id));
        if let Some(entry) = entry {
            self.delete_in_background(vec![entry]);
        }
    }

    pub(super) fn delete_in_background(self: &Arc<Self>, entries: Vec<Entry>) {
        if entries.is_empty() {
            return;
        }
        let mut claims = self.claims();
        for entry in &entries {
            claims.doom(&entry.key);
        }
        drop(claims);
        self.runtime
            .spawn(delete_surely(Arc::downgrade(self), entries));
    }

    /// Deletes a claim's key, whatever lease it is bound to; how many there were. Entries that may still be under
    /// way are called off in the same step.
    pub(super) async fn strike_out(&self, entry: &Entry, limit: Duration) -> Result<Struck, Error> {
        let mut struck = Struck::default();
        for lease in entry.own_leases() {
            struck.add(self.strike_out_on(entry, lease, (&[], limit)).await?);
        }
        Ok(struck)
    }

    /// Deletes the key of a claim that is over here, unless somebody else who knows its id has bound it to a
    /// lease of their own.
    pub(super) async fn strike_out_own(&self, entry: &Entry) -> Result<Struck, Error> {
        let mut struck = Struck::default();
        for lease in entry.own_leases() {
            let own = [Compare::bound_to(&entry.key, lease)];
            let how = (&own[..], IN_BACKGROUND);
            struck.add(self.strike_out_on(entry, lease, how).await?);
        }
        Ok(struck)
    }

    /// Deletes the key, if the comparison holds, and calls off an entry on this lease.
    async fn strike_out_on(
        &self,
        entry: &Entry,
        lease: i64,
        (compare, limit): (&[Compare], Duration),
    ) -> Result<Struck, Error> {
        let delete = Delete {
            key: entry.key.clone(),
        };
        let only_delete = Txn {
            compare: compare.to_vec(),
            success: vec![Request::Delete(delete).into()],
            failure: Vec::new(),
        };
        if !entry.under_way.contains(&lease) && compare.is_empty() {
            return self.delete(&entry.key, limit).await;
        }
        if !entry.under_way.contains(&lease) {
            return Ok(Struck::by(self.client.txn(&only_delete, limit).await?));
        }
        let mut both = only_delete.clone();
        both.success.push(self.leases.session_put(lease));
        both.failure.push(self.leases.session_put(lease));
        match self.client.txn(&both, limit).await {
            Ok(told) => {
                let revision = told.answer.header.as_ref().map_or(0, |h| h.revision);
                self.leases.moved(lease, revision);
                Ok(Struck::by(told))
            }
            // Nothing can be bound to it any more, but the key may be bound to another one.
            Err(Fault::LeaseGone) => {
                self.leases.forget(lease);
                Ok(Struck::by(self.client.txn(&only_delete, limit).await?))
            }
            // A full server deletes, and writes nothing.
            Err(Fault::Full) => {
                let mut struck = Struck::by(self.client.txn(&only_delete, limit).await?);
                struck.not_called_off = true;
                Ok(struck)
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Deletes the key of a claim that this keeper has not entered, if another one may have done so.
    pub(super) async fn strike_out_unknown(
        &self,
        claim: &Claim,
        limit: Duration,
    ) -> Result<Struck, Error> {
        if !claim.id.is_common() {
            return Ok(Struck::default());
        }
        let key = self.keys.common(&claim.name, &claim.id);
        if self.claims().is_doomed(&key) {
            return Ok(Struck::default());
        }
        self.delete(&key, limit).await
    }

    /// Deletes a key, whatever else is true: less work for the servers than a transaction.
    async fn delete(&self, key: &[u8], limit: Duration) -> Result<Struck, Error> {
        let key = key.to_vec();
        let told = self
            .client
            .ask::<_, DeleteAnswer>(method::DELETE, &Delete { key }, limit)
            .await?;
        Ok(Struck {
            deleted: told.answer.deleted,
            repeated: told.repeated,
            not_called_off: false,
        })
    }

    /// Reads the list again on behalf of a claim, and tells the lifecycle if it holds now, or is gone.
    pub(super) async fn review(
        self: &Arc<Self>,
        id: ClaimId,
        changed_at: i64,
    ) -> Result<(), Error> {
        let Some((directory, order)) = self.listed(id) else {
            return Ok(());
        };
        let mut range = list::up_to(&directory, order);
        // The member that told of the change knows of it: what it has is new enough, and was true at some
        // moment after the change. Another member might lag.
        range.serializable = true;
        let mut answer = self.client.range(&range, IN_BACKGROUND).await?;
        let revision = |answer: &super::proto::RangeAnswer| {
            answer.header.as_ref().map_or(0, |header| header.revision)
        };
        if revision(&answer) < changed_at {
            range.serializable = false;
            answer = self.client.range(&range, IN_BACKGROUND).await?;
        }
        let list = List::new(revision(&answer), answer.kvs);
        match self.judge(id, &list) {
            Judged::Promoted { order } => {
                self.bell.ring(Wake::Holds { claim: id, order });
                tell_the_next(self, id);
            }
            Judged::Gone => {
                self.doom(id);
                self.bell.ring(Wake::Look(id));
            }
            Judged::Holds | Judged::Waits { .. } | Judged::Old => {}
        }
        Ok(())
    }

    /// A key that the claim watches is gone. Where nobody else was ahead nothing has to be read: the claim
    /// holds. Otherwise the list is to be read.
    pub(super) fn one_left(
        self: &Arc<Self>,
        id: ClaimId,
        left: (&[u8], Option<&KeyValue>),
        revision: i64,
    ) -> bool {
        let Some(order) = self.claims().left_alone(id, left, revision) else {
            return false;
        };
        self.bell.ring(Wake::Holds { claim: id, order });
        self.watcher.forget(Target::Claim(id));
        tell_the_next(self, id);
        true
    }

    /// Directory and order number of a claim.
    fn listed(&self, id: ClaimId) -> Option<(super::keys::Directory, u64)> {
        let claims = self.claims();
        let entry = claims.get(id)?;
        Some((entry.directory.clone(), entry.order?))
    }

    /// A lease is gone, and with it all claims that were bound to it: the lifecycle asks, and is told without a question to
    /// the server, for the next one may hold already.
    pub(super) fn lease_gone(self: &Arc<Self>, lease_id: i64) {
        self.leases.forget(lease_id);
        let over = self.claims().on_lease(lease_id);
        for id in over {
            self.doom(id);
            self.bell.ring(Wake::Look(id));
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The reaper waits for the next end, which may be never: it looks, and goes too.
        self.sooner.notify_one();
    }
}

/// What a deletion did.
#[derive(Default)]
pub(super) struct Struck {
    pub(super) deleted: i64,
    /// Asked more than once: an earlier question may have deleted what this one did not find.
    pub(super) repeated: bool,
    /// An entry that is still under way would be carried out.
    pub(super) not_called_off: bool,
}

impl Struck {
    /// One question, one answer, one key: nothing more happens to it.
    pub(super) fn is_final(&self) -> bool {
        self.deleted == 1 && !self.repeated && !self.not_called_off
    }

    fn by(told: Told<TxnAnswer>) -> Self {
        Self {
            deleted: told.answer.deleted(),
            repeated: told.repeated,
            not_called_off: false,
        }
    }

    fn add(&mut self, other: Self) {
        self.deleted += other.deleted;
        self.repeated |= other.repeated;
        self.not_called_off |= other.not_called_off;
    }
}
