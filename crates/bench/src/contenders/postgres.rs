//! What PostgreSQL itself can do, through the client crate that lockkeeper uses: one row written and deleted, the pair
//! of an advisory lock with one committed row, and the hand-over of an advisory lock. Commits wait as lockkeeper's do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::{NoTls, Statement};

use super::{Client, Contender};
use crate::Result;

/// As many connections as a keeper has for statements.
const CONNECTIONS: usize = 4;
/// One transaction, with a lock until its end: two processes that make one table at once fail.
const TABLE: &str = "SELECT pg_advisory_xact_lock(1); \
    CREATE TABLE IF NOT EXISTS bare (name text PRIMARY KEY, value text, ends timestamptz); \
    CREATE TABLE IF NOT EXISTS token (name text PRIMARY KEY, number bigint)";
const TAKE: &str = "INSERT INTO bare VALUES ($1, $2, clock_timestamp() + '30s') ON CONFLICT (name) \
    DO UPDATE SET value = excluded.value, ends = excluded.ends WHERE bare.ends < clock_timestamp()";
const GIVE: &str = "DELETE FROM bare WHERE name = $1 AND value = $2";
const LOCK: &str = "SELECT pg_advisory_lock(hashtextextended($1, 0))";
const UNLOCK: &str = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
const TOKEN: &str = "UPDATE token SET number = number + 1 WHERE name = $1 RETURNING number";

async fn connect(place: &str) -> Result<Arc<tokio_postgres::Client>> {
    let (client, connection) =
        tokio_postgres::connect(&format!("postgres://{place}"), NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("SET synchronous_commit = on").await?;
    client.batch_execute(TABLE).await?;
    Ok(Arc::new(client))
}

/// One row, upserted and deleted.
pub(crate) struct Bare {
    connections: Vec<Arc<tokio_postgres::Client>>,
    next: AtomicUsize,
}

impl Bare {
    pub(super) async fn connect(place: &str) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(connect(place).await?);
        }
        let next = AtomicUsize::new(0);
        Ok(Self { connections, next })
    }
}

impl Client for Bare {
    type Contender = Row;

    async fn contender(&self, name: &str) -> Result<Row> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let client = self.connections[number % CONNECTIONS].clone();
        Ok(Row {
            take: client.prepare(TAKE).await?,
            give: client.prepare(GIVE).await?,
            client,
            name: name.to_owned(),
            value: format!("{:016x}{number:016x}", std::process::id()),
        })
    }
}

pub(crate) struct Row {
    client: Arc<tokio_postgres::Client>,
    take: Statement,
    give: Statement,
    name: String,
    value: String,
}

impl Contender for Row {
    async fn acquire(&mut self) -> Result<()> {
        let written = self
            .client
            .execute(&self.take, &[&self.name, &self.value])
            .await?;
        one(written)
    }

    async fn release(&mut self) -> Result<()> {
        let deleted = self
            .client
            .execute(&self.give, &[&self.name, &self.value])
            .await?;
        one(deleted)
    }
}

fn one(rows: u64) -> Result<()> {
    match rows {
        1 => Ok(()),
        _ => Err("a row of the bare limit is not its own".into()),
    }
}

/// An advisory lock, on a connection for each contender.
pub(crate) struct Advisory {
    place: String,
    /// Whether a row is committed each time, as a token must be.
    with_token: bool,
}

impl Advisory {
    pub(super) fn alone(place: &str) -> Self {
        let place = place.to_owned();
        Self {
            place,
            with_token: false,
        }
    }

    pub(super) fn with_token(place: &str) -> Self {
        let place = place.to_owned();
        Self {
            place,
            with_token: true,
        }
    }
}

impl Client for Advisory {
    type Contender = Pair;

    async fn contender(&self, name: &str) -> Result<Pair> {
        let client = connect(&self.place).await?;
        let make = "INSERT INTO token VALUES ($1, 0) ON CONFLICT DO NOTHING";
        client.execute(make, &[&name]).await?;
        Ok(Pair {
            lock: client.prepare(LOCK).await?,
            unlock: client.prepare(UNLOCK).await?,
            token: match self.with_token {
                true => Some(client.prepare(TOKEN).await?),
                false => None,
            },
            client,
            name: name.to_owned(),
        })
    }
}

pub(crate) struct Pair {
    client: Arc<tokio_postgres::Client>,
    lock: Statement,
    unlock: Statement,
    token: Option<Statement>,
    name: String,
}

impl Contender for Pair {
    async fn acquire(&mut self) -> Result<()> {
        self.client.query_one(&self.lock, &[&self.name]).await?;
        if let Some(token) = &self.token {
            self.client.query_one(token, &[&self.name]).await?;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.client.query_one(&self.unlock, &[&self.name]).await?;
        Ok(())
    }
}
