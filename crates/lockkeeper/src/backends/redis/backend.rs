//! The verbs: each is one call of its script.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use foldhash::fast::RandomState;
use futures_util::future::{join_all, try_join_all};
use redis::{RedisError, Value};

use super::answer::{REDIS, meaning};
use super::keys::Keys;
use super::link::{Link, Script, Told};
use super::route::Route;
use super::wire::Asking;
use super::{scripts, wire};
use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wakes};
use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::{Mode, Name};

/// The most claims in one call, so that no call holds the server up for as long as a millisecond. A full batch of the
/// lifecycle is three calls.
const BATCH: usize = 170;
/// The most names looked at in one call.
const LOOK: usize = 64;
/// About how many keys one step of a scan looks at.
const SCAN: usize = 512;
/// Of so many claims at most it is known that they had to wait.
const MOST_WAITED: usize = 4096;
/// The longest reason that is noted.
const LONGEST_REASON: usize = 1024;

/// One keeper's way to its lists.
#[derive(Debug)]
pub(super) struct RedisBackend {
    pub(super) route: Route,
    pub(super) keys: Keys,
    pub(super) bell: Bell,
    pub(super) channel: String,
    pub(super) guarantees: Guarantees,
    pub(super) place: String,
    pub(super) waited: Waited,
    pub(super) record: Record,
}

/// What was asked for the last claim, which is what is asked for the next one if the same party wants the same.
#[derive(Debug, Default)]
pub(super) struct Record(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    mode: Mode,
    lease: Duration,
    party: Arc<Party>,
    wanted: Arc<Wanted>,
}

#[derive(Debug)]
struct Wanted {
    /// The record but for its order.
    rest: String,
    lease_ms: String,
}

impl Record {
    fn of(&self, claim: &Claim, channel: &str) -> Arc<Wanted> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |last: &&Last| {
            let alike = last.mode == claim.mode && last.lease == claim.lease;
            alike && Arc::ptr_eq(&last.party, &claim.party)
        };
        if let Some(last) = last.as_ref().filter(same) {
            return last.wanted.clone();
        }
        let wanted = Arc::new(Wanted {
            rest: wire::rest(claim, channel),
            lease_ms: wire::lease_ms(claim.lease),
        });
        *last = Some(Last {
            mode: claim.mode,
            lease: claim.lease,
            party: claim.party.clone(),
            wanted: wanted.clone(),
        });
        wanted
    }
}

/// Claims that had to wait, for as long as they are there. Only how quickly others are told depends on it: what is
/// forgotten is no harm.
#[derive(Debug, Default)]
pub(super) struct Waited(Mutex<HashSet<ClaimId, RandomState>>);

impl Waited {
    fn note(&self, claim: ClaimId) {
        let mut claims = self.claims();
        if claims.len() >= MOST_WAITED {
            claims.clear();
        }
        claims.insert(claim);
    }

    /// Whether it was there.
    fn forget(&self, claim: ClaimId) -> bool {
        let mut claims = self.claims();
        !claims.is_empty() && claims.remove(&claim)
    }

    fn claims(&self) -> MutexGuard<'_, HashSet<ClaimId, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RedisBackend {
    async fn call<T>(
        &self,
        script: (&Script, &str),
        keys: &[Vec<u8>],
        args: &[&[u8]],
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Error> {
        let answer = self.route.call(script.0, keys, args, Told::InTurn).await;
        Self::read(answer, script.1, read)
    }

    fn read<T>(
        answer: Result<Value, RedisError>,
        during: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, Error> {
        let answer = answer.map_err(|error| meaning(error, during))?;
        read(&answer).ok_or_else(|| nonsense(during))
    }

    async fn renew_some(&self, claims: &[&Claim]) -> Result<Vec<Standing>, Error> {
        let keys: Vec<_> = claims.iter().map(|c| self.keys.claims(&c.name)).collect();
        let args: Vec<_> = claims.iter().flat_map(|c| wire::renewal(c)).collect();
        let mut args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        if !self.route.mixes_buckets() {
            args.push(b"slots");
        }
        let script = (&*scripts::RENEW, "renewing leases");
        let all = self.call(script, &keys, &args, wire::standings).await?;
        if all.len() == claims.len() {
            Ok(all)
        } else {
            Err(nonsense("renewing leases"))
        }
    }

    /// How long one master may keep the answers of the others waiting. A lone server is waited for as
    /// long as the caller likes.
    fn part_limit(&self, claims: &[Claim]) -> Duration {
        let shortest = claims.iter().map(|claim| claim.lease).min();
        match shortest {
            Some(lease) if !self.route.mixes_buckets() => lease / 6,
            _ => Duration::MAX,
        }
    }

    async fn look_at(&self, names: Vec<Name>) -> Result<Vec<LockView>, Error> {
        let keys: Vec<_> = names.iter().map(|name| self.keys.claims(name)).collect();
        let script = (&*scripts::INSPECT, "looking at locks");
        self.call(script, &keys, &[], |answer| wire::views(names, answer))
            .await
    }

    /// All names on one server, in bounded steps. What changes meanwhile may be seen or not.
    async fn scan(&self, link: &Link) -> Result<Vec<Name>, Error> {
        let during = "looking for locks";
        let (mut cursor, mut names) = (b"0".to_vec(), Vec::new());
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(self.keys.all_claims());
            scan.arg("COUNT").arg(SCAN);
            let answer = link.command(&scan).await;
            let answer = answer.map_err(|error| meaning(error, during))?;
            let (next, keys) = step(&answer).ok_or_else(|| nonsense(during))?;
            names.extend(
                keys.iter()
                    .filter_map(|key| self.keys.name(wire::bytes(key)?)),
            );
            if next == b"0" {
                return Ok(names);
            }
            cursor = next.to_vec();
        }
    }
}

fn step(answer: &Value) -> Option<(&[u8], &[Value])> {
    match wire::items(answer)? {
        [next, keys] => Some((wire::bytes(next)?, wire::items(keys)?)),
        _ => None,
    }
}

fn silent(during: &str) -> Error {
    Error::Unreachable {
        backend: REDIS,
        during: format!("{during} (no answer in time)"),
        source: None,
    }
}

fn nonsense(during: &str) -> Error {
    Error::Unreachable {
        backend: REDIS,
        during: format!("{during} (its answer made no sense)"),
        source: None,
    }
}

/// A claim that could never hold would block everybody behind it.
fn possible(mode: Mode) -> Result<(), Error> {
    match mode {
        Mode::Permits { take, of } => Ok(Mode::permits(take, of).map(drop)?),
        _ => Ok(()),
    }
}

#[async_trait]
impl Backend for RedisBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        possible(claim.mode)?;
        let entrance = self.keys.entrance(&claim.name);
        let wanted = self.record.of(claim, &self.channel);
        let asking = Asking {
            keys: [&entrance.claims, entrance.order],
            bucket: entrance.bucket,
            id: &claim.id,
            rest: &wanted.rest,
            lease_ms: &wanted.lease_ms,
            tries: entry == Entry::Try,
        };
        let answer = self.route.enter(&scripts::ENTER, &asking);
        let read = |told: &Value| wire::entered(told, claim.lease);
        let standing = Self::read(answer.await, "asking for a lock", read)?;
        if let Standing::Waits { .. } = standing {
            self.waited.note(claim.id);
        }
        Ok(standing)
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let mut groups: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (place, claim) in claims.iter().enumerate() {
            let bucket = Keys::bucket(&claim.name);
            let group = if self.route.mixes_buckets() {
                0
            } else {
                bucket
            };
            groups.entry(group).or_default().push(place);
        }
        let batches = groups.values().flat_map(|group| group.chunks(BATCH));
        let limit = self.part_limit(claims);
        let told = batches.map(|batch| async move {
            let some: Vec<&Claim> = batch.iter().map(|place| &claims[*place]).collect();
            let told = tokio::time::timeout(limit, self.renew_some(&some)).await;
            (
                batch,
                told.unwrap_or_else(|_| Err(silent("renewing leases"))),
            )
        });
        let mut standings = vec![Standing::Unknown; claims.len()];
        let (mut heard, mut trouble) = (false, None);
        for (batch, told) in join_all(told).await {
            match told {
                Ok(told) => {
                    heard = true;
                    for (place, standing) in batch.iter().zip(told) {
                        standings[*place] = standing;
                    }
                }
                Err(error) => trouble = Some(error),
            }
        }
        match trouble {
            Some(error) if !heard => Err(error),
            _ => Ok(standings),
        }
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        let keys = [self.keys.claims(&claim.name)];
        let lease = wire::lease_ms(claim.lease);
        let args = [claim.id.as_bytes(), lease.as_bytes()];
        let script = (&*scripts::DOWNGRADE, "downgrading a lock");
        self.call(script, &keys, &args, wire::standing).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let keys = [self.keys.claims(&claim.name)];
        // Where it had to wait itself, others are likely to wait now.
        let told = match self.waited.forget(claim.id) {
            true => Told::AfterOthers,
            false => Told::InTurn,
        };
        let args = [&claim.id.as_bytes()[..]];
        let answer = self.route.call(&scripts::RELEASE, &keys, &args, told).await;
        Self::read(answer, "releasing a lock", wire::released)
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let mut names = match query {
            Query::One(name) => vec![name.clone()],
            Query::All => {
                let scans = self.route.masters();
                let scans = scans.iter().map(|link| self.scan(link));
                try_join_all(scans).await?.concat()
            }
        };
        names.sort();
        names.dedup();
        let mut views = Vec::new();
        let whole = self.route.mixes_buckets();
        for names in names.chunks(if whole { LOOK } else { 1 }) {
            views.extend(self.look_at(names.to_vec()).await?);
        }
        Ok(views)
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let bucket = Keys::bucket(name);
        let keys = [self.keys.claims(name), self.keys.broken(bucket)];
        let why = &why[..why.floor_char_boundary(LONGEST_REASON)];
        let order = order.to_string();
        let note = format!("{order} {name}: {why}", name = name.as_str());
        let script = (&*scripts::EVICT, "breaking a lock");
        let args = [order.as_bytes(), note.as_bytes()];
        self.call(script, &keys, &args, wire::released).await
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

impl RedisBackend {
    pub(super) fn shared(self) -> Arc<dyn Backend> {
        Arc::new(self)
    }
}
