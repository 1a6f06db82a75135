//! The wire: a bounded set of connections. What runs on one goes on to its end, also if its caller goes away, so nobody
//! leaves half an answer behind for the next one.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use mysql_async::prelude::{Queryable, StatementLike};
use mysql_async::{Conn, Opts, Row, Statement};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::faults::{Fault, silent, sort, unreachable};
use super::text::Value;
use crate::lifecycle::deadline::{Clock, Moment};

/// How long connecting may take, and a job on a connection.
const PATIENCE: Duration = Duration::from_secs(5);
/// Making tables takes longer on a busy machine.
const LONG_PATIENCE: Duration = Duration::from_secs(60);
/// How long a connection may rest: half of what the server allows. On MariaDB, whose versions begin with 10, that is longer
/// than the pause between the renewals of a usual lease, so that these need no new connections.
fn longest_rest(conn: &Conn) -> Duration {
    match conn.server_version() {
        (10.., _, _) => Duration::from_secs(15),
        _ => Duration::from_secs(5),
    }
}

/// How often a job is begun anew that others were in the way of.
const TRIES: u32 = 20;

/// A few connections to one server, made when they are needed.
pub(super) struct Client {
    opts: Opts,
    /// How long a job on a connection may take.
    patience: Duration,
    turns: Semaphore,
    clock: Clock,
    /// Each with the time since when it rests.
    idle: Mutex<Vec<(Link, Moment)>>,
}

/// A connection, with the statements that are prepared on it. The client keeps them too, but would read the whole text for each use.
pub(super) struct Link {
    conn: Conn,
    prepared: Vec<(Arc<str>, Statement)>,
}

impl Deref for Link {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl DerefMut for Link {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }
}

impl Link {
    fn new(conn: Conn) -> Self {
        Self {
            conn,
            prepared: Vec::new(),
        }
    }

    /// The statement, prepared on this connection; the same text is the same piece of memory.
    async fn prepared(&mut self, text: &Arc<str>) -> Result<Statement, mysql_async::Error> {
        let mut known = self.prepared.iter();
        if let Some((_, statement)) = known.find(|(known, _)| Arc::ptr_eq(known, text)) {
            return Ok(statement.clone());
        }
        let statement = Box::pin(self.conn.prep(&**text)).await?;
        self.prepared.push((text.clone(), statement.clone()));
        Ok(statement)
    }

    /// Has one prepared statement carried out.
    async fn changed(
        &mut self,
        text: &Arc<str>,
        values: Vec<mysql_async::Value>,
        during: &str,
    ) -> Result<Told, Fault> {
        let statement = self.prepared(text).await;
        let statement = statement.map_err(|error| sort(error, during))?;
        changed(&mut self.conn, &statement, values, during).await
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// What one statement of a packet told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) affected: u64,
    pub(super) insert_id: u64,
    pub(super) rows: Vec<Row>,
}

impl Client {
    pub(super) fn new(opts: Opts, connections: usize) -> Self {
        Self {
            opts,
            patience: PATIENCE,
            turns: Semaphore::new(connections),
            // The server's own time-outs are meant, which no test sets.
            clock: Clock::system(),
            idle: Mutex::default(),
        }
    }

    /// For what takes its time, and nobody waits for a lock meanwhile.
    pub(super) fn patient(self) -> Self {
        Self {
            patience: LONG_PATIENCE,
            ..self
        }
    }

    /// A connection of its own, for whoever keeps it.
    pub(super) async fn open(&self, during: &str) -> Result<Conn, Fault> {
        match timeout(PATIENCE, Conn::new(self.opts.clone())).await {
            Ok(opened) => opened.map_err(|error| sort(error, during)),
            Err(_) => Err(Fault::Told(silent(during, PATIENCE))),
        }
    }

    /// Sends a packet of statements and gives what they told.
    pub(super) async fn ask(
        self: &Arc<Self>,
        during: &'static str,
        packet: String,
    ) -> Result<Vec<Told>, Fault> {
        self.run(during, move |conn| {
            let packet = packet.clone();
            Box::pin(async move { asked(conn, packet, during).await })
        })
        .await
    }

    /// Has one prepared statement carried out that gives no rows.
    pub(super) async fn change(
        self: &Arc<Self>,
        during: &'static str,
        statement: &Arc<str>,
        values: &[Value<'_>],
    ) -> Result<Told, Fault> {
        let statement = statement.clone();
        let values: Vec<_> = values
            .iter()
            .copied()
            .map(mysql_async::Value::from)
            .collect();
        self.carry(during, move |link| {
            let (statement, values) = (statement.clone(), values.clone());
            Box::pin(async move { link.changed(&statement, values, during).await })
        })
        .await
    }

    /// Runs a job of one statement, to its end: also when the caller is gone. The server ends it by itself, so it may be
    /// left to a caller who is slow to look after it, which costs less than a task.
    async fn carry<T, J>(self: &Arc<Self>, during: &'static str, job: J) -> Result<T, Fault>
    where
        T: Send + 'static,
        J: for<'c> Fn(&'c mut Link) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync + 'static,
    {
        let client = self.clone();
        Carried::new(async move { client.run_here(during, &job).await }).await
    }

    /// Runs a job on one of the connections, to its end: also when the caller is gone.
    pub(super) async fn run<T, J>(
        self: &Arc<Self>,
        during: &'static str,
        job: J,
    ) -> Result<T, Fault>
    where
        T: Send + 'static,
        J: for<'c> Fn(&'c mut Link) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync + 'static,
    {
        let client = self.clone();
        let task = tokio::spawn(async move { client.run_here(during, &job).await });
        let ended = task.await;
        ended.unwrap_or_else(|_| Err(Fault::Told(unreachable(during))))
    }

    async fn run_here<T, J>(&self, during: &'static str, job: &J) -> Result<T, Fault>
    where
        J: for<'c> Fn(&'c mut Link) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync,
    {
        let mut tried = 0;
        loop {
            let told = self.attempt(during, job).await;
            tried += 1;
            match told {
                // Two who were in each other's way would be so again at once.
                Err(Fault::Again(_)) if tried < TRIES => {
                    sleep(Duration::from_millis(tried.into())).await
                }
                told => return told,
            }
        }
    }

    async fn attempt<T, J>(&self, during: &'static str, job: &J) -> Result<T, Fault>
    where
        J: for<'c> Fn(&'c mut Link) -> BoxFuture<'c, Result<T, Fault>> + Send + Sync,
    {
        let _turn = match self.turns.try_acquire() {
            Ok(turn) => turn,
            Err(_) => match timeout(PATIENCE, self.turns.acquire()).await {
                Ok(Ok(turn)) => turn,
                _ => return Err(Fault::Told(silent(during, PATIENCE))),
            },
        };
        // What is rarely done is kept out of the way, in a box: all else is moved about with it.
        let mut link = match self.rested() {
            Some(link) => link,
            None => Link::new(Box::pin(self.open(during)).await?),
        };
        match timeout(self.patience, job(&mut link)).await {
            Ok(Ok(answer)) => {
                self.idle().push((link, self.clock.now()));
                Ok(answer)
            }
            Ok(Err(fault)) => {
                let mut links = vec![link];
                if fault_of_the_link(&fault) {
                    // The others are of the same age; what they were connected to may be gone.
                    links.extend(self.idle().drain(..).map(|(other, _)| other));
                }
                Box::pin(shut_all(links)).await;
                Err(fault)
            }
            Err(_) => {
                Box::pin(shut_all(vec![link])).await;
                Err(Fault::Told(silent(during, self.patience)))
            }
        }
    }

    /// A connection that rests, unless the server is about to end it.
    fn rested(&self) -> Option<Link> {
        let mut stale = Vec::new();
        let rested = loop {
            let Some((link, since)) = self.next_rested() else {
                break None;
            };
            if self.clock.now() - since < longest_rest(&link) {
                break Some(link);
            }
            stale.push(link);
        };
        if !stale.is_empty() {
            tokio::spawn(shut_all(stale));
        }
        rested
    }

    /// The one that rests for the shortest time, for the server knows it best. But one that has done so for half as long as it
    /// may comes first: it would have to be opened anew when next several are needed at once.
    fn next_rested(&self) -> Option<(Link, Moment)> {
        let mut idle = self.idle();
        let (oldest, since) = idle.first()?;
        if self.clock.now() - *since > longest_rest(oldest) / 2 {
            return Some(idle.remove(0));
        }
        idle.pop()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<(Link, Moment)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job that its caller looks after; if the caller goes away, a task of its own does so, to the job's end.
struct Carried<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Carried<T> {
    fn new(job: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(job)))
    }
}

impl<T: Send + 'static> Future for Carried<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(job) = &mut self.0 else {
            return Poll::Pending;
        };
        let polled = job.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Carried<T> {
    fn drop(&mut self) {
        if let (Some(job), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(job);
        }
    }
}

fn fault_of_the_link(fault: &Fault) -> bool {
    matches!(fault, Fault::Told(error) if error.is_unknown())
}

async fn shut_all(links: Vec<Link>) {
    for link in links {
        shut(link.conn).await;
    }
}

/// Closes a connection, whatever is under way on it. Merely dropped, it would wait for what the server still has to say.
pub(super) async fn shut(conn: Conn) {
    let _is_gone_either_way = timeout(Duration::from_secs(1), conn.disconnect()).await;
}

/// Sends a packet of statements on this connection and gives what they told.
pub(super) async fn asked(
    conn: &mut Conn,
    packet: String,
    during: &str,
) -> Result<Vec<Told>, Fault> {
    answers(conn, packet)
        .await
        .map_err(|error| sort(error, during))
}

/// Has one prepared statement carried out on this connection; a text is prepared there the first time.
pub(super) async fn changed(
    conn: &mut Conn,
    statement: impl StatementLike,
    values: Vec<mysql_async::Value>,
    during: &str,
) -> Result<Told, Fault> {
    conn.exec_drop(statement, values)
        .await
        .map_err(|error| sort(error, during))?;
    Ok(Told {
        affected: conn.affected_rows(),
        insert_id: conn.last_insert_id().unwrap_or_default(),
        rows: Vec::new(),
    })
}

/// The same as [`asked`], with the client's own error.
pub(super) async fn answers(
    conn: &mut Conn,
    packet: String,
) -> Result<Vec<Told>, mysql_async::Error> {
    let mut result = conn.query_iter(packet).await?;
    let mut all = Vec::new();
    while result.columns().is_some() {
        let (affected, insert_id) = (result.affected_rows(), result.last_insert_id());
        all.push(Told {
            affected,
            insert_id: insert_id.unwrap_or_default(),
            rows: result.collect().await?,
        });
    }
    // An error of a later statement waits here; unasked, it would be told to whoever uses the connection next.
    result.drop_result().await?;
    Ok(all)
}

/// A row's values, or an answer that cannot be read.
pub(super) fn read<T: mysql_async::prelude::FromRow>(row: Row) -> Result<T, Fault> {
    mysql_async::from_row_opt(row).map_err(|_| {
        Fault::Told(unreachable(
            "reading an answer that is not of the tables' form",
        ))
    })
}

#[cfg(test)]
mod tests {
    use lockkeeper_testbed::MariaDb;

    use super::*;
    use crate::backends::mysql::Config;

    /// One that is stopped within a change, with rows locked, is not waited for as long as one that rests.
    #[tokio::test]
    async fn a_change_may_pause_less_than_a_connection_may_rest() {
        let server = MariaDb::start().unwrap();
        let config = Config::from_url(&server.url()).unwrap();
        let client = Client::new(config.client(), 1);
        let mut conn = client.open("trying").await.unwrap();
        let settings = "SELECT @@wait_timeout, @@idle_transaction_timeout";
        let (rest, pause): (u64, u64) = conn.query_first(settings).await.unwrap().unwrap();
        assert_eq!((rest, pause), (2 * longest_rest(&conn).as_secs(), 10));
    }

    /// Of every transaction of a connection, not only of its first.
    #[tokio::test]
    async fn a_statement_sees_what_was_committed_before_it_began() {
        let server = MariaDb::start().unwrap();
        let config = Config::from_url(&server.url()).unwrap();
        let client = Client::new(config.client(), 1);
        let mut conn = client.open("trying").await.unwrap();
        let settings = "SELECT @@tx_isolation, @@character_set_client, @@time_zone, @@autocommit, @@lock_wait_timeout";
        for _ in 0..2 {
            let told: Option<(String, String, String, u8, u64)> =
                conn.query_first(settings).await.unwrap();
            let (isolation, characters, zone, commits, patience) = told.unwrap();
            assert_eq!(isolation, "READ-COMMITTED");
            assert_eq!((&*characters, &*zone), ("utf8mb4", "+00:00"));
            assert_eq!((commits, patience), (1, 4));
            conn.query_drop("BEGIN; COMMIT").await.unwrap();
        }
    }

    #[tokio::test]
    async fn an_error_of_a_later_statement_is_told_to_its_own_asker() {
        let server = MariaDb::start().unwrap();
        let config = Config::from_url(&server.url()).unwrap();
        let client = Arc::new(Client::new(config.client(), 1));
        for wrong in ["DO 1; NONSENSE", "SELECT 1; DO 1; SELECT * FROM nowhere"] {
            let told = client.ask("trying", wrong.into()).await;
            assert!(told.is_err(), "{wrong}: {told:?}");
        }
        let told = client.ask("trying", "DO 1; SELECT 2; DO 3".into()).await;
        assert_eq!(
            told.unwrap().len(),
            3,
            "the next asker hears its own answers"
        );
    }
}
