//! Looking without the gate: it also answers while a stopped process has the gate, which is when
//! people ask who holds what.

use std::collections::HashMap;
use std::sync::Arc;

use super::client::{Database, Shown};
use super::directory::Directory;
use super::faults::from_system;
use super::presence::{self, KeeperId};
use super::store::file_name;
use crate::backend::{LockView, Query};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;
use crate::rule::{Verdict, Walk};

/// A connection that only reads, opened when it is first needed.
#[derive(Debug)]
pub(super) struct Reader {
    directory: Arc<Directory>,
    file: String,
    database: Option<Database>,
}

impl Reader {
    pub(super) fn new(directory: Arc<Directory>, boot: [u8; 16]) -> Self {
        let file = file_name(&boot);
        Self {
            directory,
            file,
            database: None,
        }
    }

    /// Who holds, who waits; without the dead.
    pub(super) fn inspect(&mut self, query: &Query, now: Moment) -> Result<Vec<LockView>, Error> {
        let only = match query {
            Query::One(name) => Some(name),
            Query::All => None,
        };
        let Some(database) = self.open()? else {
            return Ok(Vec::new());
        };
        let mut shown = database.show(only, now)?;
        let mut lives: HashMap<KeeperId, bool> = HashMap::new();
        shown.retain(|claim| {
            let ask = || presence::is_alive(&self.directory, &claim.keeper);
            !claim.view.lease_left.is_zero() && *lives.entry(claim.keeper).or_insert_with(ask)
        });
        Ok(group(shown))
    }

    /// Lets go of the database without a word to SQLite: in a forked child it is the parent's.
    pub(super) fn forget(&mut self) {
        std::mem::forget(self.database.take());
    }

    fn open(&mut self) -> Result<Option<&Database>, Error> {
        let found = self.directory.find(&self.file);
        let found =
            found.map_err(|e| from_system(&self.directory.path, "finding the claims", e))?;
        let Some(found) = found else {
            self.database = None;
            return Ok(None);
        };
        if self
            .database
            .as_ref()
            .is_none_or(|database| database.id != found.id)
        {
            self.database = None;
            let database = Database::open(&self.directory, &self.file)?;
            database.check()?;
            self.database = Some(database);
        }
        Ok(self.database.as_ref())
    }
}

fn group(shown: Vec<Shown>) -> Vec<LockView> {
    let mut views: Vec<LockView> = Vec::new();
    let mut walk = Walk::default();
    for claim in shown {
        if views.last().is_none_or(|view| view.name != claim.name) {
            walk = Walk::default();
            views.push(LockView {
                name: claim.name,
                holders: Vec::new(),
                waiters: Vec::new(),
            });
        }
        let verdict = walk.next(claim.view.mode);
        if let Some(view) = views.last_mut() {
            match verdict {
                Verdict::Holds => view.holders.push(claim.view),
                Verdict::Waits => view.waiters.push(claim.view),
            }
        }
    }
    views
}
