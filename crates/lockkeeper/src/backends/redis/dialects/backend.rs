//! The verbs: each is one script. A wait that begins behind a stranger whose word must not be missed is
//! told to look once more when somebody listens.

use std::time::Duration;

use async_trait::async_trait;

use super::client::{Client, Seen, SeenClaim, Told, parsed, write_party};
use super::config::Kind;
use crate::backend::{Backend, ClaimView, Entry, LockView, Query, Released, Standing, Wakes};
use crate::claim::{Claim, Party};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::Clock;
use crate::{Mode, Name, Token};

/// How many broken claims are remembered.
const BROKEN_KEPT: &str = "1000";
/// How long, in milliseconds: 30 days after the last.
const BROKEN_KEPT_MS: &str = "2592000000";
/// The longest reason that is noted.
const LONGEST_REASON: usize = 1024;
/// The most names looked at in one call, so that no call holds the server up for long.
const LOOK: usize = 64;
/// Between two looks at a stranger who does not tell when it is done: this much, and up to as much more,
/// so that several who look do not look together.
const LOOK_EVERY: Duration = Duration::from_millis(60);
/// What is shown of a stranger's lock that never ends.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

#[derive(Debug)]
pub(super) struct DialectBackend {
    pub(super) client: Client,
    /// Scatters the looks of several keepers; nothing is decided by it.
    pub(super) clock: Clock,
    pub(super) guarantees: Guarantees,
}

impl DialectBackend {
    /// Other clients have nothing that a reader or a permit could be written as.
    fn only_exclusive(&self, mode: Mode) -> Result<(), Error> {
        if mode == Mode::Exclusive {
            return Ok(());
        }
        Err(Error::Refused {
            backend: self.guarantees.backend,
            why: format!(
                "mode {mode} means nothing to the clients that this lock is shared with; use an \
                 exclusive lock, or redis:// without a dialect"
            ),
        })
    }

    fn key(&self, claim: &Claim) -> Result<String, Error> {
        self.client.config.key(&claim.name)
    }

    fn standing(&self, told: &Told) -> Standing {
        match *told {
            Told::Gone => Standing::Gone,
            Told::Holds { order, left } => Standing::Holds {
                order,
                lease_left: left,
            },
            Told::Waits {
                ahead,
                first_end,
                behind_stranger,
            } => {
                let silent = behind_stranger && self.client.config.kind == Kind::Simple;
                let first_end = first_end.unwrap_or(FOR_EVER);
                let look_again_in = if silent || first_end == FOR_EVER {
                    first_end.min(self.next_look())
                } else {
                    first_end
                };
                Standing::Waits {
                    ahead,
                    look_again_in,
                }
            }
        }
    }

    fn next_look(&self) -> Duration {
        let jitter = self.clock.now().nanos() % LOOK_EVERY.as_nanos() as u64;
        LOOK_EVERY + Duration::from_nanos(jitter)
    }

    /// Sees to it that a wait behind a stranger is told of its end.
    fn attend(&self, claim: &Claim, key: &str, told: &Told) {
        match told {
            Told::Waits {
                behind_stranger: true,
                ..
            } => self.client.listen(key, claim.id),
            Told::Waits { .. } => {}
            Told::Holds { .. } | Told::Gone => self.client.forget(key, claim.id),
        }
    }

    async fn look_at(&self, keys: &[String], how: &[&str]) -> Result<Vec<LockView>, Error> {
        let script = &self.client.scripts.inspect;
        let told = self.client.call(script, keys, how, "inspecting");
        let told: Vec<redis::Value> = parsed(told.await?)?;
        let seen = told.into_iter().map(Seen::from_value);
        let views = seen.filter_map(|seen| match seen {
            Ok(seen) => self.view(seen),
            Err(error) => Some(Err(error)),
        });
        views.collect()
    }

    fn view(&self, seen: Seen) -> Option<Result<LockView, Error>> {
        if seen.stranger.is_none() && seen.claims.is_empty() {
            return None;
        }
        let name = self.client.config.name(&seen.key)?;
        let stranger = seen.stranger.map(|(number, left)| SeenClaim {
            order: number,
            holds: true,
            since: Duration::ZERO,
            left: left.unwrap_or(FOR_EVER),
            party: Party {
                label: "another client".into(),
                host: "unknown".into(),
                pid: 0,
            },
        });
        let (holders, waiters): (Vec<_>, Vec<_>) = stranger
            .into_iter()
            .chain(seen.claims)
            .partition(|claim| claim.holds);
        let views = claim_views(holders).and_then(|holders| {
            Ok(LockView {
                name,
                holders,
                waiters: claim_views(waiters)?,
            })
        });
        Some(views)
    }
}

#[async_trait]
impl Backend for DialectBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        self.only_exclusive(claim.mode)?;
        let key = self.key(claim)?;
        let entry = match entry {
            Entry::Try => "try",
            Entry::Queue => "queue",
        };
        let (id, lease) = (self.client.config.holder(claim.id), lease_ms(claim)?);
        let party = write_party(claim);
        let args = [&id, &lease, entry, &self.client.keeper, &party];
        let script = &self.client.scripts.enter;
        let keys = std::slice::from_ref(&key);
        let told = self.client.call(script, keys, &args, "asking for a lock");
        let told = Told::from_value(told.await?)?;
        self.attend(claim, &key, &told);
        Ok(self.standing(&told))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        if claims.is_empty() {
            return Ok(Vec::new());
        }
        let keys = claims.iter().map(|claim| self.key(claim));
        let keys: Vec<String> = keys.collect::<Result<_, _>>()?;
        let mut args = Vec::with_capacity(2 * claims.len());
        for claim in claims {
            args.extend([self.client.config.holder(claim.id), lease_ms(claim)?]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let script = &self.client.scripts.renew;
        let told = self.client.call(script, &keys, &args, "renewing leases");
        let told: Vec<redis::Value> = parsed(told.await?)?;
        let mut standings = Vec::with_capacity(claims.len());
        for ((claim, key), told) in claims.iter().zip(&keys).zip(told) {
            let told = Told::from_value(told)?;
            self.attend(claim, key, &told);
            standings.push(self.standing(&told));
        }
        Ok(standings)
    }

    async fn downgrade(&self, _: &Claim) -> Result<Standing, Error> {
        self.only_exclusive(Mode::Shared).map(|()| Standing::Gone)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let key = self.key(claim)?;
        self.client.forget(&key, claim.id);
        let id = self.client.config.holder(claim.id);
        let script = &self.client.scripts.release;
        let told = self.client.call(script, &[key], &[&id], "releasing").await;
        released(told?)
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let mut views = Vec::new();
        match query {
            Query::One(name) => {
                let key = self.client.config.key(name)?;
                views = self.look_at(&[key], &[]).await?;
            }
            Query::All => {
                let mut keys = self.client.all_keys().await?;
                keys.retain(|key| self.client.config.name(key).is_some());
                let keys: Vec<String> = keys.into_iter().collect();
                for page in keys.chunks(LOOK) {
                    views.extend(self.look_at(page, &["some"]).await?);
                }
            }
        }
        views.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(views)
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let key = self.client.config.key(name)?;
        let order = order.to_string();
        let why = &why[..why.floor_char_boundary(LONGEST_REASON)];
        let args = [order.as_str(), why, BROKEN_KEPT, BROKEN_KEPT_MS];
        let script = &self.client.scripts.evict;
        let during = "breaking a claim";
        let told = self.client.call(script, &[key], &args, during).await;
        released(told?)
    }

    fn wakes(&self) -> Wakes {
        self.client.ears.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        self.client.config.to_string()
    }
}

/// A lease in whole milliseconds. Redis takes an expiry of nothing, or less, as an order to delete.
fn lease_ms(claim: &Claim) -> Result<String, Error> {
    match claim.lease.as_millis() {
        0 => Err(Error::invalid("a lease of less than a millisecond")),
        milliseconds => Ok(milliseconds.to_string()),
    }
}

fn released(value: redis::Value) -> Result<Released, Error> {
    match parsed::<i64>(value)? {
        0 => Ok(Released::Gone),
        _ => Ok(Released::Freed),
    }
}

fn claim_views(claims: Vec<SeenClaim>) -> Result<Vec<ClaimView>, Error> {
    let view = |claim: SeenClaim| {
        Ok(ClaimView {
            token: Token::new(claim.order, 0).map_err(Error::invalid)?,
            mode: Mode::Exclusive,
            party: claim.party,
            since: claim.since,
            lease_left: claim.left,
        })
    };
    claims.into_iter().map(view).collect()
}
