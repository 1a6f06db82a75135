//! A seat: one connection that belongs to one claim for as long as the claim lives. It goes back to the others only
//! after a release that the server confirmed; after any error, time-out or cancellation it is closed, and the
//! server frees what it held (bugs 75, 76, 77).

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::BACKEND;
use super::client::{DURABLE, SETTINGS, open};
use super::config::Config;
use super::faults::sort;
use super::wire::{self, Columns};
use crate::backend::Entry;
use crate::backends::sql::key;
use crate::backends::sql::used::Used;
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::{Mode, Name};

const TEXTS: [&str; 8] = [
    include_str!("sql/session_enter.sql"),
    include_str!("sql/session_wait.sql"),
    include_str!("sql/session_release.sql"),
    include_str!("sql/session_downgrade.sql"),
    "SELECT",
    include_str!("sql/session_alone.sql"),
    include_str!("sql/session_leave.sql"),
    include_str!("sql/session_settle.sql"),
];
const ENTER: usize = 0;
const WAIT: usize = 1;
const RELEASE: usize = 2;
const DOWNGRADE: usize = 3;
const PING: usize = 4;
const ENTER_ALONE: usize = 5;
const LEAVE_ALONE: usize = 6;
const SETTLE: usize = 7;

/// Waiting in the server takes as long as it takes; a client that vanished meanwhile is noticed soon.
const PATIENT: &str = r"-c statement_timeout=0 -c lock_timeout=0 -c default_transaction_isolation=read\ committed -c client_connection_check_interval=1s -c tcp_keepalives_idle=2 -c tcp_keepalives_interval=1 -c tcp_keepalives_count=3";

/// A session-level lock outlives a statement that failed.
const UNLOCK_ALL: &str = "SELECT pg_catalog.pg_advisory_unlock_all()";
/// How often a new name's row may meet another one of the same name; the second time it is there, unless it was swept.
const CONFLICTS: usize = 5;

/// Between two attempts to end what the server does for a claim.
const CANCEL_AGAIN: Duration = Duration::from_millis(50);

/// Those of one connection, each prepared when it is first used.
type Statements = [OnceCell<Statement>; TEXTS.len()];

/// A connection for one claim at a time.
pub(super) struct Seat {
    client: Arc<Client>,
    statements: Arc<Statements>,
    driver: JoinHandle<()>,
    config: Config,
    /// The server's process for it, once a claim has entered.
    session: i32,
    /// That of the name of the claim that sits here.
    key: i64,
    /// Whether the claim stands in its name's row.
    alone: bool,
    /// The claim that has left, and of which its name's row still tells.
    left: Option<(Name, ClaimId)>,
    /// After so long without a word the server ends the session.
    idle_limit: Duration,
}

/// Where a claim stands after it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seated {
    Holds(u64),
    Waits,
    NotEntered,
}

/// The answer to waiting: the number, or nothing if the claim was broken.
pub(super) type Waiting =
    Pin<Box<dyn Future<Output = Result<Option<u64>, tokio_postgres::Error>> + Send>>;

impl Seat {
    pub(super) async fn open(config: &Config) -> Result<Self, Error> {
        let settings = format!("{SETTINGS} {PATIENT}");
        let (client, mut messages) = open(config, &settings).await?;
        let driver = tokio::spawn(async move { while let Some(Ok(_)) = messages.next().await {} });
        let seat = Self {
            client: Arc::new(client),
            statements: Arc::default(),
            driver,
            config: config.clone(),
            session: 0,
            key: 0,
            alone: false,
            left: None,
            idle_limit: Duration::ZERO,
        };
        let durable = seat.client.batch_execute(DURABLE).await;
        durable.map_err(|error| Error::from(sort(error, "connecting")))?;
        Ok(seat)
    }

    /// The statement at this place of the texts, prepared when it is first used.
    async fn statement(&self, which: usize) -> Result<Statement, tokio_postgres::Error> {
        let prepare = async || {
            let text = self.config.statement(TEXTS[which]);
            self.client.prepare(&text).await
        };
        self.statements[which]
            .get_or_try_init(prepare)
            .await
            .cloned()
    }

    /// The server's process for the claim that sits here.
    pub(super) fn session(&self) -> i32 {
        self.session
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Ends when the connection has.
    pub(super) async fn closed(&mut self) {
        let _how = (&mut self.driver).await;
    }

    /// Asks for the lock without waiting, and writes the row: that of the name, if it is known that there is one and the lock is
    /// free, else one among the claims.
    pub(super) async fn enter(
        &mut self,
        claim: &Claim,
        entry: Entry,
        used: &Used,
    ) -> Result<Seated, Error> {
        self.key = key::of(&self.config.tables(), &claim.name);
        let asking = Asking::of(claim, self.key);
        self.alone = false;
        let limit = self.limit_idleness(claim.lease);
        // Whoever breaks the claim that has left has its row until this session is ended: so nobody who enters is told that it
        // holds before that row was written. One who is alone there writes it anyhow.
        let mut left = self.left.take();
        if claim.mode == Mode::Exclusive && used.has(&claim.name) {
            let elsewhere = left.take_if(|(name, _)| *name != claim.name);
            let (limited, settled, answer) =
                tokio::join!(limit, self.settle(elsewhere), self.enter_alone(&asking));
            limited.and(settled).map_err(failed)?;
            if let Some(row) = answer.map_err(failed)? {
                (self.alone, self.session) = (true, row.get(1));
                return Ok(Seated::Holds(order(row.get(0))));
            }
            // It may have the lock, where the name has no row or another key.
            let (settled, answer) =
                tokio::join!(self.settle(left), self.enter_listed_anew(&asking, entry));
            settled.map_err(failed)?;
            let answer = self.after_conflicts(claim, answer, &asking, entry).await?;
            return Ok(self.seated(claim, answer, used));
        }
        // One flight.
        let (limited, settled, answer) =
            tokio::join!(limit, self.settle(left), self.enter_listed(&asking, entry));
        limited.and(settled).map_err(failed)?;
        let answer = self.after_conflicts(claim, answer, &asking, entry).await?;
        Ok(self.seated(claim, answer, used))
    }

    /// Writes the row of a claim that has left.
    async fn settle(&self, left: Option<(Name, ClaimId)>) -> Result<(), tokio_postgres::Error> {
        let Some((name, id)) = left else {
            return Ok(());
        };
        let (text, id) = (wire::text_of(&name), &id.as_bytes()[..]);
        let statement = self.statement(SETTLE).await?;
        self.client.query(&statement, &[&text, &id]).await.map(drop)
    }

    async fn enter_alone(&self, asking: &Asking<'_>) -> Result<Option<Row>, tokio_postgres::Error> {
        let values: [&(dyn ToSql + Sync); 7] = [
            &asking.name,
            &asking.key,
            &asking.columns.id,
            &asking.columns.lease_us,
            &asking.columns.label,
            &asking.columns.host,
            &asking.columns.pid,
        ];
        let statement = self.statement(ENTER_ALONE).await?;
        self.client.query_opt(&statement, &values).await
    }

    async fn enter_listed(
        &self,
        asking: &Asking<'_>,
        entry: Entry,
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        let queue = entry == Entry::Queue;
        let values: [&(dyn ToSql + Sync); 10] = [
            &asking.name,
            &asking.key,
            &asking.shared,
            &queue,
            &asking.columns.id,
            &asking.columns.mode,
            &asking.columns.lease_us,
            &asking.columns.label,
            &asking.columns.host,
            &asking.columns.pid,
        ];
        let statement = self.statement(ENTER).await?;
        self.client.query_opt(&statement, &values).await
    }

    /// Like [`Self::enter_listed`], for a session that may have the lock from a statement before, which then counts once more.
    async fn enter_listed_anew(
        &self,
        asking: &Asking<'_>,
        entry: Entry,
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        let (unlocked, answer) = tokio::join!(
            self.client.batch_execute(UNLOCK_ALL),
            self.enter_listed(asking, entry)
        );
        unlocked.and(answer)
    }

    /// Repeats the request while its new row of the name conflicts with another one of the same name: the server checks the
    /// name first and the key later, so of two clients that insert one name at the same moment, one violates the key. Only
    /// a row with another name is a collision.
    async fn after_conflicts(
        &self,
        claim: &Claim,
        mut answer: Result<Option<Row>, tokio_postgres::Error>,
        asking: &Asking<'_>,
        entry: Entry,
    ) -> Result<Option<Row>, Error> {
        for _ in 0..CONFLICTS {
            match answer {
                Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {}
                answer => return answer.map_err(failed),
            }
            if let Some(other) = self.name_of_key(asking).await.map_err(failed)?
                && other != asking.name
            {
                return Err(key::collision(BACKEND, &claim.name, &other));
            }
            answer = self.enter_listed_anew(asking, entry).await;
        }
        answer.map_err(failed)
    }

    /// The name whose row has this key.
    async fn name_of_key(
        &self,
        asking: &Asking<'_>,
    ) -> Result<Option<String>, tokio_postgres::Error> {
        let sql = "SELECT name FROM @names WHERE lock_key = $1";
        let sql = self.config.statement(sql);
        let row = self.client.query_opt(&sql, &[&asking.key]).await?;
        Ok(row.map(|row| row.get(0)))
    }

    /// What the answer to entering the list comes to.
    fn seated(&mut self, claim: &Claim, answer: Option<Row>, used: &Used) -> Seated {
        used.note(&claim.name);
        let Some(row) = answer else {
            return Seated::NotEntered;
        };
        self.session = row.get(2);
        match row.get(1) {
            true => Seated::Holds(order(row.get(0))),
            false => Seated::Waits,
        }
    }

    /// Whoever is paused holds for a lease and no longer: the server ends its session then.
    fn limit_idleness(
        &mut self,
        lease: Duration,
    ) -> impl Future<Output = Result<(), tokio_postgres::Error>> + use<> {
        let changed = self.idle_limit != lease;
        self.idle_limit = lease;
        let client = self.client.clone();
        async move {
            if !changed {
                return Ok(());
            }
            let set = format!("SET idle_session_timeout = {}", lease.as_millis().max(1));
            client.batch_execute(&set).await
        }
    }

    /// Waits in the server, as soon as it is polled.
    pub(super) fn wait(&self, claim: &Claim) -> Waiting {
        let (name, key) = (claim.name.clone(), self.key);
        let (shared, id) = (claim.mode == Mode::Shared, claim.id);
        let (client, statements) = (self.client.clone(), self.statements.clone());
        let sql = self.config.statement(TEXTS[WAIT]);
        Box::pin(async move {
            let prepare = || client.prepare(&sql);
            let statement = statements[WAIT].get_or_try_init(prepare).await?;
            let (text, id) = (wire::text_of(&name), &id.as_bytes()[..]);
            let row = client
                .query_opt(statement, &[&text, &key, &shared, &id])
                .await?;
            Ok(row.map(|row| order(row.get(0))))
        })
    }

    /// Makes the server give up waiting. What it did instead, nobody knows: the seat must be closed then.
    pub(super) async fn cancel(&self) {
        let token = self.client.cancel_token();
        let _it_is_closed_anyhow = match &self.config.shared.tls {
            None => token.cancel_query(NoTls).await,
            Some(tls) => {
                let tls = MakeRustlsConnect::new((*tls.0).clone());
                token.cancel_query(tls).await
            }
        };
    }

    /// Makes the server give up this wait. What is cancelled before it has begun begins nevertheless, so it is cancelled
    /// until it ends.
    pub(super) async fn stop(&self, waiting: &mut Waiting) {
        loop {
            self.cancel().await;
            if timeout(CANCEL_AGAIN, &mut *waiting).await.is_ok() {
                return;
            }
        }
    }

    /// Gives the lock back; whether it was there.
    pub(super) async fn release(&mut self, claim: &Claim) -> Result<bool, tokio_postgres::Error> {
        let (key, shared) = (self.key, claim.mode == Mode::Shared);
        if self.alone {
            self.left = Some((claim.name.clone(), claim.id));
            let statement = &self.statement(LEAVE_ALONE).await?;
            let row = self.client.query_one(statement, &[&key, &shared]).await?;
            return Ok(row.get(0));
        }
        let (text, id) = (wire::text_of(&claim.name), &claim.id.as_bytes()[..]);
        let statement = &self.statement(RELEASE).await?;
        let values: [&(dyn ToSql + Sync); 4] = [&text, &key, &shared, &id];
        let row = self.client.query_one(statement, &values).await?;
        Ok(row.get(0))
    }

    /// Turns the exclusive lock into a shared one; whether the claim was there.
    pub(super) async fn downgrade(&self, claim: &Claim) -> Result<bool, tokio_postgres::Error> {
        let (text, key) = (wire::text_of(&claim.name), self.key);
        let id = &claim.id.as_bytes()[..];
        let statement = &self.statement(DOWNGRADE).await?;
        let row = self
            .client
            .query_opt(statement, &[&text, &key, &id])
            .await?;
        Ok(row.is_some_and(|row| row.get(1)))
    }

    /// A word to the server, so that it does not take us for dead; an answer proves that the session lives.
    pub(super) async fn ping(&mut self, lease: Duration) -> Result<(), tokio_postgres::Error> {
        let limit = self.limit_idleness(lease);
        let client = self.client.clone();
        let word = async {
            let statement = self.statement(PING).await?;
            client.query(&statement, &[]).await
        };
        let (limited, answer) = tokio::join!(limit, word);
        limited?;
        answer.map(drop)
    }
}

/// A claim as the statements take it.
struct Asking<'a> {
    name: Cow<'a, str>,
    key: i64,
    shared: bool,
    columns: Columns<'a>,
}

impl<'a> Asking<'a> {
    fn of(claim: &'a Claim, key: i64) -> Self {
        Self {
            name: wire::text_of(&claim.name),
            key,
            shared: claim.mode == Mode::Shared,
            columns: Columns::of(claim),
        }
    }
}

fn failed(error: tokio_postgres::Error) -> Error {
    sort(error, "asking for a lock").into()
}

fn order(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").finish_non_exhaustive()
    }
}
