//! What the server says about itself: what is refused, and what its promises rest on.

use std::time::Duration;

use tokio_postgres::Client;

use super::BACKEND;
use super::config::Config;
use super::faults::{Fault, pooler, sort, unreachable};
use crate::error::Error;
use crate::guarantees::{Class, DeadAfter, Guarantees, Modes, Order};

/// The oldest server that ends idle sessions and notices vanished clients by itself: 14.
const OLDEST: i32 = 140_000;
/// The version of the tables that this program makes and understands.
const SCHEMA_VERSION: i32 = 2;

const HELLO: &str = "SELECT current_setting('server_version_num')::int, version(), \
    pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', \
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on', \
    current_setting('default_transaction_isolation'), current_setting('server_encoding')";

/// What was found out.
#[derive(Debug, Clone)]
pub(super) struct Examined {
    /// Whether what is committed outlives a crash of the machine.
    durable: bool,
    encrypted: bool,
}

/// Asks the server about itself; what cannot work is refused.
pub(super) async fn examine(client: &Client, config: &Config) -> Result<Examined, Error> {
    let row = client.query_one(HELLO, &[]).await;
    let row = row.map_err(|error| Error::from(sort(error, "connecting")))?;
    let refused = |why: String| {
        Err(Error::Refused {
            backend: BACKEND,
            why,
        })
    };
    let (number, version): (i32, &str) = (row.get(0), row.get(1));
    if number < OLDEST || !version.starts_with("PostgreSQL ") {
        return refused(format!(
            "the server is {version:?}; PostgreSQL 14 or later is needed"
        ));
    }
    if row.get(2) {
        return refused(
            "the server is read-only or a standby: name the primary, or all hosts, in the URL"
                .into(),
        );
    }
    if row.get::<_, &str>(4) != "repeatable read" {
        return Err(pooler("it does not pass settings of the session on"));
    }
    if row.get::<_, &str>(5) != "UTF8" {
        let encoding: &str = row.get(5);
        return refused(format!(
            "the database is encoded in {encoding}, which does not hold every name: use one in UTF8"
        ));
    }
    Ok(Examined {
        durable: row.get(3),
        encrypted: config.shared.tls.is_some(),
    })
}

/// Whether the tables are those of this program and of this mode.
pub(super) async fn check_tables(client: &Client, config: &Config) -> Result<(), Fault> {
    let sql = config.statement("SELECT version, kind FROM @meta");
    let row = client.query_opt(&sql, &[]).await;
    let row = row.map_err(|error| sort(error, "looking at the tables"))?;
    let Some(row) = row else {
        return Err(Fault::NoTables(unreachable(
            "looking at the tables, whose `meta` is empty: run `lockkeeper init --on URL`",
        )));
    };
    let (version, kind): (i32, String) = (row.get(0), row.get(1));
    let refused = |why: String| {
        Err(Fault::Told(Error::Refused {
            backend: BACKEND,
            why,
        }))
    };
    if version != SCHEMA_VERSION {
        return refused(format!(
            "the tables are of version {version}, and this program knows version {SCHEMA_VERSION}: use the program \
             that made them, or another prefix, or bring them up to date as docs/decisions/0044 tells"
        ));
    }
    let wanted = config.shared.kind.as_str();
    if kind != wanted {
        return refused(format!(
            "the tables are for mode={kind}, and locks of mode={wanted} would not see them: set mode={kind}, or \
             another prefix"
        ));
    }
    check_sequence(client, config).await
}

/// Whether every number is higher than those before it: with CACHE above 1 each session has a block of its own.
async fn check_sequence(client: &Client, config: &Config) -> Result<(), Fault> {
    let name = config.statement("@order");
    let sql = "SELECT seqcache, seqincrement, seqcycle FROM pg_sequence WHERE seqrelid = to_regclass($1::text)";
    let row = client.query_opt(sql, &[&name]).await;
    let row = row.map_err(|error| sort(error, "looking at the tables"))?;
    let Some(row) = row else {
        return Err(Fault::NoTables(Error::Refused {
            backend: BACKEND,
            why: format!("the sequence {name} is missing: run `lockkeeper init --on URL`"),
        }));
    };
    let (cache, step, cycles): (i64, i64, bool) = (row.get(0), row.get(1), row.get(2));
    if cache == 1 && step > 0 && !cycles {
        return Ok(());
    }
    Err(Fault::Told(Error::Refused {
        backend: BACKEND,
        why: format!(
            "the sequence {name} has CACHE {cache}, INCREMENT {step} and CYCLE {cycles}, so fencing tokens would not \
             rise: run `ALTER SEQUENCE {name} INCREMENT 1 CACHE 1 NO CYCLE`, then restart every client"
        ),
    }))
}

/// Whether both connections keep their session of the server: through a pooler in transaction mode, one gets the
/// session that the other has just given back (bug 74).
pub(super) async fn check_sessions(one: &Client, two: &Client) -> Result<(), Error> {
    let fault = |error| Error::from(sort(error, "connecting"));
    let (_, first) = tokio::try_join!(one.batch_execute("BEGIN"), pid(one)).map_err(fault)?;
    let second = pid(two).await.map_err(fault)?;
    one.batch_execute("COMMIT").await.map_err(fault)?;
    let (_, second_again) =
        tokio::try_join!(two.batch_execute("BEGIN"), pid(two)).map_err(fault)?;
    let first_again = pid(one).await.map_err(fault)?;
    two.batch_execute("COMMIT").await.map_err(fault)?;
    if (first, second) == (first_again, second_again) {
        Ok(())
    } else {
        Err(pooler(
            "two statements of one connection ran in two sessions",
        ))
    }
}

async fn pid(client: &Client) -> Result<i32, tokio_postgres::Error> {
    let answer = client.query_typed("SELECT pg_backend_pid()", &[]).await?;
    Ok(answer.first().map_or(0, |row| row.get(0)))
}

/// What lease mode promises on this server.
pub(super) fn lease_guarantees(examined: &Examined) -> Guarantees {
    let mut guarantees = common(examined);
    guarantees.caveats.extend([
        "a step of the server's clock forward ends leases early: two may believe to hold until the first renews; \
         fence the resource".into(),
        "a step of it backward keeps the claims of the dead for one more lease".into(),
    ]);
    guarantees
        .survives
        .push("a wrong or jumping clock of this machine");
    guarantees.clock = "the server's wall clock, and our own boot-time clock, whichever ends first";
    guarantees
}

/// What session mode promises on this server.
pub(super) fn session_guarantees(examined: &Examined) -> Guarantees {
    let mut guarantees = common(examined);
    guarantees.caveats.extend([
        "each claim, waiting or holding, takes one connection of the server".into(),
        "when a holder's connection is lost or the server ends, the server grants the lock to the next client at once: \
         there are two holders until the end of the connection reaches the first, which takes a moment, or up to \
         a lease where the network drops packets; only a fence closes this window".into(),
    ]);
    // Not a killed server nor a lost connection: see the caveat.
    guarantees.survives = vec![
        "a killed process, holding or waiting",
        "a wrong or jumping clock, here or there",
    ];
    guarantees.clock =
        "none while the connection lives; then the server's timer for silent sessions";
    guarantees.token = "a sequence, read while the lock is held; it rises as long as the database is not restored from \
                        an older copy"
        .into();
    guarantees.order = Order::Chance;
    guarantees.modes = Modes {
        shared: true,
        permits: false,
    };
    guarantees.dead_after = DeadAfter::ProcessEnd;
    guarantees.shortest_lease = Duration::from_millis(500);
    guarantees
}

pub(super) fn common(examined: &Examined) -> Guarantees {
    let (class, reason) = if examined.durable {
        (Class::Durable, "one server: it does not outlive its disk")
    } else {
        (
            Class::BestEffort,
            "the server runs with fsync or full_page_writes off, so a crash may undo grants: turn both on",
        )
    };
    let mut caveats = vec![
        "a process that is paused past the end of its lease goes on believing: fence the resource"
            .into(),
        "a fail-over to a standby that is not synchronous may undo the last grants and numbers"
            .into(),
        "whoever may write the tables can break claims".into(),
    ];
    if !examined.encrypted {
        caveats.push("the connection is not encrypted".into());
    }
    Guarantees {
        class_reason: reason.into(),
        survives: vec![
            "a killed process, holding or waiting",
            "a killed server that comes back with its data",
            "a terminated or black-holed connection",
        ],
        caveats,
        token: "a sequence, read for a row that nobody wrote since; it rises as long as the database is not restored \
                from an older copy"
            .into(),
        ..Guarantees::of(BACKEND, class)
    }
}
