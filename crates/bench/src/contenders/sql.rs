//! What an SQL server itself can do, through the client crate that lockkeeper uses: one row written and deleted, the
//! pair of a session lock with one committed row, and the hand-over of a session lock. Each server has its own words.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Client, Contender};
use crate::Result;

/// As many connections as a keeper has for statements.
const CONNECTIONS: usize = 4;

/// What is asked of a server; each must reach one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A row of its own: name, value.
    Take,
    /// Deletes it: name, value.
    Give,
    /// The server's own lock: name.
    Lock,
    Unlock,
    /// A number in a committed row: name.
    Token,
}

/// All of them, in the order of their places among a server's statements.
pub(super) const STEPS: [Step; 5] = [
    Step::Take,
    Step::Give,
    Step::Lock,
    Step::Unlock,
    Step::Token,
];

/// A connection on which lockkeeper's own settings hold and the tables exist.
pub(crate) trait Connection: Sized + Send + Sync + 'static {
    async fn open(place: &str) -> Result<Self>;

    /// Makes the row that numbers of this name come from, if there is none.
    async fn make_token(&self, name: &str) -> Result<()>;

    /// How many rows it reached.
    fn run(&self, step: Step, values: &[&str]) -> impl Future<Output = Result<u64>> + Send;
}

/// Runs a step that must reach one row.
async fn one(connection: &impl Connection, step: Step, values: &[&str]) -> Result<()> {
    match connection.run(step, values).await? {
        1 => Ok(()),
        rows => Err(format!("{step:?} reached {rows} rows instead of its own").into()),
    }
}

/// One row, upserted and deleted.
pub(crate) struct Bare<C> {
    connections: Vec<Arc<C>>,
    next: AtomicUsize,
}

impl<C: Connection> Bare<C> {
    pub(super) async fn connect(place: &str) -> Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(Arc::new(C::open(place).await?));
        }
        let next = AtomicUsize::new(0);
        Ok(Self { connections, next })
    }
}

impl<C: Connection> Client for Bare<C> {
    type Contender = Row<C>;

    async fn contender(&self, name: &str) -> Result<Row<C>> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(Row {
            connection: self.connections[number % CONNECTIONS].clone(),
            name: name.to_owned(),
            value: format!("{:016x}{number:016x}", std::process::id()),
        })
    }
}

pub(crate) struct Row<C> {
    connection: Arc<C>,
    name: String,
    value: String,
}

impl<C: Connection> Contender for Row<C> {
    async fn acquire(&mut self) -> Result<()> {
        one(&*self.connection, Step::Take, &[&self.name, &self.value]).await
    }

    async fn release(&mut self) -> Result<()> {
        one(&*self.connection, Step::Give, &[&self.name, &self.value]).await
    }
}

/// The server's own lock, on a connection for each contender.
pub(crate) struct Sessions<C> {
    place: String,
    /// Whether a row is committed each time, as a token must be.
    with_token: bool,
    kind: std::marker::PhantomData<C>,
}

impl<C> Sessions<C> {
    pub(super) fn alone(place: &str) -> Self {
        Self {
            place: place.to_owned(),
            with_token: false,
            kind: std::marker::PhantomData,
        }
    }

    pub(super) fn with_token(place: &str) -> Self {
        Self {
            with_token: true,
            ..Self::alone(place)
        }
    }
}

impl<C: Connection> Client for Sessions<C> {
    type Contender = Pair<C>;

    async fn contender(&self, name: &str) -> Result<Pair<C>> {
        let connection = C::open(&self.place).await?;
        connection.make_token(name).await?;
        Ok(Pair {
            connection,
            name: name.to_owned(),
            with_token: self.with_token,
        })
    }
}

pub(crate) struct Pair<C> {
    connection: C,
    name: String,
    with_token: bool,
}

impl<C: Connection> Contender for Pair<C> {
    async fn acquire(&mut self) -> Result<()> {
        one(&self.connection, Step::Lock, &[&self.name]).await?;
        match self.with_token {
            true => one(&self.connection, Step::Token, &[&self.name]).await,
            false => Ok(()),
        }
    }

    async fn release(&mut self) -> Result<()> {
        one(&self.connection, Step::Unlock, &[&self.name]).await
    }
}
