//! Looking at names, and breaking a claim.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::client::{Client, Told};
use super::faults::{Fault, is_unknown, unreachable};
use super::keys::Directory;
use super::leases::{new_id, revoke};
use super::list::{self, List, Listed};
use super::proto::{
    Compare, Delete, Done, Grant, GrantAnswer, KeyValue, LeaseAnswer, LeaseId, Put, Range, Request,
    Txn, TxnAnswer, method,
};
use super::shared::Shared;
use crate::backend::{ClaimView, LockView, Query, Released};
use crate::error::Error;
use crate::{Name, Token, rule};

/// Keys in one answer.
const PAGE: i64 = 2000;
/// Questions under way at once.
const AT_ONCE: usize = 64;
/// Nothing that is looked at has a lease of its own.
const LIMIT: Duration = Duration::from_secs(2);
/// How long it is remembered what an operator broke, in seconds.
const REMEMBERED: i64 = 24 * 3600;
/// How often it is tried to clear up after a question without an answer: for a minute or more.
const CLEAR_UP_TRIES: usize = 30;
/// How often a claim is looked up that could not be broken because one ahead of it left.
const BREAKING_TRIES: usize = 100;

impl Shared {
    pub(super) async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let directory = match query {
            Query::One(name) => self.keys.directory(name),
            Query::All => self.keys.all(),
        };
        let mut names: BTreeMap<Name, Vec<Listed>> = BTreeMap::new();
        for kv in self.read_all(&directory).await? {
            if self.claims().is_doomed(&kv.key) {
                continue;
            }
            if let Some(name) = self.keys.name_of(&kv.key) {
                names.entry(name).or_default().push(kv.into());
            }
        }
        let leases = names.values().flatten().map(|listed| listed.lease);
        let left = self.leases_left(leases.collect()).await;
        names
            .into_iter()
            .map(|(name, listed)| self.view(name, listed, &left))
            .collect()
    }

    /// All keys of a directory, as of one revision.
    async fn read_all(&self, directory: &Directory) -> Result<Vec<KeyValue>, Error> {
        let mut range = Range {
            limit: PAGE,
            ..list::whole(directory)
        };
        let mut all = Vec::new();
        loop {
            let page = self.client.range(&range, LIMIT).await?;
            all.extend(page.kvs);
            let Some(last) = all.last().filter(|_| page.more) else {
                return Ok(all);
            };
            range.key.clone_from(&last.key);
            range.key.push(0);
            if range.revision == 0 {
                range.revision = page.header.map_or(0, |header| header.revision);
            }
        }
    }

    /// How long each lease lives, unless it is kept alive; of those that the server tells about.
    async fn leases_left(&self, mut leases: Vec<i64>) -> HashMap<i64, Duration> {
        leases.sort_unstable();
        leases.dedup();
        let mut left = HashMap::new();
        for some in leases.chunks(AT_ONCE) {
            let ask = some.iter().map(|id| async move {
                let question = LeaseId { id: *id };
                let told =
                    self.client
                        .ask::<_, LeaseAnswer>(method::TIME_TO_LIVE, &question, LIMIT);
                let seconds = u64::try_from(told.await.ok()?.answer.ttl).ok()?;
                Some((*id, Duration::from_secs(seconds)))
            });
            left.extend(join_all(ask).await.into_iter().flatten());
        }
        left
    }

    fn view(
        &self,
        name: Name,
        mut list: Vec<Listed>,
        left: &HashMap<i64, Duration>,
    ) -> Result<LockView, Error> {
        list.sort_by_key(|listed| listed.order);
        let holders = rule::holders(list.iter().map(|listed| listed.note.mode));
        let now = self.clock.wall().as_millis() as u64;
        let view = |listed: Listed| {
            let lease = listed.note.lease.unwrap_or(Duration::MAX);
            let since = match listed.note.since {
                0 => now,
                since => since,
            };
            Ok(ClaimView {
                token: Token::new(listed.order, 0).map_err(Error::invalid)?,
                mode: listed.note.mode,
                since: Duration::from_millis(now.saturating_sub(since)),
                lease_left: left
                    .get(&listed.lease)
                    .copied()
                    .unwrap_or_default()
                    .min(lease),
                party: listed.note.party,
            })
        };
        let mut holds: Vec<ClaimView> = list.into_iter().map(view).collect::<Result<_, Error>>()?;
        let waiters = holds.split_off(holders);
        Ok(LockView {
            name,
            holders: holds,
            waiters,
        })
    }

    pub(super) async fn evict(
        &self,
        name: &Name,
        order: u64,
        why: &str,
    ) -> Result<Released, Error> {
        for _ in 0..BREAKING_TRIES {
            let range = list::up_to(&self.keys.directory(name), order);
            let read = self.client.range(&range, LIMIT).await?;
            let mut claims = List::new(0, read.kvs).claims;
            let holders = rule::holders(claims.iter().map(|listed| listed.note.mode));
            let waits = holders < claims.len();
            let Some(broken) = claims.pop().filter(|last| last.order == order) else {
                return Ok(Released::Gone);
            };
            let ahead = claims.pop().filter(|_| waits);
            let record = format!("{name} order {order}: {why}");
            let told = self.break_one(&broken, ahead.as_ref(), record).await?;
            match (told.answer.succeeded, told.repeated) {
                (true, _) => return Ok(Released::Freed),
                // One of the two has left.
                (false, false) => {}
                (false, true) => {
                    return Err(unreachable("breaking a claim: the first answer was lost"));
                }
            }
        }
        Err(unreachable(
            "breaking a claim: those ahead of it left too fast",
        ))
    }

    /// Deletes a claim, and touches the key `ahead`, which the keeper of a waiting claim watches. One watch tells in
    /// order; of two, the one that began while something was written may tell up to 100 ms later than the other. So
    /// nobody hears of the end of the one ahead before the end of the claim itself, and takes it for a grant.
    async fn break_one(
        &self,
        broken: &Listed,
        ahead: Option<&Listed>,
        record: String,
    ) -> Result<Told<TxnAnswer>, Fault> {
        let there = |listed: &Listed| {
            let order = i64::try_from(listed.order).unwrap_or_default();
            Compare::created_at(&listed.key, order)
        };
        let delete = Delete {
            key: broken.key.clone(),
        };
        let mut txn = Txn {
            compare: vec![there(broken)],
            success: vec![Request::Delete(delete).into()],
            failure: Vec::new(),
        };
        if let Some(ahead) = ahead {
            txn.compare.push(there(ahead));
            let touch = Put::touch(&ahead.key);
            txn.success.push(Request::Put(touch).into());
        }
        match self.delete_and_record(&txn, record).await {
            // A full server deletes, and writes nothing: breaking a holder matters more than the record.
            Err(Fault::Full) if ahead.is_none() => self.client.txn(&txn, LIMIT).await,
            told => told,
        }
    }

    /// Deletes, and writes a record of it in the same step, which lives for a day by a lease of its own.
    async fn delete_and_record(
        &self,
        delete: &Txn,
        record: String,
    ) -> Result<Told<TxnAnswer>, Fault> {
        let id = new_id().map_err(Fault::Told)?;
        let grant = Grant {
            ttl: REMEMBERED,
            id,
        };
        let granted = self
            .client
            .ask::<_, GrantAnswer>(method::GRANT, &grant, LIMIT);
        granted.await?;
        let record = Put {
            key: self.keys.broken(id),
            value: record.into_bytes(),
            lease: id,
            ..Put::default()
        };
        let mut txn = delete.clone();
        txn.success.push(Request::Put(record).into());
        let told = self.client.txn(&txn, LIMIT).await;
        match &told {
            Ok(told) if told.answer.succeeded => {}
            // A record of what was not done goes.
            Ok(told) if !told.repeated => revoke(&self.client, id).await,
            Err(fault) if !is_unknown(fault) => revoke(&self.client, id).await,
            // Nobody knows whether it was done. If it was, the record is there.
            _ => {
                let client = self.client.clone();
                let record = self.keys.broken(id);
                self.runtime.spawn(clear_up(client, record, id));
            }
        }
        told
    }
}

/// Ends the lease of a record that was not written. Without its lease a question that is still under way is refused
/// as a whole: nothing is broken then, and nothing is left behind.
async fn clear_up(client: Arc<Client>, record: Vec<u8>, id: i64) {
    for _ in 0..CLEAR_UP_TRIES {
        let range = Range {
            key: record.clone(),
            ..Range::default()
        };
        match client.range(&range, LIMIT).await {
            Ok(found) if found.kvs.is_empty() => {
                let question = LeaseId { id };
                let told = client.ask::<_, Done>(method::REVOKE, &question, LIMIT);
                if matches!(told.await, Ok(_) | Err(Fault::LeaseGone)) {
                    return;
                }
            }
            Ok(_) => return,
            Err(_) => {}
        }
        tokio::time::sleep(LIMIT).await;
    }
}
