//! Taking the lock of a name in session mode, and with it the next number: one statement does both.

use mysql_async::Conn;

use super::BACKEND;
use super::breaking::doom;
use super::client::{Told, asked, changed, read};
use super::decide::lease_us;
use super::doctor::first_row;
use super::faults::{Fault, unreachable};
use super::task::{DURING, Task, bounded};
use super::text::{Value, fill};
use crate::backends::sql::{key, shortened};

const DOOMED: &str = "asking for a lock (an operator ends the connection)";

impl Task {
    /// Takes the lock if it is free; if it is not, the connection is one to wait on.
    pub(super) async fn take_or_check(&self, conn: &mut Conn) -> Result<Option<u64>, Fault> {
        let used = &self.shared.used;
        let name = &self.pinned.claim.name;
        if used.has(name) {
            let taken = self.take_again(conn).await?;
            if taken.is_some() || self.check_name(conn).await? {
                return Ok(taken);
            }
        }
        let taken = self.take(conn).await?;
        if taken.is_some() || self.check_name(conn).await? {
            used.note(name);
        }
        Ok(taken)
    }

    /// Takes the lock if it is free and the name's row is there, by a prepared statement.
    async fn take_again(&self, conn: &mut Conn) -> Result<Option<u64>, Fault> {
        let connection = conn.id();
        let values = self.valued(connection, |values| {
            let values = values.iter().copied();
            values.map(mysql_async::Value::from).collect()
        });
        let statement = self.shared.take_again.as_str();
        let told = bounded(changed(conn, statement, values, DURING)).await?;
        Ok(taken(Some(&told)))
    }

    /// What both statements ask for, `take.sql` and `take_again.sql`.
    fn valued<T>(&self, connection: u32, with: impl FnOnce(&[Value<'_>]) -> T) -> T {
        let claim = &self.pinned.claim;
        let (lock, doom) = (self.shared.lock_name(&claim.name), doom(connection));
        let (label, host) = (shortened(&claim.party.label), shortened(&claim.party.host));
        with(&[
            Value::Number(self.waited),
            Value::Number(connection.into()),
            Value::Number(lease_us(claim)),
            Value::Text(label),
            Value::Text(host),
            Value::Number(claim.party.pid.into()),
            Value::Bytes(lock.as_bytes()),
            Value::Bytes(claim.name.as_str().as_bytes()),
            Value::Bytes(doom.as_bytes()),
            Value::Bytes(lock.as_bytes()),
        ])
    }

    /// Takes the lock if it is free, and the next number with it, in one statement.
    async fn take(&self, conn: &mut Conn) -> Result<Option<u64>, Fault> {
        let told = bounded(asked(conn, self.taking(conn.id()), DURING)).await?;
        match taken(told.first()) {
            // Taken, but the row is another's.
            Some(0) => match self.check_name(conn).await {
                Ok(_) => Err(Fault::Told(unreachable(DURING))),
                Err(fault) => Err(fault),
            },
            taken => Ok(taken),
        }
    }

    /// The statement that takes the lock.
    fn taking(&self, connection: u32) -> String {
        let take =
            |values: &[Value<'_>]| self.shared.statement(include_str!("sql/take.sql"), values);
        self.valued(connection, take)
    }

    /// The statement that takes the lock where it was waited for: by then the name's row is there, unless whoever took it for the
    /// first time has not written it.
    pub(super) fn taking_after(&self, connection: u32) -> String {
        if !self.shared.used.has(&self.pinned.claim.name) {
            return self.taking(connection);
        }
        self.valued(connection, |values| fill(&self.shared.take_again, values))
    }

    /// Whether the lock's row is this name's: two names may have one key (bug 81). And whether nobody is about to end this
    /// connection for what it was before: then another one must be used. Says whether there is a row.
    async fn check_name(&self, conn: &mut Conn) -> Result<bool, Fault> {
        let name = &self.pinned.claim.name;
        let (lock, doom) = (self.shared.lock_name(name), doom(conn.id()));
        let packet = "SELECT IS_FREE_LOCK(?); SELECT name FROM @names WHERE lock_name = ?";
        let values = [Value::Bytes(doom.as_bytes()), Value::Bytes(lock.as_bytes())];
        let packet = self.shared.statement(packet, &values);
        let mut told = bounded(asked(conn, packet, DURING)).await?.into_iter();
        if read::<(i64,)>(first_row(told.next())?)? != (1,) {
            return Err(Fault::Told(unreachable(DOOMED)));
        }
        // Whoever has just taken it for the first time may not have written its name yet.
        let Some(row) = told.flat_map(|told| told.rows).next() else {
            return Ok(false);
        };
        let (found,): (Vec<u8>,) = read(row)?;
        if found == name.as_str().as_bytes() {
            return Ok(true);
        }
        let found = String::from_utf8_lossy(&found);
        Err(Fault::Told(key::collision(BACKEND, name, &found)))
    }
}

/// The number that came with the lock, if it was taken; 0 where its row is another name's.
pub(super) fn taken(told: Option<&Told>) -> Option<u64> {
    told.filter(|told| told.affected > 0)
        .map(|told| told.insert_id)
}
