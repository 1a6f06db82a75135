//! Renewing: one keep-alive for all claims of one length, and a reading of where they stand; none where
//! nothing has changed in etcd since that was last read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::claims::{Entry, Judged, Stands};
use super::faults::unreachable;
use super::leases::{Live, a_moment_before};
use super::list::{self, List};
use super::proto::{Compare, Operation, Put, Request, Txn};
use super::shared::Shared;
use crate::Mode;
use crate::backend::Standing;
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;

/// Lists read in one transaction; the server allows 128 operations.
pub(super) const LISTS: usize = 100;
/// How long to trust in a push where nobody knows the lease of whom one waits for.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl Shared {
    pub(super) async fn renew(self: &Arc<Self>, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let called = self.clock.now();
        let alive: Vec<&Claim> = claims.iter().filter(|c| self.alive(c).is_some()).collect();
        let lives = self.keep_all(&alive, called).await?;
        self.look(&alive, &lives, called).await?;
        // Read after the keep-alives: only what was kept alive in the same term surely lives on.
        let term = self.client.term();
        if lives.values().any(|live| live.term < term) {
            return Err(unreachable("renewing: the leader has changed"));
        }
        for claim in &alive {
            match self.bound(claim, &lives).await {
                Ok(Some(live)) => self.lives_until(claim, (called + claim.lease).min(live.ends())),
                Ok(None) => self.doom(claim.id),
                // It lives for as long as it did; those renewed with it do not suffer.
                Err(_) => {}
            }
        }
        Ok(claims
            .iter()
            .map(|claim| self.standing(claim, called))
            .collect())
    }

    /// The lease that the claim lives by. Where another keeper, who knows its id too, has bound it to one of
    /// its own, it is bound to ours again.
    async fn bound(
        &self,
        claim: &Claim,
        lives: &HashMap<i64, Live>,
    ) -> Result<Option<Live>, Error> {
        let Some(entry) = self.alive(claim) else {
            return Ok(None);
        };
        if let Some(live) = lives.get(&entry.lease_id) {
            return Ok(Some(*live));
        }
        let ours = self.leases.known(claim.lease);
        let ours = ours.and_then(|live| lives.get(&live.id).copied());
        match (ours, entry.order) {
            (Some(live), Some(order)) if self.bind(claim, order, &live).await? => Ok(Some(live)),
            _ => Ok(None),
        }
    }

    /// Where the claim stands, as far as is known: `called` is when that was asked.
    pub(super) fn standing(&self, claim: &Claim, called: Moment) -> Standing {
        let claims = self.claims();
        let Some(entry) = claims
            .get(claim.id)
            .filter(|entry| entry.name == claim.name && called < entry.ends())
        else {
            return Standing::Gone;
        };
        match (entry.stands, entry.order) {
            (Stands::Holds, Some(order)) => Standing::Holds {
                order,
                lease_left: entry.ends() - called,
            },
            (Stands::Waits { ahead, lease }, _) => Standing::Waits {
                ahead,
                look_again_in: lease.unwrap_or(LOOK_AGAIN),
            },
            _ => Standing::Gone,
        }
    }

    /// Keeps the leases of these claims alive, each once; those that live on, by their id. Claims whose
    /// lease has another length now are bound to that one.
    async fn keep_all(
        self: &Arc<Self>,
        claims: &[&Claim],
        called: Moment,
    ) -> Result<HashMap<i64, Live>, Error> {
        let mut wanted: HashMap<i64, Duration> = HashMap::new();
        for claim in claims {
            let Some(entry) = self.alive(claim) else {
                continue;
            };
            match self.leases.known(claim.lease) {
                Some(live) if live.id == entry.own_lease => {
                    wanted.insert(live.id, claim.lease);
                }
                // Its lease is gone, and another one has taken its place.
                _ if same_length(entry.lease, claim.lease) => {}
                _ => self.move_over(claim, &entry, &mut wanted).await,
            }
        }
        let keep = wanted.into_iter().map(|(id, lease)| {
            let since = since(claims.len(), called, lease);
            self.leases.kept(lease, id, since)
        });
        let lives = try_join_all(keep).await?.into_iter().flatten();
        Ok(lives.map(|live| (live.id, live)).collect())
    }

    /// Binds a claim to the lease of its new length. Where that fails, it stays on the present one until the
    /// next renewal: those renewed with it do not suffer. What it lives by is wanted; that is both, if nobody
    /// knows whether it was bound.
    async fn move_over(&self, claim: &Claim, entry: &Entry, wanted: &mut HashMap<i64, Duration>) {
        if let Ok(live) = self.leases.ready(claim.lease).await {
            wanted.insert(live.id, claim.lease);
            let bound = match entry.order {
                Some(order) => self.bind(claim, order, &live).await,
                None => Ok(true),
            };
            if bound.is_ok() {
                return;
            }
        }
        wanted.insert(entry.own_lease, entry.lease);
    }

    /// Binds the claim's key to this lease; false if the key is gone.
    pub(super) async fn bind(&self, claim: &Claim, order: u64, live: &Live) -> Result<bool, Error> {
        let Some(entry) = self.alive(claim) else {
            return Ok(false);
        };
        let mut note = entry.note.clone();
        note.lease = Some(claim.lease);
        let bound = self
            .rewrite(&entry, order, (note.written(), live.id))
            .await?;
        if bound {
            let bind = |entry: &mut Entry| {
                entry.bind_to(live.id, claim.lease);
                entry.note.lease = note.lease;
                // What is known of it is older than this change.
                entry.seen = 0;
            };
            self.claims().change(claim.id, bind);
        }
        Ok(bound)
    }

    /// Writes the claim's key anew, in its place; false if it is gone.
    async fn rewrite(
        &self,
        entry: &Entry,
        order: u64,
        written: (Vec<u8>, i64),
    ) -> Result<bool, Error> {
        let order = i64::try_from(order).unwrap_or_default();
        let there = Compare::created_at(&entry.key, order);
        self.rewrite_if(entry, there, written).await
    }

    /// A claim that holds alone says so, unless its key was written since it was made: then it might say less than
    /// there is to know.
    pub(super) async fn say_held(&self, id: ClaimId) {
        let entry = self.claims().get(id).cloned();
        let Some(mut entry) = entry else { return };
        let (Stands::Holds, Mode::Exclusive, Some(order)) =
            (entry.stands, entry.mode(), entry.order)
        else {
            return;
        };
        if entry.leaving > 0 {
            return;
        }
        entry.note.held = true;
        let untouched = Compare::changed_at(&entry.key, i64::try_from(order).unwrap_or_default());
        let written = (entry.note.written(), entry.lease_id);
        let _the_next_one_reads = self.rewrite_if(&entry, untouched, written).await;
    }

    async fn rewrite_if(
        &self,
        entry: &Entry,
        compare: Compare,
        (value, lease): (Vec<u8>, i64),
    ) -> Result<bool, Error> {
        let put = Put {
            key: entry.key.clone(),
            value,
            lease,
            ..Put::default()
        };
        let txn = Txn {
            compare: vec![compare],
            success: vec![Request::Put(put).into()],
            failure: Vec::new(),
        };
        let told = self.client.txn(&txn, self.patience(entry.lease)).await?;
        Ok(told.answer.succeeded)
    }

    /// Reads where the claims stand, where that may have changed. What is gone is taken out of the table.
    async fn look(
        self: &Arc<Self>,
        claims: &[&Claim],
        lives: &HashMap<i64, Live>,
        called: Moment,
    ) -> Result<(), Error> {
        // In a cluster of one, the member that answered a keep-alive knows everything that has happened.
        let is_news = |live: &&Live| live.kept >= since(claims.len(), called, live.ttl);
        let news = lives.values().filter(is_news);
        let mut revision = match self.voters {
            1 => news.map(|live| live.revision).max(),
            _ => None,
        };
        let (mut due, limit) = self.by_name(claims);
        let stale = |group: &ByName| revision.is_none_or(|revision| group.seen < revision);
        due.retain(stale);
        if due.len() > LISTS {
            due = self.not_on_the_roll(due, lives, called).await?;
        }
        for some in due.chunks(LISTS) {
            let stale: Vec<&ByName> = some
                .iter()
                .filter(|group| revision.is_none_or(|revision| group.seen < revision))
                .collect();
            if stale.is_empty() {
                continue;
            }
            let ranges = stale.iter().map(|group| {
                let range = list::up_to(&group.entry.directory, group.up_to);
                Operation::from(Request::Range(range))
            });
            let txn = Txn {
                success: ranges.collect(),
                ..Txn::default()
            };
            let told = self.client.txn(&txn, limit).await?.answer;
            let now = told.header.as_ref().map_or(0, |header| header.revision);
            revision = Some(now);
            for (group, range) in stale.iter().zip(told.ranges()) {
                self.judge_all(&group.claims, &List::new(now, range.kvs));
            }
        }
        Ok(())
    }

    fn judge_all(self: &Arc<Self>, claims: &[&Claim], list: &List) {
        for claim in claims {
            if self.judge(claim.id, list) == Judged::Gone {
                self.doom(claim.id);
            }
        }
    }

    /// The claims by name, since one list tells about all that wait for it; and how long to wait for it.
    fn by_name<'a>(&self, claims: &[&'a Claim]) -> (Vec<ByName<'a>>, Duration) {
        let mut groups: HashMap<&str, ByName<'a>> = HashMap::new();
        let mut shortest = Duration::MAX;
        for claim in claims {
            let Some(entry) = self.alive(claim) else {
                continue;
            };
            shortest = shortest.min(claim.lease);
            // Of one whose order number is not known the whole list is read.
            let up_to = entry.order.unwrap_or(u64::MAX);
            let seen = entry.seen;
            let group = groups.entry(claim.name.as_str()).or_insert_with(|| ByName {
                entry,
                claims: Vec::new(),
                up_to,
                seen,
            });
            group.claims.push(claim);
            group.up_to = group.up_to.max(up_to);
            group.seen = group.seen.min(seen);
        }
        (groups.into_values().collect(), self.patience(shortest))
    }

    /// Turns an exclusive claim into a shared one.
    pub(super) async fn downgrade(self: &Arc<Self>, claim: &Claim) -> Result<Standing, Error> {
        // Where it stands, and under which number.
        let standing = self.renew(std::slice::from_ref(claim)).await?[0];
        let Some(entry) = self.alive(claim).filter(|_| standing != Standing::Gone) else {
            return Ok(Standing::Gone);
        };
        if let mode @ Mode::Permits { .. } = entry.mode() {
            // It would stand in the way of the permits beside it.
            return Err(Error::invalid(format!(
                "a claim of mode {mode} cannot be downgraded"
            )));
        }
        let Some(order) = entry.order else {
            return Ok(Standing::Gone);
        };
        let mut note = entry.note.clone();
        note.mode = Mode::Shared;
        // Before it is asked for: whatever is written from now on must not take it back.
        let shared = |entry: &mut Entry| entry.note.mode = Mode::Shared;
        self.claims().change(claim.id, shared);
        let value = (note.written(), entry.lease_id);
        if self.rewrite(&entry, order, value).await? {
            Ok(self.renew(std::slice::from_ref(claim)).await?[0])
        } else {
            self.doom(claim.id);
            Ok(Standing::Gone)
        }
    }
}

/// Claims on one name.
pub(super) struct ByName<'a> {
    /// Of one of them.
    pub(super) entry: Entry,
    pub(super) claims: Vec<&'a Claim>,
    up_to: u64,
    /// The oldest of what is known about them.
    seen: i64,
}

/// Since when a keep-alive is good enough for so many claims. The watchdog sends many in batches at about the same
/// time: these share one.
pub(super) fn since(claims: usize, called: Moment, lease: Duration) -> Moment {
    match claims > LISTS {
        true => a_moment_before(called, lease),
        false => called,
    }
}

fn same_length(a: Duration, b: Duration) -> bool {
    super::leases::seconds(a) == super::leases::seconds(b)
}
