//! The claims of this boot in SQLite: the connection, the statements, and rows that are checked before
//! they are believed.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, OpenFlags, OptionalExtension, Params, params};

use super::directory::{Directory, FileId};
use super::faults::{damaged, denied, from_sqlite, from_system};
use super::presence::KeeperId;
use crate::backend::ClaimView;
use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;
use crate::{Mode, Name, Token};

/// Pages of the log after which it is written back. Without flushes that is cheap, and the next process
/// that opens the directory alone has to read no more than this.
const LOG_PAGES: u32 = 24;

/// The same for a process that makes many changes, to which writing back would be a twentieth of its
/// work; whoever opens the directory alone after it reads this much, once.
const LONG_LOG_PAGES: u32 = 512;

/// From so many changes on they are many.
const MANY: u32 = 100;

/// How many broken claims are remembered.
const BROKEN_KEPT: u32 = 1000;

/// The longest label, host or reason that is kept, in bytes.
const LONGEST_TEXT: usize = 256;

/// The open database of this boot.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    directory: Arc<Directory>,
    commits: Cell<u32>,
    /// Which file it is.
    pub(super) id: FileId,
}

/// A claim in a list, as far as decisions need it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) order: u64,
    pub(super) id: ClaimId,
    pub(super) mode: Mode,
    pub(super) keeper: KeeperId,
    pub(super) granted: Option<Moment>,
    pub(super) ends: Moment,
}

/// A claim as it enters a list.
#[derive(Debug)]
pub(super) struct NewRow<'a> {
    pub(super) claim: &'a Claim,
    pub(super) order: u64,
    pub(super) keeper: KeeperId,
    pub(super) granted: Option<Moment>,
    pub(super) now: Moment,
}

/// A claim as it is shown.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) name: Name,
    pub(super) keeper: KeeperId,
    pub(super) view: ClaimView,
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT order_no, id, mode, take, out_of, keeper, granted_ns, ends_ns FROM claims ",
            "WHERE name = ?1 ",
            $rest
        )
    };
}

impl Database {
    /// Makes the database of this boot, empty.
    pub(super) fn make(directory: &Arc<Directory>, file: &str) -> Result<Self, Error> {
        let fault = |errno| from_system(&directory.path, "making the claims", errno);
        // SQLite gives its log the permissions of the file that it finds.
        drop(directory.make_file(file).map_err(fault)?);
        let database = Self::open(directory, file)?;
        // Small pages, since a claim is small and each change writes whole pages.
        let made = database
            .connection
            .execute_batch("PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; BEGIN IMMEDIATE;");
        // Out of the log at once: from now on a shorter file is a damaged one.
        let write_back = "PRAGMA wal_checkpoint(TRUNCATE)";
        made.and_then(|()| {
            database
                .connection
                .execute_batch(include_str!("schema.sql"))
        })
        .and_then(|()| {
            let sql = "INSERT INTO clock VALUES (?1)";
            database
                .connection
                .execute(sql, [directory.boottime_offset_ns])
        })
        .and_then(|_| database.connection.execute_batch("COMMIT"))
        .and_then(|()| database.connection.query_row(write_back, [], |_| Ok(())))
        .map_err(|error| database.fault("making the claims", error))?;
        Ok(database)
    }

    /// Opens the database of this boot.
    pub(super) fn open(directory: &Arc<Directory>, file: &str) -> Result<Self, Error> {
        let found = directory.find(file);
        let found = found.map_err(|e| from_system(&directory.path, "finding the claims", e))?;
        let id = found.unwrap_or_default().id;
        let fault = |error| from_sqlite(&directory.path, "opening the claims", error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path: PathBuf = directory.path.join(file);
        let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
        configure(&connection).map_err(fault)?;
        Ok(Self {
            connection,
            directory: directory.clone(),
            commits: Cell::new(0),
            id,
        })
    }

    /// Whether the tables are those of this version, and their times those of this process's clock.
    pub(super) fn check(&self) -> Result<(), Error> {
        let version = self.connection.prepare_cached("PRAGMA user_version");
        let version = version.and_then(|mut get| get.query_row([], |row| row.get::<_, i64>(0)));
        match version.map_err(|error| self.fault("opening the claims", error))? {
            2 => self.check_clock(),
            _ => Err(damaged(&self.directory.path, "the version of the claims")),
        }
    }

    fn check_clock(&self) -> Result<(), Error> {
        let mut select = self.prepare("SELECT boottime_offset_ns FROM clock")?;
        let theirs = select.query_row([], |row| row.get::<_, i64>(0));
        let theirs = theirs.map_err(|error| self.fault("reading the clock", error))?;
        let mine = self.directory.boottime_offset_ns;
        if theirs == mine {
            return Ok(());
        }
        Err(denied(format!(
            "the leases in {} are counted in another time namespace, whose boot-time clock is {:?} away from this one's, so a held lock could seem free: use another directory, or run all its users in one time namespace (to move it here, stop them and delete claims-*.db* in it)",
            self.directory.path.display(),
            Duration::from_nanos(theirs.abs_diff(mine)),
        )))
    }

    /// Begins a transaction as a writer at once: one that reads first could not become a writer later
    /// (bug 90).
    pub(super) fn begin(&self) -> Result<(), Error> {
        if !self.connection.is_autocommit() {
            // Somebody panicked in the middle.
            self.roll_back();
        }
        self.run("BEGIN IMMEDIATE", []).map(drop)
    }

    pub(super) fn commit(&self) -> Result<(), Error> {
        self.run("COMMIT", [])?;
        let commits = self.commits.get().saturating_add(1);
        self.commits.set(commits);
        if commits == MANY {
            let longer = format!("PRAGMA wal_autocheckpoint = {LONG_LOG_PAGES}");
            let _shorter_is_right_too = self.connection.execute_batch(&longer);
        }
        Ok(())
    }

    pub(super) fn roll_back(&self) {
        let _nothing_was_begun = self.connection.execute_batch("ROLLBACK");
    }

    /// Walks along the list of a name from its head, for as long as `each` wants.
    pub(super) fn walk(
        &self,
        name: &Name,
        mut each: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let mut select = self.prepare(select!("ORDER BY order_no"))?;
        let mut walk = || -> rusqlite::Result<()> {
            let mut rows = select.query([name.as_str()])?;
            while let Some(row) = rows.next()? {
                if each(parse(row)?).is_break() {
                    break;
                }
            }
            Ok(())
        };
        walk().map_err(|error| self.fault("reading the claims", error))
    }

    /// The claim at this place of the list.
    pub(super) fn at(&self, name: &Name, order: u64) -> Result<Option<Row>, Error> {
        self.one(
            select!("AND order_no = ?2"),
            params![name.as_str(), number(order)],
        )
    }

    /// The claim with this id, wherever it is in the list.
    pub(super) fn with_id(&self, name: &Name, id: ClaimId) -> Result<Option<Row>, Error> {
        self.one(
            select!("AND id = ?2"),
            params![name.as_str(), id.as_bytes()],
        )
    }

    /// The next claim ahead of this place.
    pub(super) fn before(&self, name: &Name, order: u64) -> Result<Option<Row>, Error> {
        let sql = select!("AND order_no < ?2 ORDER BY order_no DESC LIMIT 1");
        self.one(sql, params![name.as_str(), number(order)])
    }

    /// The next claim behind this place.
    pub(super) fn after(&self, name: &Name, order: u64) -> Result<Option<Row>, Error> {
        let sql = select!("AND order_no > ?2 ORDER BY order_no LIMIT 1");
        self.one(sql, params![name.as_str(), number(order)])
    }

    /// How many claims are ahead of this place, counted up to a thousand.
    pub(super) fn ahead(&self, name: &Name, order: u64) -> Result<usize, Error> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM claims WHERE name = ?1 AND order_no < ?2 LIMIT 1000)";
        let mut select = self.prepare(sql)?;
        let values = params![name.as_str(), number(order)];
        let count = select.query_row(values, |row| row.get::<_, u16>(0));
        let count = count.map_err(|error| self.fault("reading the claims", error))?;
        Ok(usize::from(count))
    }

    pub(super) fn insert(&self, new: &NewRow<'_>) -> Result<(), Error> {
        let (mode, take, of) = columns(new.claim.mode)?;
        let party = &new.claim.party;
        let values = params![
            new.claim.name.as_str(),
            number(new.order),
            new.claim.id.as_bytes(),
            mode,
            take,
            of,
            new.keeper,
            new.granted.map(nanos),
            nanos(new.now + new.claim.lease),
            nanos(new.now),
            shortened(&party.label),
            shortened(&party.host),
            party.pid,
        ];
        self.run(include_str!("insert.sql"), values).map(drop)
    }

    pub(super) fn delete(&self, name: &Name, order: u64) -> Result<(), Error> {
        let sql = "DELETE FROM claims WHERE name = ?1 AND order_no = ?2";
        self.run(sql, params![name.as_str(), number(order)])
            .map(drop)
    }

    /// Deletes the claim if it is the one at this place and has not expired; whether it was.
    pub(super) fn delete_own(&self, claim: &Claim, order: u64, now: Moment) -> Result<bool, Error> {
        let sql =
            "DELETE FROM claims WHERE name = ?1 AND order_no = ?2 AND id = ?3 AND ends_ns > ?4";
        let place = params![
            claim.name.as_str(),
            number(order),
            claim.id.as_bytes(),
            nanos(now)
        ];
        Ok(self.run(sql, place)? == 1)
    }

    /// Deletes what has expired, whatever its name.
    pub(super) fn delete_expired(&self, now: Moment) -> Result<(), Error> {
        let sql = "DELETE FROM claims WHERE ends_ns <= ?1";
        self.run(sql, [nanos(now)]).map(drop)
    }

    /// Deletes all claims of a keeper from the list of a name.
    pub(super) fn delete_keeper(&self, name: &Name, keeper: &KeeperId) -> Result<(), Error> {
        let sql = "DELETE FROM claims WHERE name = ?1 AND keeper = ?2";
        self.run(sql, params![name.as_str(), keeper]).map(drop)
    }

    /// Whether the keeper has claims, whatever their names.
    pub(super) fn has_claims_of(&self, keeper: &KeeperId) -> Result<bool, Error> {
        let mut select = self.prepare("SELECT 1 FROM claims WHERE keeper = ?1 LIMIT 1")?;
        let found = select.exists([keeper]);
        found.map_err(|error| self.fault("reading the claims", error))
    }

    pub(super) fn set_end(&self, name: &Name, order: u64, ends: Moment) -> Result<(), Error> {
        let sql = "UPDATE claims SET ends_ns = ?3 WHERE name = ?1 AND order_no = ?2";
        self.run(sql, params![name.as_str(), number(order), nanos(ends)])
            .map(drop)
    }

    pub(super) fn set_granted(&self, name: &Name, order: u64, now: Moment) -> Result<(), Error> {
        let sql = "UPDATE claims SET granted_ns = ?3 WHERE name = ?1 AND order_no = ?2";
        self.run(sql, params![name.as_str(), number(order), nanos(now)])
            .map(drop)
    }

    pub(super) fn set_shared(&self, name: &Name, order: u64) -> Result<(), Error> {
        let sql = "UPDATE claims SET mode = 1 WHERE name = ?1 AND order_no = ?2";
        self.run(sql, params![name.as_str(), number(order)])
            .map(drop)
    }

    /// Remembers that an operator breaks this claim.
    pub(super) fn record_break(
        &self,
        name: &Name,
        order: u64,
        (why, now): (&str, Moment),
    ) -> Result<(), Error> {
        let values = params![nanos(now), shortened(why), name.as_str(), number(order)];
        self.run(include_str!("break.sql"), values)?;
        let sql = "DELETE FROM broken WHERE number <= (SELECT max(number) FROM broken) - ?1";
        self.run(sql, [BROKEN_KEPT]).map(drop)
    }

    /// All claims of one name or of all, in the order of names and lists.
    pub(super) fn show(&self, only: Option<&Name>, now: Moment) -> Result<Vec<Shown>, Error> {
        let sql = "SELECT order_no, id, mode, take, out_of, keeper, granted_ns, ends_ns, name, entered_ns, label, host, pid FROM claims WHERE ?1 IS NULL OR name = ?1 ORDER BY name, order_no";
        let one = "SELECT order_no, id, mode, take, out_of, keeper, granted_ns, ends_ns, name, entered_ns, label, host, pid FROM claims WHERE name = ?1 ORDER BY order_no";
        let mut select = self.prepare(if only.is_some() { one } else { sql })?;
        let mut show = || -> rusqlite::Result<Vec<Shown>> {
            let rows = select.query_map([only.map(Name::as_str)], |row| show_row(row, now))?;
            rows.collect()
        };
        show().map_err(|error| self.fault("reading the claims", error))
    }

    fn one(&self, sql: &str, values: impl Params) -> Result<Option<Row>, Error> {
        let mut select = self.prepare(sql)?;
        let row = select.query_row(values, parse).optional();
        row.map_err(|error| self.fault("reading the claims", error))
    }

    fn run(&self, sql: &str, values: impl Params) -> Result<usize, Error> {
        let mut statement = self.prepare(sql)?;
        let done = statement.execute(values);
        done.map_err(|error| self.fault("writing the claims", error))
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, Error> {
        let prepared = self.connection.prepare_cached(sql);
        prepared.map_err(|error| self.fault("opening the claims", error))
    }

    fn fault(&self, during: &str, error: rusqlite::Error) -> Error {
        from_sqlite(&self.directory.path, during, error)
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(32);
    // Plans must not depend on bound values: else each use of a cached statement plans it anew, which
    // costs more than the transaction.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The log is never deleted: a process that lost its file locks by closing another descriptor of
    // the file (bug 88) would go on writing into a deleted one. Closing is quick, too.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    // Nothing that somebody may have planted in the file runs here.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // The gate keeps writers apart; only a first opener that restores the log is waited for.
    connection.busy_timeout(Duration::from_secs(1))?;
    // No flush: locks die with the machine, and a file of an earlier boot is never read.
    connection.execute_batch(&format!(
        "PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = {LOG_PAGES};"
    ))
}

fn parse(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        order: unsigned(row, 0)?,
        id: ClaimId::from_bytes(row.get(1)?),
        mode: mode(row)?,
        keeper: row.get(5)?,
        granted: match row.get::<_, Option<i64>>(6)? {
            Some(_) => Some(Moment::from_nanos(unsigned(row, 6)?)),
            None => None,
        },
        ends: Moment::from_nanos(unsigned(row, 7)?),
    })
}

fn show_row(row: &rusqlite::Row<'_>, now: Moment) -> rusqlite::Result<Shown> {
    let parsed = parse(row)?;
    let wrong = |column| rusqlite::Error::IntegralValueOutOfRange(column, 0);
    let since = match parsed.granted {
        Some(granted) => granted,
        None => Moment::from_nanos(unsigned(row, 9)?),
    };
    Ok(Shown {
        name: Name::new(row.get::<_, String>(8)?).map_err(|_| wrong(8))?,
        keeper: parsed.keeper,
        view: ClaimView {
            token: Token::new(parsed.order, 0).map_err(|_| wrong(0))?,
            mode: parsed.mode,
            party: Party {
                label: row.get(10)?,
                host: row.get(11)?,
                pid: row.get(12)?,
            },
            since: now - since,
            lease_left: parsed.ends - now,
        },
    })
}

fn mode(row: &rusqlite::Row<'_>) -> rusqlite::Result<Mode> {
    let kind: i64 = row.get(2)?;
    let wrong = || rusqlite::Error::IntegralValueOutOfRange(2, kind);
    match kind {
        0 => Ok(Mode::Exclusive),
        1 => Ok(Mode::Shared),
        2 => Mode::permits(row.get(3)?, row.get(4)?).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

fn columns(mode: Mode) -> Result<(u8, u32, u32), Error> {
    match mode {
        Mode::Exclusive => Ok((0, 0, 0)),
        Mode::Shared => Ok((1, 0, 0)),
        Mode::Permits { take, of } => Ok((2, take, of)),
        mode => Err(Error::Refused {
            backend: super::BACKEND,
            why: format!("it does not know the mode {mode}"),
        }),
    }
}

fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

fn number(order: u64) -> i64 {
    i64::try_from(order).unwrap_or(i64::MAX)
}

fn nanos(moment: Moment) -> i64 {
    number(moment.nanos())
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}
