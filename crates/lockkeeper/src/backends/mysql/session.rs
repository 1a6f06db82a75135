//! Session mode: the server's own locks. The verbs find the claim's task and ask it; what others see is read from the
//! tables, and believed where the server says that the connection has the lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use mysql_async::{Conn, Row};
use tokio::time::sleep;

use super::BACKEND;
use super::client::{Client, asked, read, shut};
use super::config::Config;
use super::decide::name_of;
use super::faults::Fault;
use super::pinned::{Pinned, Stands};
use super::task::wait_timeout;
use super::text::{Value, fill, without_comments};
use crate::backend::{Backend, Bell, ClaimView, Entry, LockView, Query, Released, Standing, Wakes};
use crate::backends::sql::key;
use crate::backends::sql::used::Used;
use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::{Clock, Moment};
use crate::{Mode, Name, Token};

/// When a claim that waits is worth asking about without a push.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Rows that count no more are taken out by one statement, when there are so many of them or the first has been one for so long.
const SPENT_TOGETHER: usize = 64;
const SPENT_FOR: Duration = Duration::from_millis(500);

/// The server's own locks, one connection for each claim.
#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    guarantees: Guarantees,
}

/// What the verbs and the claims' tasks share.
pub(super) struct Shared {
    pub(super) client: Arc<Client>,
    config: Config,
    pub(super) clock: Clock,
    pub(super) bell: Bell,
    pub(super) used: Used,
    /// The statements that take a lock: at once, and after a wait.
    pub(super) take: String,
    pub(super) take_waited: String,
    claims: Mutex<HashMap<ClaimId, Arc<Pinned>>>,
    /// Connections without a lock, and since when they rest, with which lease.
    idle: Mutex<Vec<(Conn, Moment, Duration)>>,
    /// Rows that count no more, to be taken out together.
    spent: Mutex<Vec<u64>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(
        client: Arc<Client>,
        config: &Config,
        guarantees: Guarantees,
        clock: Clock,
    ) -> Self {
        let shared = Shared {
            client,
            config: config.clone(),
            clock,
            bell: Bell::default(),
            used: Used::default(),
            take: config.statement(&without_comments(include_str!("sql/take.sql"))),
            take_waited: config.statement(&without_comments(include_str!("sql/take_waited.sql"))),
            claims: Mutex::default(),
            idle: Mutex::default(),
            spent: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            guarantees,
        }
    }

    fn only_exclusive(mode: Mode) -> Result<(), Error> {
        if mode == Mode::Exclusive {
            return Ok(());
        }
        Err(Error::Refused {
            backend: BACKEND,
            why: format!(
                "the server's own locks are exclusive, and mode {mode} is not; use mode=lease in the URL"
            ),
        })
    }

    /// The claim's task: the one that runs already, or a new one.
    fn task(&self, claim: &Claim, entry: Entry) -> Result<(Arc<Pinned>, bool), Error> {
        let shared = &self.shared;
        // Held until the task is listed, so that it cannot end before.
        let mut claims = shared.claims();
        let known = claims
            .get(&claim.id)
            .filter(|known| known.claim.name == claim.name);
        if let Some(known) = known.filter(|known| known.renewed(shared.clock.now(), claim.lease)) {
            return Ok((known.clone(), true));
        }
        let most = shared.config.shared.connections;
        if claims.len() >= most {
            return Err(Error::Refused {
                backend: BACKEND,
                why: format!(
                    "{most} claims of this keeper hold or wait, each on a connection of its own; raise connections=N in the \
                     URL if the server has more connections, or use mode=lease"
                ),
            });
        }
        let pinned = Pinned::start(shared, claim.clone(), entry)?;
        claims.insert(claim.id, pinned.clone());
        Ok((pinned, false))
    }

    async fn standing(&self, pinned: &Pinned, lease: Duration) -> Result<Standing, Error> {
        let mut stands = pinned.stands.clone();
        let told = stands
            .wait_for(|stands| !matches!(stands, Stands::Asking))
            .await;
        let told = told.map_or(Stands::Over(Ok(())), |told| told.clone());
        match told {
            Stands::Over(outcome) => outcome.map(|()| Standing::Gone),
            Stands::Asking | Stands::Waits => Ok(Standing::Waits {
                ahead: 1,
                look_again_in: LOOK_AGAIN.min(lease),
            }),
            Stands::Holds(order) => Ok(Standing::Holds {
                order,
                lease_left: lease,
            }),
        }
    }

    /// Where a claim stands, after the server was asked what it has seen of those that wait.
    async fn proven(
        &self,
        claim: &Claim,
        pinned: Option<Arc<Pinned>>,
        seen: &HashMap<u64, Seen>,
    ) -> Result<Standing, Error> {
        let Some(pinned) = pinned else {
            return Ok(Standing::Gone);
        };
        // An error of entering is told to whoever entered.
        let standing = self.standing(&pinned, claim.lease).await;
        match (
            standing.unwrap_or(Standing::Gone),
            seen.get(&pinned.waited()),
        ) {
            (Standing::Holds { .. }, _) if !pinned.proves().await => Ok(Standing::Gone),
            // Its task is about to learn it.
            (Standing::Waits { .. }, Some(Seen::Granted)) => {
                pinned.no_longer_waits().await;
                self.standing(&pinned, claim.lease).await
            }
            // Broken by an operator, or granted since.
            (Standing::Waits { .. }, Some(Seen::Nowhere)) => {
                pinned.leaves_if_it_waits().await;
                self.standing(&pinned, claim.lease).await
            }
            (standing, _) => Ok(standing),
        }
    }

    /// What the server has seen of those of these claims that wait.
    async fn seen(&self, claims: &[Option<Arc<Pinned>>]) -> Result<HashMap<u64, Seen>, Error> {
        let waiting = claims.iter().flatten();
        let waiting = waiting.filter(|pinned| matches!(*pinned.stands.borrow(), Stands::Waits));
        let numbers = waiting.map(|pinned| pinned.waited());
        let mut seen: HashMap<u64, Seen> = numbers.map(|number| (number, Seen::Nowhere)).collect();
        if seen.is_empty() {
            return Ok(seen);
        }
        let marks = vec!["?"; seen.len()].join(",");
        let values: Vec<Value<'_>> = seen.keys().map(|number| Value::Number(*number)).collect();
        let packet = format!(
            "SELECT order_no, COALESCE(IS_USED_LOCK(lock_name), 0) = connection FROM @claims \
             WHERE order_no IN ({marks}) AND IS_USED_LOCK(wait_lock) = connection"
        );
        let packet = self.shared.statement(&packet, &values);
        let told = self.shared.client.ask("renewing leases", packet).await?;
        for row in told.into_iter().flat_map(|told| told.rows) {
            let (number, granted): (u64, i64) = read(row)?;
            let what = if granted != 0 {
                Seen::Granted
            } else {
                Seen::Waiting
            };
            seen.insert(number, what);
        }
        Ok(seen)
    }
}

/// What the server has seen of a claim that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Waiting,
    /// Its connection has the lock.
    Granted,
    Nowhere,
}

impl Shared {
    pub(super) fn statement(&self, template: &str, values: &[Value<'_>]) -> String {
        self.config.statement(&fill(template, values))
    }

    /// The server's lock for a name: it takes 64 characters at most, and knows neither databases nor upper case.
    pub(super) fn lock_name(&self, name: &Name) -> String {
        let key = key::of(&self.config.tables(), name);
        format!("lockkeeper.{key:016x}")
    }

    /// Nobody counts this row any more. They are taken out together, and soon: a release writes nothing.
    pub(super) async fn spent(self: &Arc<Self>, order: u64) {
        let many = {
            let mut spent = self.spent_rows();
            spent.push(order);
            spent.len()
        };
        if many == 1 {
            let shared = self.clone();
            tokio::spawn(async move {
                sleep(SPENT_FOR).await;
                shared.sweep_spent().await;
            });
        } else if many >= SPENT_TOGETHER {
            self.sweep_spent().await;
        }
    }

    async fn sweep_spent(&self) {
        let mut spent = std::mem::take(&mut *self.spent_rows());
        if spent.is_empty() {
            return;
        }
        // In the same order for all: no two who do so are in each other's way.
        spent.sort_unstable();
        let marks = vec!["?"; spent.len()].join(",");
        let values: Vec<Value<'_>> = spent.into_iter().map(Value::Number).collect();
        let sweep = format!("DELETE FROM @claims WHERE order_no IN ({marks})");
        let sweep = self.statement(&sweep, &values);
        let _or_by_the_next_who_meets_the_name = self.client.ask("sweeping", sweep).await;
    }

    fn spent_rows(&self) -> MutexGuard<'_, Vec<u64>> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The claim's task has ended, or is about to. The same claim may have another one by now.
    pub(super) fn over(&self, pinned: &Arc<Pinned>) {
        let mut claims = self.claims();
        let id = &pinned.claim.id;
        if claims
            .get(id)
            .is_some_and(|listed| Arc::ptr_eq(listed, pinned))
        {
            claims.remove(id);
        }
    }

    /// A connection without a lock, and whether it is a new one.
    pub(super) async fn take_connection(&self, lease: Duration) -> Result<(Conn, bool), Fault> {
        loop {
            let rested = self.idle().pop();
            let Some((mut conn, since, set)) = rested else {
                return Ok((self.new_connection(lease).await?, true));
            };
            // The server ends those that rest for as long as their lease.
            if self.clock.now() - since > set / 2 {
                shut(conn).await;
                continue;
            }
            if set != lease
                && asked(&mut conn, wait_timeout(lease), "connecting")
                    .await
                    .is_err()
            {
                shut(conn).await;
                continue;
            }
            return Ok((conn, false));
        }
    }

    pub(super) async fn new_connection(&self, lease: Duration) -> Result<Conn, Fault> {
        let mut conn = self.client.open("connecting").await?;
        match asked(&mut conn, wait_timeout(lease), "connecting").await {
            Ok(_) => Ok(conn),
            Err(fault) => {
                shut(conn).await;
                Err(fault)
            }
        }
    }

    /// Takes a connection back on which nothing is locked.
    pub(super) fn give_back(&self, conn: Conn, lease: Duration) {
        self.idle().push((conn, self.clock.now(), lease));
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<ClaimId, Arc<Pinned>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Conn, Moment, Duration)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, claim: &Claim) -> Option<Arc<Pinned>> {
        let claims = self.claims();
        claims
            .get(&claim.id)
            .filter(|known| known.claim.name == claim.name)
            .cloned()
    }
}

#[async_trait]
impl Backend for Session {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        Self::only_exclusive(claim.mode)?;
        let (mut pinned, known) = self.task(claim, entry)?;
        if known && matches!(*pinned.stands.borrow(), Stands::Holds(_)) && !pinned.proves().await {
            self.shared.over(&pinned);
            (pinned, _) = self.task(claim, entry)?;
        }
        self.standing(&pinned, claim.lease).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let shared = &self.shared;
        let now = shared.clock.now();
        let lives = |claim: &Claim| {
            shared
                .find(claim)
                .filter(|pinned| pinned.renewed(now, claim.lease))
        };
        let tasks: Vec<Option<Arc<Pinned>>> = claims.iter().map(lives).collect();
        let seen = self.seen(&tasks).await?;
        let standings = claims
            .iter()
            .zip(tasks)
            .map(|(claim, task)| self.proven(claim, task, &seen));
        join_all(standings).await.into_iter().collect()
    }

    async fn downgrade(&self, _: &Claim) -> Result<Standing, Error> {
        Self::only_exclusive(Mode::Shared).map(|()| Standing::Gone)
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        match self.shared.find(claim) {
            Some(pinned) => pinned.leaves().await,
            None => Ok(Released::Gone),
        }
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let seen = include_str!("sql/seen.sql");
        let packet = match query {
            Query::One(name) => {
                let lock = self.shared.lock_name(name);
                let one = [
                    Value::Bytes(lock.as_bytes()),
                    Value::Bytes(name.as_str().as_bytes()),
                ];
                let ordered = format!(
                    "{seen} WHERE lock_name = ? AND name = ? ORDER BY holds DESC, order_no"
                );
                self.shared.statement(&ordered, &one)
            }
            Query::All => {
                let ordered = format!("{seen} ORDER BY name, holds DESC, order_no");
                self.shared.statement(&ordered, &[])
            }
        };
        let told = self.shared.client.ask("inspecting", packet).await?;
        let mut views: Vec<LockView> = Vec::new();
        for row in told.into_iter().flat_map(|told| told.rows) {
            let (name, view, holds) = seen_claim(row)?;
            if views.last().is_none_or(|last| last.name != name) {
                views.push(LockView {
                    name,
                    holders: Vec::new(),
                    waiters: Vec::new(),
                });
            }
            if let Some(last) = views.last_mut() {
                let list = if holds {
                    &mut last.holders
                } else {
                    &mut last.waiters
                };
                list.push(view);
            }
        }
        Ok(views)
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        self.shared.break_claim(name, order, why).await
    }

    fn wakes(&self) -> Wakes {
        self.shared.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        self.shared.config.place()
    }
}

/// A row of `seen.sql`: the name, the claim, and whether it holds.
fn seen_claim(row: Row) -> Result<(Name, ClaimView, bool), Error> {
    type Columns = (Vec<u8>, u64, i64, i64, String, String, u32, i64, Vec<u8>);
    let (name, order, lease_us, since_us, label, host, pid, holds, _): Columns = read(row)?;
    let span = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or_default());
    let view = ClaimView {
        token: Token::new(order, 0).map_err(Error::invalid)?,
        mode: Mode::Exclusive,
        party: Party { label, host, pid },
        since: span(since_us),
        lease_left: span(lease_us),
    };
    Ok((name_of(name)?, view, holds != 0))
}
