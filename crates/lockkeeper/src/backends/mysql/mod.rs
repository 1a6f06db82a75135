//! `mysql://user@host/database`: MySQL and MariaDB keep the lists in two tables, or keep the locks themselves.
//!
//! # Lease mode
//!
//! A claim is a row with an end by the server's clock; the tables are described in the folder of the shared core. Who is
//! alone in a name's list stands in the name's own row, which gives the number too: a free name is taken by one update of one row, and
//! given back by another. As soon as anybody else comes, the list stands among the claims. Everything else locks the name's row,
//! reads the list, lets the rule decide and writes what it says.
//!
//! **Waking.** The server has no push. Each keeper that waits has one connection that sleeps in the server (`SELECT SLEEP(2)`)
//! and holds a session lock named after the keeper. Whoever promotes a claim looks up that lock's connection and ends
//! its statement with `KILL QUERY`, which every user may do to its own connections. Between users it may not: then the sleeper
//! finds out by itself, two seconds later at most.
//!
//! # Session mode
//!
//! `?mode=session`: each claim has a connection of its own, which takes `GET_LOCK`, or waits for it in the server. The server frees
//! it the moment that connection ends. The statement that takes the lock writes a row, whose number is the token. The
//! session's `wait_timeout` is the lease, and the keeper asks for a sign of life at least twice a second: a client that has vanished loses
//! the lock when its lease ends, and a holder whose connection has ended is told within a second. Only exclusive
//! locks; the server decides which waiter is next.
//!
//! # Rights
//!
//! `SELECT`, `INSERT`, `UPDATE`, `DELETE` on the tables with the prefix, nothing else; see `lockkeeper init --print`.
//!
//! # What to know before relying on it
//!
//! - The class is *durable* with `innodb_flush_log_at_trx_commit=1`; a fail-over to a replica may forget the last grants
//!   and numbers.
//! - A step of the server's clock ends leases early (forward), which their holders learn with their next renewal: fence the resource.
//!   Backward, leases last no longer than their length. Session mode is not touched by it.
//! - Galera is refused: its members keep their locks each for itself. In session mode a proxy that hands
//!   connections about is refused too.

mod alone;
mod breaking;
mod client;
mod config;
mod decide;
mod doctor;
mod doorbell;
mod faults;
mod lease;
mod pinned;
mod places;
mod renewing;
mod schema;
mod session;
mod taking;
mod task;
mod text;

use std::sync::Arc;
use std::time::Duration;

pub use config::Config;
pub use schema::{gc, init, script};

use self::client::Client;
use self::doctor::Examined;
use self::faults::Fault;
use self::lease::Lease;
use self::session::Session;
use crate::backend::Backend;
use crate::error::Error;
use crate::guarantees::{Class, DeadAfter, Guarantees, Modes, Order};
use crate::lifecycle::deadline::Clock;

const BACKEND: &str = "mysql";

/// Connects, for one keeper; makes the tables if they are missing and may be made.
///
/// # Errors
/// [`Error::Unreachable`] when the server does not answer, [`Error::Denied`] when it does not let us in or is not
/// trusted, [`Error::Refused`] when it cannot keep locks or the tables are others.
///
/// # Cancel safety
/// Cancel safe: a dropped call leaves no connection.
pub async fn connect(config: &Config, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    let client = Arc::new(Client::new(config.client(), config.common()));
    let examined = doctor::examine(&client, config).await?;
    match doctor::check_tables(&client, config).await {
        Err(Fault::NoTables(_)) if config.shared.create => {
            schema::make(config).await?;
            doctor::check_tables(&client, config).await?;
        }
        told => told?,
    }
    let guarantees = guarantees(&examined, config);
    if config.is_session() {
        return Ok(Arc::new(Session::new(client, config, guarantees, clock)));
    }
    Ok(Arc::new(Lease::new(client, config, guarantees)?))
}

fn guarantees(examined: &Examined, config: &Config) -> Guarantees {
    let (class, reason) = match examined.undurable {
        Some(setting) => (
            Class::BestEffort,
            format!(
                "{setting}: after a crash of the machine the last grants and numbers may be forgotten"
            ),
        ),
        None => (
            Class::Durable,
            "one server: a fail-over to a replica may forget the last grants and numbers".into(),
        ),
    };
    let mut caveats = vec![
        "a process that is paused past the end of its lease goes on believing: fence the resource"
            .into(),
        "whoever may write to the tables can break claims".into(),
    ];
    if !examined.encrypted {
        caveats.push("the connection is plain text".into());
    }
    let same = Guarantees {
        class_reason: reason,
        token: "a number in the name's row; it rises as long as the tables are not restored from an older copy".into(),
        ..Guarantees::of(BACKEND, class)
    };
    if config.is_session() {
        caveats.push("who is next of those who wait is for the server to say".into());
        return Guarantees {
            survives: vec![
                "a killed process, holding or waiting",
                "a restart of the server: every lock is free, and every holder is told",
                "a wrong or jumping wall clock, here or there",
            ],
            caveats,
            clock: "the server's monotonic clock for silent connections, and our own boot-time clock",
            order: Order::Chance,
            modes: Modes {
                shared: false,
                permits: false,
            },
            shortest_lease: Duration::from_secs(1),
            dead_after: DeadAfter::ProcessEnd,
            ..same
        };
    }
    caveats.push("a step forward of the server's clock ends leases early".into());
    Guarantees {
        survives: vec![
            "a killed process, holding or waiting",
            "a restart of the server with its data",
            "wrong clocks and time zones of clients",
        ],
        caveats,
        clock: "the server's wall clock, read by the statement that needs it, and our own boot-time clock",
        ..same
    }
}
