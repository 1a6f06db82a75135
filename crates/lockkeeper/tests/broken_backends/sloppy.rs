//! A small backend of its own, right without a bug and wrong in one chosen way with one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::backend::{
    Backend, Bell, ClaimView, Entry, LockView, Query, Released, Standing, Wake, Wakes,
};
use lockkeeper::claim::{Claim, Party};
use lockkeeper::conformance::Engine;
use lockkeeper::guarantees::{Class, Guarantees};
use lockkeeper::{Clock, Error, Mode, Moment, Name, Token, rule};

/// What is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    ReleaseComparesNoId,
    RenewComparesNoId,
    RenewRevives,
    RenewDoesNotLengthen,
    RenewTouchesEverybody,
    RenewSkipsWaiters,
    RenewAnswersBackwards,
    EnterTwiceTakesTwoPlaces,
    EnterAgainForgetsTheLease,
    EnterLooksThenWrites,
    TryQueues,
    TokenRepeats,
    TokenStartsAnewWhenEmpty,
    TokenGoesBackAfterEviction,
    LastInFirstOut,
    ReaderOvertakesWriter,
    OnePermitTooMany,
    ReleaseWakesAll,
    ReleaseWakesTheLast,
    ReleaseWakesNobody,
    EvictionWakesNobody,
    LooksAgainTooLate,
    LeaseNeverEnds,
    LeaseEndsEarly,
    InspectShowsTheDead,
    InspectShowsIds,
    InspectRenews,
    DowngradeGivesTheHoldUp,
    DowngradeTakesANewToken,
    EvictTakesTheFirst,
    ReleaseLeavesARow,
    NamesFold,
    GrantsWhatItDoesNotPromise,
}

impl Bug {
    /// Every one but none.
    pub(crate) const ALL: &[Self] = &[
        Self::ReleaseComparesNoId,
        Self::RenewComparesNoId,
        Self::RenewRevives,
        Self::RenewDoesNotLengthen,
        Self::RenewTouchesEverybody,
        Self::RenewSkipsWaiters,
        Self::RenewAnswersBackwards,
        Self::EnterTwiceTakesTwoPlaces,
        Self::EnterAgainForgetsTheLease,
        Self::EnterLooksThenWrites,
        Self::TryQueues,
        Self::TokenRepeats,
        Self::TokenStartsAnewWhenEmpty,
        Self::TokenGoesBackAfterEviction,
        Self::LastInFirstOut,
        Self::ReaderOvertakesWriter,
        Self::OnePermitTooMany,
        Self::ReleaseWakesAll,
        Self::ReleaseWakesTheLast,
        Self::ReleaseWakesNobody,
        Self::EvictionWakesNobody,
        Self::LooksAgainTooLate,
        Self::LeaseNeverEnds,
        Self::LeaseEndsEarly,
        Self::InspectShowsTheDead,
        Self::InspectShowsIds,
        Self::InspectRenews,
        Self::DowngradeGivesTheHoldUp,
        Self::DowngradeTakesANewToken,
        Self::EvictTakesTheFirst,
        Self::ReleaseLeavesARow,
        Self::NamesFold,
        Self::GrantsWhatItDoesNotPromise,
    ];
}

#[derive(Debug)]
struct Row {
    claim: Claim,
    order: u64,
    since: Moment,
    ends: Moment,
    bell: Bell,
}

#[derive(Debug, Default)]
struct Table {
    last_order: u64,
    rows: BTreeMap<Name, Vec<Row>>,
    litter: usize,
}

/// The engine, and what is wrong with it.
#[derive(Debug, Clone)]
pub(crate) struct SloppyEngine {
    bug: Bug,
    table: Arc<Mutex<Table>>,
}

impl SloppyEngine {
    pub(crate) fn with(bug: Bug) -> Self {
        Self {
            bug,
            table: Arc::default(),
        }
    }
}

#[async_trait]
impl Engine for SloppyEngine {
    async fn start() -> Self {
        Self::with(Bug::None)
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        let mut guarantees = Guarantees::of("sloppy", Class::BestEffort);
        guarantees.class_reason = "it is for tests".into();
        guarantees.survives = vec!["nothing much"];
        guarantees.clock = "the machine's";
        guarantees.token = "a counter".into();
        if self.bug == Bug::GrantsWhatItDoesNotPromise {
            guarantees.modes.shared = false;
        }
        Arc::new(Sloppy {
            engine: self.clone(),
            bell: Bell::default(),
            guarantees,
        })
    }

    async fn residue(&self) -> usize {
        let mut table = self.table.lock().expect("no panic inside");
        if self.bug != Bug::LeaseNeverEnds {
            let now = Clock::system().now();
            table.rows.retain(|_, list| {
                list.retain(|row| row.ends > now);
                !list.is_empty()
            });
        }
        table.litter + table.rows.values().map(Vec::len).sum::<usize>()
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(300)
    }
}

#[derive(Debug)]
struct Sloppy {
    engine: SloppyEngine,
    bell: Bell,
    guarantees: Guarantees,
}

impl Sloppy {
    fn has(&self, bug: Bug) -> bool {
        self.engine.bug == bug
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.engine.table.lock().expect("no panic inside")
    }

    fn key(&self, name: &Name) -> Name {
        match self.has(Bug::NamesFold) {
            true => Name::new(name.as_str().trim().to_lowercase()).unwrap_or(name.clone()),
            false => name.clone(),
        }
    }

    fn lease(&self, claim: &Claim) -> Duration {
        match self.has(Bug::LeaseEndsEarly) {
            true => claim.lease / 2,
            false => claim.lease,
        }
    }

    fn holders(&self, modes: impl Iterator<Item = Mode>) -> usize {
        if !self.has(Bug::OnePermitTooMany) {
            return rule::holders(modes);
        }
        rule::holders(modes.map(|mode| match mode {
            Mode::Permits { take, of } => Mode::Permits { take, of: of + 1 },
            other => other,
        }))
    }

    /// The list of a name, without the dead; rings whom their end promotes.
    fn list<'t>(&self, table: &'t mut Table, name: &Name) -> &'t mut Vec<Row> {
        let now = Clock::system().now();
        let key = self.key(name);
        if !self.has(Bug::LeaseNeverEnds) {
            self.take_out(table, name, |row| row.ends <= now, Bug::None);
        }
        table.rows.entry(key).or_default()
    }

    /// Takes rows out and rings; `silent` is the bug that would keep it from ringing.
    fn take_out(
        &self,
        table: &mut Table,
        name: &Name,
        leaves: impl Fn(&Row) -> bool,
        silent: Bug,
    ) -> Released {
        let key = self.key(name);
        let Some(list) = table.rows.get_mut(&key) else {
            return Released::Gone;
        };
        let before = self.holders(list.iter().map(|row| row.claim.mode));
        let still = list[..before].iter().filter(|row| !leaves(row)).count();
        let length = list.len();
        list.retain(|row| !leaves(row));
        let after = self.holders(list.iter().map(|row| row.claim.mode));
        let freed = list.len() < length;
        let promoted = match self.engine.bug {
            bug if bug == silent && bug != Bug::None => 0..0,
            Bug::ReleaseWakesAll if freed => still..list.len(),
            Bug::ReleaseWakesTheLast if after > still => list.len() - 1..list.len(),
            _ => still..after,
        };
        for row in &list[promoted] {
            row.bell.ring(Wake::Look(row.claim.id));
        }
        if list.is_empty() {
            table.rows.remove(&key);
        }
        match freed {
            true => Released::Freed,
            false => Released::Gone,
        }
    }

    fn standing(&self, list: &[Row], place: usize) -> Standing {
        let now = Clock::system().now();
        let row = &list[place];
        let mut holds = place < self.holders(list.iter().map(|row| row.claim.mode));
        if self.has(Bug::ReaderOvertakesWriter) && row.claim.mode == Mode::Shared {
            holds |= list[0].claim.mode == Mode::Shared;
        }
        let repeats = self.has(Bug::TokenRepeats);
        if holds {
            return Standing::Holds {
                order: if repeats {
                    row.order / 2 + 1
                } else {
                    row.order
                },
                lease_left: row.ends - now,
            };
        }
        let late = self.has(Bug::LooksAgainTooLate);
        let ends = list[..place].iter().map(|row| row.ends - now).min();
        Standing::Waits {
            ahead: place,
            look_again_in: match late {
                true => Duration::from_secs(3600),
                false => ends.unwrap_or_default(),
            },
        }
    }

    fn find(&self, list: &[Row], claim: &Claim) -> Option<usize> {
        list.iter().position(|row| row.claim.id == claim.id)
    }

    fn renew_one(&self, table: &mut Table, claim: &Claim) -> Standing {
        let now = Clock::system().now();
        let list = self.list(table, &claim.name);
        let found = self.find(list, claim);
        let found =
            found.or_else(|| (self.has(Bug::RenewComparesNoId) && !list.is_empty()).then_some(0));
        let Some(place) = found else {
            if self.has(Bug::RenewRevives) {
                return self.insert(table, claim);
            }
            return self.without_trace(table, claim);
        };
        let waits = place >= self.holders(list.iter().map(|row| row.claim.mode));
        let stays =
            self.has(Bug::RenewDoesNotLengthen) || (self.has(Bug::RenewSkipsWaiters) && waits);
        for (at, row) in list.iter_mut().enumerate() {
            let touched = at == place || self.has(Bug::RenewTouchesEverybody);
            if touched && !stays {
                row.ends = now + self.lease(claim);
            }
        }
        self.standing(list, place)
    }

    fn without_trace(&self, table: &mut Table, claim: &Claim) -> Standing {
        let key = self.key(&claim.name);
        if table.rows.get(&key).is_some_and(Vec::is_empty) {
            table.rows.remove(&key);
        }
        Standing::Gone
    }

    fn insert(&self, table: &mut Table, claim: &Claim) -> Standing {
        let now = Clock::system().now();
        let anew = self.has(Bug::TokenStartsAnewWhenEmpty);
        if anew && self.list(table, &claim.name).is_empty() {
            table.last_order = 0;
        }
        table.last_order += 1;
        let row = Row {
            claim: claim.clone(),
            order: table.last_order,
            since: now,
            ends: now + self.lease(claim),
            bell: self.bell.clone(),
        };
        let list = self.list(table, &claim.name);
        let holders = self.holders(list.iter().map(|row| row.claim.mode));
        let place = match self.has(Bug::LastInFirstOut) {
            true => holders,
            false => list.len(),
        };
        list.insert(place, row);
        self.standing(list, place)
    }
}

#[async_trait]
impl Backend for Sloppy {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        let would_hold = {
            let mut table = self.table();
            let list = self.list(&mut table, &claim.name);
            let found = self.find(list, claim);
            if found.is_some() && self.has(Bug::EnterAgainForgetsTheLease) {
                return Ok(self.standing(list, found.unwrap_or(0)));
            }
            if found.is_some() && !self.has(Bug::EnterTwiceTakesTwoPlaces) {
                return Ok(self.renew_one(&mut table, claim));
            }
            let modes = list.iter().map(|row| row.claim.mode).chain([claim.mode]);
            self.holders(modes) > list.len()
        };
        if entry == Entry::Try && !would_hold && !self.has(Bug::TryQueues) {
            return Ok(self.without_trace(&mut self.table(), claim));
        }
        if self.has(Bug::EnterLooksThenWrites) && would_hold {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut table = self.table();
            self.insert(&mut table, claim);
            return Ok(Standing::Holds {
                order: table.last_order,
                lease_left: claim.lease,
            });
        }
        Ok(self.insert(&mut self.table(), claim))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let mut table = self.table();
        let mut standings: Vec<_> = claims
            .iter()
            .map(|claim| self.renew_one(&mut table, claim))
            .collect();
        if self.has(Bug::RenewAnswersBackwards) {
            standings.reverse();
        }
        Ok(standings)
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        let mut table = self.table();
        let next = table.last_order + 1;
        let list = self.list(&mut table, &claim.name);
        let Some(place) = self.find(list, claim) else {
            return Ok(self.without_trace(&mut table, claim));
        };
        let before = self.holders(list.iter().map(|row| row.claim.mode));
        list[place].claim.mode = Mode::Shared;
        if self.has(Bug::DowngradeTakesANewToken) {
            list[place].order = next;
        }
        let after = self.holders(list.iter().map(|row| row.claim.mode));
        for row in &list[before..after] {
            row.bell.ring(Wake::Look(row.claim.id));
        }
        let standing = self.renew_one(&mut table, claim);
        if self.has(Bug::DowngradeGivesTheHoldUp) {
            let is_it = |row: &Row| row.claim.id == claim.id;
            self.take_out(&mut table, &claim.name, is_it, Bug::None);
        }
        if self.has(Bug::DowngradeTakesANewToken) {
            table.last_order = next;
        }
        Ok(standing)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let mut table = self.table();
        let first = self.list(&mut table, &claim.name).first();
        let first = first.map(|row| row.claim.id);
        let any = self.has(Bug::ReleaseComparesNoId);
        let leaves = |row: &Row| row.claim.id == claim.id || (any && Some(row.claim.id) == first);
        let released = self.take_out(&mut table, &claim.name, leaves, Bug::ReleaseWakesNobody);
        self.without_trace(&mut table, claim);
        if self.has(Bug::ReleaseLeavesARow) {
            table.litter += 1;
        }
        Ok(released)
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let mut table = self.table();
        let names: Vec<Name> = match query {
            Query::One(name) => vec![name.clone()],
            Query::All => table.rows.keys().cloned().collect(),
        };
        let mut views = Vec::new();
        for name in names {
            if !self.has(Bug::InspectShowsTheDead) {
                self.list(&mut table, &name);
            }
            let key = self.key(&name);
            let list = table.rows.entry(key.clone()).or_default();
            if list.is_empty() {
                table.rows.remove(&key);
                continue;
            }
            views.push(self.view(name, list));
        }
        Ok(views)
    }

    async fn evict(&self, name: &Name, order: u64, _why: &str) -> Result<Released, Error> {
        let mut table = self.table();
        let first = self.list(&mut table, name).first().map(|row| row.order);
        let order = match self.has(Bug::EvictTakesTheFirst) {
            true => first.unwrap_or(order),
            false => order,
        };
        if self.has(Bug::TokenGoesBackAfterEviction) {
            table.last_order = table.last_order.saturating_sub(1);
        }
        let leaves = |row: &Row| row.order == order;
        Ok(self.take_out(&mut table, name, leaves, Bug::EvictionWakesNobody))
    }

    fn wakes(&self) -> Wakes {
        self.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        "sloppy:".into()
    }
}

impl Sloppy {
    fn view(&self, name: Name, list: &mut [Row]) -> LockView {
        let now = Clock::system().now();
        let mut views = Vec::new();
        for row in list.iter_mut() {
            if self.has(Bug::InspectRenews) {
                row.ends = now + row.claim.lease;
            }
            let mut party: Party = (*row.claim.party).clone();
            if self.has(Bug::InspectShowsIds) {
                party.label = format!("{:?}", row.claim.id.as_bytes());
            }
            views.push(ClaimView {
                token: Token::new(row.order, 0).expect("small"),
                mode: row.claim.mode,
                party,
                since: now - row.since,
                lease_left: row.ends - now,
            });
        }
        let holders = self.holders(list.iter().map(|row| row.claim.mode));
        let waiters = views.split_off(holders);
        LockView {
            name,
            holders: views,
            waiters,
        }
    }
}
