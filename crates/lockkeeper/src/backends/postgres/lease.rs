//! The verbs on rows with an end. A claim that is alone stands in its name's row, and comes and goes by one statement each.
//! Whatever else happens, the list is read, the rule decides here, and one statement writes what it says, if the name's
//! row is still as it was; who was alone moves to the list by that.

use std::borrow::Cow;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;
use tokio_postgres::types::ToSql;

use super::client::{Links, Question};
use super::ear::Ear;
use super::faults::{Fault, unreachable};
use super::wire::{self, Columns};
use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wakes};
use crate::backends::sql::list::{Change, Insert, List, Row, micros};
use crate::backends::sql::used::Used;
use crate::backends::sql::{shortened, show};
use crate::claim::Claim;
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::{Mode, Name};

/// The statements, and the places of each among them.
pub(super) const TEXTS: [&str; 9] = [
    include_str!("sql/enter_alone.sql"),
    include_str!("sql/enter_first.sql"),
    include_str!("sql/release_alone.sql"),
    include_str!("sql/read.sql"),
    include_str!("sql/change.sql"),
    include_str!("sql/renew.sql"),
    include_str!("sql/inspect.sql"),
    include_str!("sql/inspect_all.sql"),
    include_str!("sql/dead.sql"),
];
const ENTER_ALONE: usize = 0;
const ENTER_FIRST: usize = 1;
const RELEASE_ALONE: usize = 2;
const READ: usize = 3;
const CHANGE: usize = 4;
const RENEW: usize = 5;
const INSPECT: usize = 6;
const INSPECT_ALL: usize = 7;
const DEAD: usize = 8;
/// The most claims in one statement.
const BATCH: usize = 500;
/// How often a change is tried before it is given up: somebody else succeeds each time.
const TRIES: u32 = 60;
/// How long answers are waited for where no lease says it.
const PATIENCE: Duration = Duration::from_secs(5);

/// One keeper's way to its lists.
#[derive(Debug)]
pub(super) struct LeaseBackend {
    pub(super) links: Links,
    pub(super) ear: Ear,
    /// Names that have a row, unless they were swept.
    pub(super) used: Used,
    pub(super) bell: Bell,
    pub(super) guarantees: Guarantees,
    pub(super) place: String,
}

/// What a change is about, besides the list.
#[derive(Clone, Copy, Default)]
struct About<'a> {
    /// The claim that enters or is renewed.
    claim: Option<&'a Claim>,
    /// The number that an operator breaks, and why.
    broken: Option<(u64, &'a str)>,
}

/// By what a list is known again.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Of the name's row, if there is one.
    version: Option<i64>,
    /// Whether somebody stands in that row: it may leave without a new version.
    alone: bool,
    /// How many claims there are.
    claims: usize,
}

impl LeaseBackend {
    /// Reads, decides and writes until nobody came in between. Tells what was decided, and the number of the claim
    /// that entered.
    async fn settle<T>(
        &self,
        name: &Name,
        about: About<'_>,
        question: Question,
        decide: impl Fn(List) -> Result<(Change, T), Error> + Sync,
    ) -> Result<(T, u64), Error>
    where
        T: Send,
    {
        for attempt in 0..TRIES {
            let (found, rows) = match self.read(name, question).await {
                Err(Fault::Again) => continue,
                read => read?,
            };
            let (change, told) = decide(List::of(rows))?;
            if change.is_empty() {
                return Ok((told, 0));
            }
            match self.write(name, found, about, (&change, question)).await {
                Ok(Some(order)) => return Ok((told, order)),
                Ok(None) | Err(Fault::Again) => sleep(pause(attempt)).await,
                Err(fault) => return Err(fault.into()),
            }
        }
        Err(unreachable(format!(
            "{} (too many others change the same list)",
            question.during
        )))
    }

    async fn read(&self, name: &Name, question: Question) -> Result<(Found, Vec<Row>), Fault> {
        let text = wire::text_of(name);
        let answer = self.links.ask(READ, &[&text], question).await?;
        let version = answer.first().map(|row| row.get::<_, i64>(0));
        let alone = answer.first().is_some_and(|row| row.get::<_, bool>(1));
        let rows: Result<Vec<_>, Error> = answer.iter().map(wire::row).collect();
        let rows: Vec<Row> = rows.map_err(Fault::Told)?.into_iter().flatten().collect();
        let found = Found {
            version,
            alone,
            claims: rows.len(),
        };
        Ok((found, rows))
    }

    /// Writes a change; nothing if the list is another by now, else the number of the claim that entered, or 0.
    async fn write(
        &self,
        name: &Name,
        found: Found,
        about: About<'_>,
        (change, question): (&Change, Question),
    ) -> Result<Option<u64>, Fault> {
        let text = wire::text_of(name);
        let numbers = |orders: &[u64]| orders.iter().map(|order| *order as i64).collect();
        let all = [&change.delete, &change.restart, &change.grant, &change.dead];
        let [delete, restart, grant, dead]: [Vec<i64>; 4] = all.map(|orders| numbers(orders));
        let (renew, share) = (
            change.renew.map(|n| n as i64),
            change.share.map(|n| n as i64),
        );
        let insert = change.insert.map(|insert| insert == Insert::Holding);
        let claim = about.claim.map(Columns::of).unwrap_or_default();
        let channels: Vec<&str> = change.rings.iter().map(|r| r.keeper.as_str()).collect();
        let payloads: Vec<String> = change.rings.iter().map(wire::payload).collect();
        let broken = about.broken.map(|(order, _)| order as i64);
        let why = about.broken.map(|(_, why)| wire::escaped(shortened(why)));
        let emptied = change.insert.is_none() && change.delete.len() == found.claims;
        let values: [&(dyn ToSql + Sync); 22] = [
            &text,
            &found.version,
            &delete,
            &restart,
            &grant,
            &renew,
            &share,
            &insert,
            &claim.id,
            &claim.mode,
            &claim.lease_us,
            &self.ear.channel,
            &claim.label,
            &claim.host,
            &claim.pid,
            &channels,
            &payloads,
            &broken,
            &why,
            &dead,
            &found.alone,
            &emptied,
        ];
        let answer = self.links.ask(CHANGE, &values, question).await?;
        let row = answer
            .first()
            .ok_or_else(|| Fault::Told(wire::nonsense()))?;
        if row.get::<_, i64>(0) == 0 {
            return Ok(None);
        }
        let order = row.get::<_, Option<i64>>(1).unwrap_or_default();
        Ok(Some(u64::try_from(order).unwrap_or_default()))
    }

    /// One statement for up to [`BATCH`] claims. Those that wait behind somebody who died have their lists settled.
    async fn renew_some(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let lease = claims.iter().map(|claim| claim.lease).min();
        let question = Question::within(lease.unwrap_or(PATIENCE), "renewing leases");
        let names: Vec<Cow<'_, str>> = claims
            .iter()
            .map(|claim| wire::text_of(&claim.name))
            .collect();
        let ids: Vec<&[u8]> = claims
            .iter()
            .map(|claim| &claim.id.as_bytes()[..])
            .collect();
        let leases: Vec<i64> = claims.iter().map(|claim| micros(claim.lease)).collect();
        let values: [&(dyn ToSql + Sync); 3] = [&names, &ids, &leases];
        let answer = self.ask(RENEW, &values, question).await?;
        let mut standings = vec![Standing::Gone; claims.len()];
        for row in &answer {
            let place = row.get::<_, i64>(0) - 1;
            let claim = usize::try_from(place)
                .ok()
                .and_then(|place| Some((place, claims.get(place)?)));
            let (place, claim) = claim.ok_or_else(wire::nonsense)?;
            standings[place] = match renewed(row, claim) {
                Some(standing) => standing,
                None => {
                    let about = About {
                        claim: Some(claim),
                        broken: None,
                    };
                    let decide = |list: List| Ok(list.renew(claim));
                    self.settle(&claim.name, about, question, decide).await?.0
                }
            };
        }
        Ok(standings)
    }

    /// Takes out what has died in all lists, then the names that nobody uses.
    pub(super) async fn sweep(&self) -> Result<(u64, u64), Error> {
        let question = Question {
            during: "sweeping",
            patience: PATIENCE,
        };
        let (mut claims, mut names) = (0, 0);
        for row in self.ask(DEAD, &[], question).await? {
            let name = wire::name_of(row.get(0)).ok_or_else(wire::nonsense)?;
            let decide = |list: List| {
                let change = list.purge();
                let dead = change.delete.len() as u64;
                Ok((change, dead))
            };
            claims += self
                .settle(&name, About::default(), question, decide)
                .await?
                .0;
        }
        loop {
            let swept = self
                .links
                .run(include_str!("sql/sweep_names.sql"), question);
            match swept.await {
                Ok(0) => return Ok((claims, names)),
                Ok(swept) => names += swept,
                // The rows of names do no harm: somebody else's long transaction is not waited for.
                Err(Fault::Again) => return Ok((claims, names)),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Asks until nobody is in the way.
    async fn ask(
        &self,
        which: usize,
        values: &[&(dyn ToSql + Sync)],
        question: Question,
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        let mut attempt = 0;
        loop {
            match self.links.ask(which, values, question).await {
                Err(Fault::Again) if attempt < TRIES => {
                    sleep(pause(attempt)).await;
                    attempt += 1;
                }
                answer => return Ok(answer?),
            }
        }
    }
}

/// The standing that a row of `renew.sql` tells; nothing if the list has to be looked at.
fn renewed(row: &tokio_postgres::Row, claim: &Claim) -> Option<Standing> {
    let order = u64::try_from(row.get::<_, i64>(1)).unwrap_or_default();
    if row.get(2) {
        return Some(Standing::Holds {
            order,
            lease_left: claim.lease,
        });
    }
    let (ahead, left_us): (Option<i64>, Option<i64>) = (row.get(3), row.get(4));
    let stale = row.get::<_, Option<bool>>(5).unwrap_or(true);
    let ahead = usize::try_from(ahead?)
        .ok()
        .filter(|ahead| *ahead > 0 && !stale)?;
    Some(Standing::Waits {
        ahead,
        look_again_in: Duration::from_micros(u64::try_from(left_us?).ok()?),
    })
}

/// Longer with every failure, and never the same for two.
fn pause(attempt: u32) -> Duration {
    let mut random = [0; 2];
    let _even_is_fine = getrandom::fill(&mut random);
    let longest = 200 << attempt.min(7);
    Duration::from_micros((u64::from(u16::from_ne_bytes(random)) * longest) >> 16)
}

#[async_trait]
impl Backend for LeaseBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        wire::possible(claim.mode)?;
        let question = Question::within(claim.lease, "asking for a lock");
        let (text, columns) = (wire::text_of(&claim.name), Columns::of(claim));
        let values: [&(dyn ToSql + Sync); 8] = [
            &text,
            &columns.id,
            &columns.mode,
            &columns.lease_us,
            &self.ear.channel,
            &columns.label,
            &columns.host,
            &columns.pid,
        ];
        let known = self.used.has(&claim.name);
        let quick = if known { ENTER_ALONE } else { ENTER_FIRST };
        match self.links.ask(quick, &values, question).await {
            Ok(rows) => {
                if !known {
                    self.used.note(&claim.name);
                }
                if let Some(row) = rows.first() {
                    let order = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
                    let lease_left = claim.lease;
                    return Ok(Standing::Holds { order, lease_left });
                }
            }
            Err(Fault::Again) => {}
            Err(fault) => return Err(fault.into()),
        }
        let about = About {
            claim: Some(claim),
            broken: None,
        };
        let decide = |list: List| Ok(list.enter(claim, entry));
        let (entered, order) = self.settle(&claim.name, about, question, decide).await?;
        Ok(entered.standing(order, claim.lease))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let mut standings = Vec::with_capacity(claims.len());
        for batch in claims.chunks(BATCH) {
            standings.extend(self.renew_some(batch).await?);
        }
        Ok(standings)
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        if !matches!(claim.mode, Mode::Exclusive | Mode::Shared) {
            let mode = claim.mode;
            return Err(Error::invalid(format!(
                "a claim of mode {mode} cannot be downgraded"
            )));
        }
        let question = Question::within(claim.lease, "downgrading a lock");
        let about = About {
            claim: Some(claim),
            broken: None,
        };
        let decide = |list: List| list.downgrade(claim);
        let (standing, _) = self.settle(&claim.name, about, question, decide).await?;
        Ok(standing)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let question = Question::within(claim.lease, "releasing a lock");
        let (text, id) = (wire::text_of(&claim.name), &claim.id.as_bytes()[..]);
        match self.links.ask(RELEASE_ALONE, &[&text, &id], question).await {
            Ok(rows) => match rows.first().map(|row| row.get::<_, bool>(0)) {
                Some(true) => return Ok(Released::Freed),
                Some(false) => return Ok(Released::Gone),
                None => {}
            },
            Err(Fault::Again) => {}
            Err(fault) => return Err(fault.into()),
        }
        let decide = |list: List| Ok(list.release(claim.id));
        let (released, _) = self
            .settle(&claim.name, About::default(), question, decide)
            .await?;
        Ok(released)
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let question = Question {
            during: "looking at locks",
            patience: PATIENCE,
        };
        let answer = match query {
            Query::One(name) => {
                let text = wire::text_of(name);
                self.links.ask(INSPECT, &[&text], question).await?
            }
            Query::All => self.links.ask(INSPECT_ALL, &[], question).await?,
        };
        let rows: Result<Vec<_>, Error> = answer.iter().map(wire::shown).collect();
        show::views(rows?)
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let question = Question {
            during: "breaking a lock",
            patience: PATIENCE,
        };
        let about = About {
            claim: None,
            broken: Some((order, why)),
        };
        let decide = |list: List| Ok(list.evict(order));
        let (released, _) = self.settle(name, about, question, decide).await?;
        Ok(released)
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
