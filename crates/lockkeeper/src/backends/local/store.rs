//! One keeper's gate, database and counter: opened, checked before every transaction, and made anew
//! when nobody can be harmed by it.

use std::sync::{Arc, OnceLock};

use super::ceiling::{self, BLOCK};
use super::client::Database;
use super::directory::Directory;
use super::faults::{damaged, from_system, unreachable};
use super::gate::{Found, Gate, Locked, Record};
use super::list::{Effects, News, Places, Transaction};
use super::presence::{self, Population, Presence};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;

/// What one keeper has open.
#[derive(Debug)]
pub(super) struct Store {
    gate: Gate,
    ledger: Ledger,
}

/// A finished transaction.
pub(super) type Done<R> = Result<(R, Effects), Error>;

#[derive(Debug)]
struct Ledger {
    directory: Arc<Directory>,
    boot: [u8; 16],
    file: String,
    database: Option<Database>,
    places: Places,
    /// The highest `next` that this process has seen: it must never be lower.
    seen: u64,
}

impl Store {
    pub(super) fn new(directory: Arc<Directory>, boot: [u8; 16]) -> Result<Self, Error> {
        let gate = Gate::open(&directory)?;
        let file = file_name(&boot);
        let ledger = Ledger {
            directory,
            boot,
            file,
            database: None,
            places: Places::new(),
            seen: 0,
        };
        Ok(Self { gate, ledger })
    }

    /// Opens the database if the gate is free.
    pub(super) fn try_open(&mut self, presence: &OnceLock<Presence>) -> Result<(), Error> {
        let locked = self.gate.try_lock();
        match locked.map_err(|errno| self.ledger.gate_fault(errno))? {
            // A gate that is not the right one is the first verb's affair, too.
            Some(locked) if locked.is_current(&self.ledger.directory)? => {
                self.ledger.ready(&locked, presence).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Whether claims of this keeper may be in the lists.
    pub(super) fn has_claims(&self) -> bool {
        !self.ledger.places.is_empty()
    }

    /// Runs the job in a transaction if the gate is free; else gives the job back.
    pub(super) fn try_run<R, J>(
        &mut self,
        at: (&OnceLock<Presence>, Moment),
        job: J,
    ) -> Result<Done<R>, J>
    where
        J: FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    {
        loop {
            let locked = match self.gate.try_lock() {
                Ok(Some(locked)) => locked,
                Ok(None) => return Err(job),
                Err(errno) => return Ok(Err(self.ledger.gate_fault(errno))),
            };
            match self.ledger.trusts(&locked, at.0) {
                Ok(true) => return Ok(self.ledger.run(&locked, at, job)),
                Ok(false) => drop(locked),
                Err(error) => return Ok(Err(error)),
            }
            if let Err(error) = self.reopen_gate() {
                return Ok(Err(error));
            }
        }
    }

    /// Runs the job in a transaction, after waiting for the gate; not if `abandoned` says by then that
    /// nobody wants it any more.
    pub(super) fn run<R, J>(
        &mut self,
        (presence, now): (&OnceLock<Presence>, impl Fn() -> Moment),
        abandoned: impl Fn() -> bool,
        job: J,
    ) -> Option<Done<R>>
    where
        J: FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    {
        loop {
            let locked = match self.gate.lock() {
                Ok(locked) => locked,
                Err(errno) => return Some(Err(self.ledger.gate_fault(errno))),
            };
            // Only now: a job that ran after its owner gave up could come after its own undoing.
            if abandoned() {
                return None;
            }
            match self.ledger.trusts(&locked, presence) {
                Ok(true) => return Some(self.ledger.run(&locked, (presence, now()), job)),
                Ok(false) => drop(locked),
                Err(error) => return Some(Err(error)),
            }
            if let Err(error) = self.reopen_gate() {
                return Some(Err(error));
            }
        }
    }

    /// Lets go of the database without a word to SQLite: in a forked child it is the parent's (bug 90).
    pub(super) fn forget(&mut self) {
        std::mem::forget(self.ledger.database.take());
    }

    fn reopen_gate(&mut self) -> Result<(), Error> {
        self.ledger.database = None;
        self.gate = Gate::open(&self.ledger.directory)?;
        Ok(())
    }
}

impl Ledger {
    /// Whether the gate is the one that all others use. While this keeper shows that it lives, nobody
    /// begins anew with other files, so there is no need to look each time.
    fn trusts(&self, gate: &Locked<'_>, presence: &OnceLock<Presence>) -> Result<bool, Error> {
        match presence.get() {
            Some(_) => Ok(true),
            None => gate.is_current(&self.directory),
        }
    }

    fn run<R, J>(
        &mut self,
        gate: &Locked<'_>,
        (presence, now): (&OnceLock<Presence>, Moment),
        job: J,
    ) -> Done<R>
    where
        J: FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    {
        let mut record = self.ready(gate, presence)?;
        let Some(database) = &self.database else {
            return Err(unreachable("opening the claims"));
        };
        let mut transaction = Transaction {
            directory: &self.directory,
            database,
            gate,
            record: &mut record,
            presence,
            places: &mut self.places,
            now,
            effects: Effects::default(),
            news: News::default(),
        };
        let done = database
            .begin()
            .and_then(|()| job(&mut transaction))
            .and_then(|result| database.commit().map(|()| result));
        let effects = transaction.effects;
        self.seen = self.seen.max(record.next);
        if done.is_ok() {
            for claim in &effects.left {
                self.places.remove(claim);
            }
        }
        if let Err(error) = &done {
            database.roll_back();
            // A connection that met a full or a damaged disk is not used again.
            if error.is_unknown() {
                self.database = None;
            }
        }
        done.map(|result| (result, effects))
    }

    /// Sees to it that the open database is the one that everybody uses.
    fn ready(&mut self, gate: &Locked<'_>, presence: &OnceLock<Presence>) -> Result<Record, Error> {
        let found = gate.read(&self.directory)?;
        let open = self.database.as_ref().map(|database| database.id);
        match found {
            Found::Record(record) if record.boot == self.boot => {
                self.check_count(&record)?;
                if presence.get().is_some() && open == Some(record.database) {
                    return Ok(record);
                }
            }
            _ => {}
        }
        self.look_closely(gate, found, presence)
    }

    fn check_count(&self, record: &Record) -> Result<(), Error> {
        if record.next >= self.seen {
            return Ok(());
        }
        Err(unreachable(format!(
            "reading `gate` in {}, which went back as if restored from a copy (nothing was granted: stop all users of the directory and delete `gate`)",
            self.directory.path.display()
        )))
    }

    /// Compares everything with what stands in the directory, and opens what is not open.
    fn look_closely(
        &mut self,
        gate: &Locked<'_>,
        found: Found,
        presence: &OnceLock<Presence>,
    ) -> Result<Record, Error> {
        let file = self.directory.find(&self.file);
        let file = file.map_err(|e| from_system(&self.directory.path, "finding the claims", e))?;
        let (mut record, file) = match (found, file) {
            (Found::Record(record), Some(file))
                if record.boot == self.boot && file.id == record.database =>
            {
                (record, file)
            }
            (found, _) => return self.begin_anew(gate, found, presence),
        };
        if file.bytes < record.database_bytes {
            return Err(damaged(&self.directory.path, "the claims, cut short"));
        }
        record.database_bytes = file.bytes;
        if self.database.as_ref().map(|database| database.id) == Some(record.database) {
            return Ok(record);
        }
        match ceiling::read(&self.directory)? {
            None => return Err(self.no_ceiling()),
            // An old copy was put back; this boot's counter knows better.
            Some(ceiling) if ceiling < record.ceiling => {
                ceiling::write(&self.directory, record.ceiling)?;
            }
            Some(_) => {}
        }
        // The old one first: SQLite must not have two files under one name open.
        self.database = None;
        let database = Database::open(&self.directory, &self.file)?;
        database.check()?;
        self.database = Some(database);
        Ok(record)
    }

    /// The first use since the machine was started, or after the files were deleted by hand: starts
    /// with no claims and above the ceiling.
    fn begin_anew(
        &mut self,
        gate: &Locked<'_>,
        found: Found,
        presence: &OnceLock<Presence>,
    ) -> Result<Record, Error> {
        self.database = None;
        let directory = &self.directory;
        let me = presence.get().map(|presence| presence.id);
        // Whoever lives may hold something that stood in the files that are gone.
        let (population, dead) = presence::sweep(directory, me)?;
        if population == Population::Somebody {
            return Err(unreachable(format!(
                "opening the claims in {}, whose files were deleted or replaced while processes use them (nothing was granted: stop all users of the directory, then start them again)",
                directory.path.display()
            )));
        }
        let fault = |errno| from_system(&directory.path, "removing old claims", errno);
        let old = directory.claim_files().map_err(fault)?;
        let is_new = found == Found::Nothing && old.is_empty();
        let durable = match ceiling::read(directory)? {
            Some(ceiling) => ceiling,
            None if is_new => 0,
            None => return Err(self.no_ceiling()),
        };
        // Of another boot, or of nobody knows what: its numbers are not above the durable ceiling.
        let counted = match found {
            Found::Record(record) if record.boot == self.boot => record.ceiling,
            _ => 0,
        };
        let highest = durable.max(counted).max(self.seen);
        let next = highest.saturating_add(1);
        let ceiling = highest.saturating_add(BLOCK);
        ceiling::write(directory, ceiling)?;
        for name in &old {
            directory.remove(name).map_err(fault)?;
        }
        for keeper in &dead {
            presence::bury(directory, keeper);
        }
        let database = Database::make(directory, &self.file)?;
        let made = directory.find(&self.file).map_err(fault)?;
        let record = Record {
            boot: self.boot,
            next,
            ceiling,
            database: database.id,
            database_bytes: made.unwrap_or_default().bytes,
        };
        gate.write(directory, &record)?;
        self.database = Some(database);
        self.places.clear();
        Ok(record)
    }

    fn no_ceiling(&self) -> Error {
        unreachable(format!(
            "reading `ceiling` in {}, which is missing, so that tokens could go back (nothing was granted: put the file back; if no resource remembers a token, stop all users and delete the whole directory)",
            self.directory.path.display()
        ))
    }

    fn gate_fault(&self, errno: rustix::io::Errno) -> Error {
        from_system(&self.directory.path, "locking `gate`", errno)
    }
}

/// The name of the database of a boot.
pub(super) fn file_name(boot: &[u8; 16]) -> String {
    format!("claims-{}.db", String::from_utf8_lossy(boot))
}
