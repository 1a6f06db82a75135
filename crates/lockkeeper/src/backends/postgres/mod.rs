//! `postgres://host/database`: the lists live in two small tables of a PostgreSQL server, 14 or later.
//!
//! # Lease mode, the usual one
//!
//! A name is a row of `lockkeeper_names`. A claim that is alone stands in that row, with its end by the server's clock, its
//! owner and its number; where there are more, each is a row of `lockkeeper_claims`. Whoever changes a list writes
//! the name's row in the same statement, so changes of one list come one after the other. **Every statement is a transaction of its own**: nothing is ever locked while the server
//! waits for a client, so a process that stops, or a link that goes dead, holds nobody up.
//!
//! A claim that is alone enters and leaves by one statement each, guarded so that it does nothing if there is
//! anybody else. Otherwise the list is read, the rule decides here, and one statement writes the outcome if the name's
//! row has the version that was read. Whoever comes to hold is told by `NOTIFY`, in the same transaction, and need
//! not ask. A keeper has one connection that listens, and one to `connections` for statements.
//!
//! Claims whose lease has ended are taken out by whoever passes by, and by `lockkeeper gc`.
//!
//! # Session mode, `?mode=session`
//!
//! The lock is an advisory lock of the server, on a connection that belongs to one claim: waiters wait in the server, and
//! whoever's connection ends is free of everything at once. The key is 64 bits of the name's SHA-256; the name stands in a
//! row beside it, and two names of one key are refused. Who holds stands in that row too, if it did not have to wait. The number is taken while the lock is held, in the statement
//! that takes it, and is committed before the holder is told. Whoever is paused is ended by the server after a lease
//! of silence (`idle_session_timeout`); a holder whose connection ends is told at once. Each claim, waiting or holding, costs a
//! connection: `connections` bounds them. Semaphores need lease mode.
//!
//! # Rights
//!
//! The tables are made by `lockkeeper init --on URL`, or at the first connect where the user may. `--print` shows the
//! statements, and what a user who takes locks has to be granted: rights on these tables, nothing else.
//!
//! # Reading the tables
//!
//! ```sql
//! SELECT name, order_no, mode, label, host, pid, granted_at, ends_at FROM lockkeeper_locks ORDER BY name, order_no;
//! ```
//!
//! `lockkeeper_locks` is a view that shows who holds and who waits, wherever it stands.
//!
//! # What to know before relying on it
//!
//! - Numbers come from a sequence, for a row that nobody has written since: of two claims of one name the later
//!   has the higher. A committed number is on the disk first: sessions turn `synchronous_commit` on where it is off.
//! - Leases end by the server's wall clock. A step forward ends them early; holders learn it at their next renewal.
//!   After a step back, a claim that has more left than its whole lease gets one lease, and no more.
//! - A pooler in transaction mode is refused: it would give notifications and session locks to somebody else.

mod client;
mod config;
mod doctor;
mod ear;
mod faults;
mod lease;
mod schema;
mod seat;
mod session;
mod sitter;
mod wire;

use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

pub use config::Config;
pub use schema::{init, script};

use self::client::Links;
use self::doctor::Examined;
use self::ear::{Attached, Ear};
use self::faults::Fault;
use self::lease::LeaseBackend;
use self::session::{House, SessionBackend};
use crate::backend::{Backend, Bell};
use crate::backends::sql::config::Kind;
use crate::backends::sql::used::Used;
use crate::error::Error;
use crate::lifecycle::deadline::Clock;

const BACKEND: &str = "postgres";

/// Connects, for one keeper.
///
/// # Errors
/// [`Error::Unreachable`] when the server does not answer, [`Error::Denied`] when it does not let us in or does not
/// let us use the tables, [`Error::Refused`] when it is a standby, too old, behind a pooler, or has other tables.
///
/// # Cancel safety
/// Cancel safe: nothing but missing tables is made before it returns.
pub async fn connect(config: &Config, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    match config.shared.kind {
        Kind::Lease => Ok(Arc::new(lease(config).await?)),
        Kind::Session => Ok(Arc::new(session(config, clock).await?)),
    }
}

/// Takes out what has died, and names that nobody uses; tells how many claims and names went.
///
/// # Errors
/// As of [`connect`].
///
/// # Cancel safety
/// Cancel safe: it goes list by list.
pub async fn gc(config: &Config) -> Result<(u64, u64), Error> {
    match config.shared.kind {
        Kind::Lease => lease(config).await?.sweep().await,
        Kind::Session => {
            let clock = Clock::system();
            session(config, clock).await?.sweep().await
        }
    }
}

async fn lease(config: &Config) -> Result<LeaseBackend, Error> {
    let Connected {
        bell,
        channel,
        listening,
        links,
        examined,
    } = Connected::to(config, &lease::TEXTS).await?;
    Ok(LeaseBackend {
        links,
        ear: Ear::keep(config, channel, bell.clone(), listening),
        used: Used::default(),
        bell,
        guarantees: doctor::lease_guarantees(&examined),
        place: config.place(),
    })
}

async fn session(config: &Config, clock: Clock) -> Result<SessionBackend, Error> {
    let connected = Connected::to(config, &session::TEXTS).await?;
    let house = Arc::new(House {
        config: config.clone(),
        clock,
        links: connected.links,
        bell: connected.bell,
        spare: Mutex::default(),
        opening: Semaphore::new(1),
        seated: Mutex::default(),
        used: Used::default(),
    });
    Ok(SessionBackend {
        house,
        guarantees: doctor::session_guarantees(&connected.examined),
        place: config.place(),
    })
}

/// Connections to a server that was examined.
struct Connected {
    bell: Bell,
    channel: String,
    listening: Attached,
    links: Links,
    examined: Examined,
}

impl Connected {
    async fn to(config: &Config, texts: &[&'static str]) -> Result<Self, Error> {
        let bell = Bell::default();
        let channel = ear::channel()?;
        let (listening, links) = tokio::join!(
            ear::attach(config, &channel, &bell),
            Links::open(config, texts)
        );
        let links = links?;
        // First, on a connection that does not listen: a standby lets nobody, and does not say why in these words.
        let examined = doctor::examine(&links.any().await?.client, config).await?;
        let listening = listening?;
        match doctor::check_tables(&listening.client, config).await {
            Err(Fault::NoTables(_)) if config.shared.create => {
                schema::make(&listening.client, config).await?;
                doctor::check_tables(&listening.client, config).await?;
            }
            checked => checked?,
        }
        doctor::check_sessions(&links.any().await?.client, &listening.client).await?;
        Ok(Self {
            bell,
            channel,
            listening,
            links,
            examined,
        })
    }
}
