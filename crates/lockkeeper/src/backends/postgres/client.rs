//! Connections: opened with the settings that the statements rely on, a few of them side by side, each with its
//! statements prepared. Every statement is a transaction of its own, so any connection will do for any.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, NoTls, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::config::{CONNECT_WITHIN, Config};
use super::faults::{Fault, silent, sort, unreachable};
use crate::error::Error;

/// What every session is opened with. A statement sees one moment of the tables, and fails if anything that it
/// touches has changed since: so a statement that waited for a row cannot act on what it read before. Plans are
/// made once, by index, however empty the tables were at that time. No statement outlives its asker for long.
pub(super) const SETTINGS: &str = r"-c default_transaction_isolation=repeatable\ read -c statement_timeout=10s -c idle_in_transaction_session_timeout=10s -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off -c search_path=pg_catalog";
/// A commit that was told must be on the disk: a lost one would be a lock or a number granted twice.
pub(super) const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false) \
                       WHERE current_setting('synchronous_commit') = 'off'";

/// What arrives on a connection unasked; it must be polled for anything to move.
pub(super) type Messages =
    Pin<Box<dyn Stream<Item = Result<AsyncMessage, tokio_postgres::Error>> + Send>>;

/// Opens a connection with these settings, to the first host that accepts it. TCP, TLS and login together have
/// [`CONNECT_WITHIN`] per host: the client library bounds TCP only.
pub(super) async fn open(config: &Config, settings: &str) -> Result<(Client, Messages), Fault> {
    let several = config.shared.hosts.len() > 1;
    let mut last = Fault::Told(unreachable("connecting"));
    for host in &config.shared.hosts {
        let mut wanted = config.client(host, settings);
        if several {
            wanted.target_session_attrs(tokio_postgres::config::TargetSessionAttrs::ReadWrite);
        }
        last = match timeout(CONNECT_WITHIN, open_one(config, &wanted)).await {
            Ok(Ok(opened)) => return Ok(opened),
            Ok(Err(error)) => sort(error, "connecting"),
            Err(_) => Fault::Told(silent("connecting", CONNECT_WITHIN)),
        };
    }
    Err(last)
}

async fn open_one(
    config: &Config,
    wanted: &tokio_postgres::Config,
) -> Result<(Client, Messages), tokio_postgres::Error> {
    match &config.shared.tls {
        None => wanted.connect(NoTls).await.map(|(client, mut connection)| {
            let messages = stream::poll_fn(move |cx| connection.poll_message(cx));
            (client, messages.boxed())
        }),
        Some(tls) => {
            let tls = MakeRustlsConnect::new((*tls.0).clone());
            wanted.connect(tls).await.map(|(client, mut connection)| {
                let messages = stream::poll_fn(move |cx| connection.poll_message(cx));
                (client, messages.boxed())
            })
        }
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
pub(super) struct Owned(AbortHandle);

impl Owned {
    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }

    pub(super) fn end(&self) {
        self.0.abort();
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One connection for statements.
pub(super) struct Link {
    pub(super) client: Client,
    texts: Vec<String>,
    statements: Vec<OnceCell<Statement>>,
    asked: AtomicUsize,
    driver: Owned,
}

impl Link {
    /// Opens a connection for these statements; each is prepared when it is first used.
    async fn open(config: &Config, texts: &[&str]) -> Result<Arc<Self>, Fault> {
        let (client, mut messages) = open(config, SETTINGS).await?;
        let driver = Owned::spawn(async move { while let Some(Ok(_)) = messages.next().await {} });
        let durable = client.batch_execute(DURABLE).await;
        durable.map_err(|error| sort(error, "connecting"))?;
        Ok(Arc::new(Self {
            client,
            texts: texts.iter().map(|text| config.statement(text)).collect(),
            statements: texts.iter().map(|_| OnceCell::new()).collect(),
            asked: AtomicUsize::new(0),
            driver,
        }))
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Ends the connection now; whoever waits for an answer on it is told that there will be none.
    fn break_off(&self) {
        self.driver.end();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.asked.load(Ordering::Relaxed);
        f.debug_struct("Link")
            .field("asked", &asked)
            .finish_non_exhaustive()
    }
}

/// A few connections side by side, opened as they are needed.
#[derive(Debug, Clone)]
pub(super) struct Links(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    config: Config,
    texts: Vec<&'static str>,
    open: Mutex<Vec<Arc<Link>>>,
    /// Held by whoever opens one.
    opening: tokio::sync::Mutex<()>,
}

/// What is asked: for people, and for how long an answer is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    pub(super) during: &'static str,
    pub(super) patience: Duration,
}

impl Question {
    /// One that a lease depends on: within its length there is time for another.
    pub(super) fn within(lease: Duration, during: &'static str) -> Self {
        let (least, most) = (Duration::from_millis(300), Duration::from_secs(5));
        Self {
            during,
            patience: (lease / 3).clamp(least, most),
        }
    }
}

impl Links {
    /// Connections with these statements; the first of them is open.
    pub(super) async fn open(config: &Config, texts: &[&'static str]) -> Result<Self, Error> {
        let first = Link::open(config, texts).await?;
        Ok(Self(Arc::new(Shared {
            config: config.clone(),
            texts: texts.to_vec(),
            open: Mutex::new(vec![first]),
            opening: tokio::sync::Mutex::new(()),
        })))
    }

    /// Any of them.
    pub(super) async fn any(&self) -> Result<Arc<Link>, Error> {
        Ok(self.0.get().await?)
    }

    /// Asks the statement at this place of the texts, on whichever connection has the least to do.
    pub(super) async fn ask(
        &self,
        which: usize,
        values: &[&(dyn ToSql + Sync)],
        question: Question,
    ) -> Result<Vec<Row>, Fault> {
        let Question { during, patience } = question;
        let link = match self.0.at_once() {
            Some(link) => link,
            None => match timeout(patience, self.0.get()).await {
                Ok(link) => link?,
                Err(_) => return Err(Fault::Told(silent(during, patience))),
            },
        };
        match timeout(patience, link.ask(which, values)).await {
            Ok(answer) => answer.map_err(|error| self.0.failed(&link, error, during)),
            Err(_) => {
                // Its answers may still come, but nobody knows when: others must not wait behind it.
                link.break_off();
                Err(Fault::Told(silent(during, patience)))
            }
        }
    }

    /// Runs several statements, without values, as one transaction; tells how many rows the last of them reached.
    pub(super) async fn run(&self, texts: &str, question: Question) -> Result<u64, Fault> {
        let Question { during, patience } = question;
        let link = self.0.get().await?;
        let texts = self.0.config.statement(texts);
        let answer = match timeout(patience, link.client.simple_query(&texts)).await {
            Ok(answer) => answer.map_err(|error| self.0.failed(&link, error, during))?,
            Err(_) => {
                link.break_off();
                return Err(Fault::Told(silent(during, patience)));
            }
        };
        Ok(match answer.last() {
            Some(SimpleQueryMessage::CommandComplete(rows)) => *rows,
            _ => 0,
        })
    }
}

impl Link {
    async fn ask(
        &self,
        which: usize,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let _asked = Asked::of(&self.asked);
        let prepare = || self.client.prepare(&self.texts[which]);
        let statement = self.statements[which].get_or_try_init(prepare).await?;
        self.client.query(statement, values).await
    }
}

impl Shared {
    async fn get(self: &Arc<Self>) -> Result<Arc<Link>, Fault> {
        if let Some(link) = self.at_once() {
            return Ok(link);
        }
        let _opening = self.opening.lock().await;
        if let Some((link, _)) = self.idlest() {
            return Ok(link);
        }
        let link = Link::open(&self.config, &self.texts).await?;
        self.links().push(link.clone());
        Ok(link)
    }

    /// One that is open. If it has much to do, there will be another.
    fn at_once(self: &Arc<Self>) -> Option<Arc<Link>> {
        let (link, busy) = self.idlest()?;
        if busy >= 2 && self.has_room() {
            self.open_another();
        }
        Some(link)
    }

    fn idlest(&self) -> Option<(Arc<Link>, usize)> {
        let mut links = self.links();
        links.retain(|link| !link.is_closed());
        let idlest = links
            .iter()
            .min_by_key(|link| link.asked.load(Ordering::Relaxed));
        idlest.map(|link| (link.clone(), link.asked.load(Ordering::Relaxed)))
    }

    fn has_room(&self) -> bool {
        self.links().len() < self.config.links()
    }

    /// In the background: whoever asks has a connection already.
    fn open_another(self: &Arc<Self>) {
        let shared = self.clone();
        if self.opening.try_lock().is_err() {
            return;
        }
        tokio::spawn(async move {
            let Ok(_opening) = shared.opening.try_lock() else {
                return;
            };
            if let Ok(link) = Link::open(&shared.config, &shared.texts).await
                && shared.has_room()
            {
                shared.links().push(link);
            }
        });
    }

    fn failed(&self, link: &Arc<Link>, error: tokio_postgres::Error, during: &str) -> Fault {
        // The server became a standby: perhaps another host is the one to write to now.
        if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
            link.break_off();
        }
        sort(error, during)
    }

    fn links(&self) -> MutexGuard<'_, Vec<Arc<Link>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a question for as long as it is under way.
struct Asked<'a>(&'a AtomicUsize);

impl<'a> Asked<'a> {
    fn of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
