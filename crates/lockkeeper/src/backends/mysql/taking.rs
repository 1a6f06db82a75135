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
/// What the connection remembers from one statement to the next.
pub(super) const WAITED: &str = "lockkeeper_waited";
pub(super) const GRANTED: &str = "lockkeeper_granted";

impl Task {
    /// Takes the lock if it is free; if it is not, the connection is one to wait on.
    pub(super) async fn take_or_check(&self, conn: &mut Conn) -> Result<Option<u64>, Fault> {
        if !self.shared.used.has(&self.pinned.claim.name) {
            self.meet(conn).await?;
        }
        let taken = self.take(conn).await?;
        // Somebody may have made the tables anew since this keeper met the name.
        if taken.is_none() && !self.check(conn).await? {
            self.meet(conn).await?;
        }
        Ok(taken)
    }

    /// Takes the lock if it is free, by a prepared statement.
    async fn take(&self, conn: &mut Conn) -> Result<Option<u64>, Fault> {
        let claim = &self.pinned.claim;
        let connection = conn.id();
        let (lock, doom) = (self.shared.lock_name(&claim.name), doom(connection));
        let (label, host) = (shortened(&claim.party.label), shortened(&claim.party.host));
        let values = [
            Value::Bytes(lock.as_bytes()),
            Value::Number(lease_us(claim)),
            Value::Text(label),
            Value::Text(host),
            Value::Number(claim.party.pid.into()),
            Value::Bytes(doom.as_bytes()),
            Value::Bytes(lock.as_bytes()),
            Value::Number(connection.into()),
        ];
        let values = values.map(mysql_async::Value::from).into();
        let statement = self.shared.take.as_str();
        taken(bounded(changed(conn, statement, values, DURING)).await)
    }

    /// The statement that takes the lock where it was waited for.
    pub(super) fn taking_waited(&self, connection: u32) -> String {
        let claim = &self.pinned.claim;
        let lock = self.shared.lock_name(&claim.name);
        let (label, host) = (shortened(&claim.party.label), shortened(&claim.party.host));
        let values = [
            Value::Bytes(lock.as_bytes()),
            Value::Variable(WAITED),
            Value::Number(lease_us(claim)),
            Value::Text(label),
            Value::Text(host),
            Value::Number(claim.party.pid.into()),
            Value::Variable(GRANTED),
            Value::Number(connection.into()),
        ];
        fill(&self.shared.take_waited, &values)
    }

    /// The first time that this keeper uses the name: there is a row of it from now on, and what former holders left goes.
    async fn meet(&self, conn: &mut Conn) -> Result<(), Fault> {
        let name = &self.pinned.claim.name;
        let lock = self.shared.lock_name(name);
        let lock = Value::Bytes(lock.as_bytes());
        let values = [lock, Value::Bytes(name.as_str().as_bytes()), lock];
        let packet = self.shared.statement(include_str!("sql/meet.sql"), &values);
        let told = bounded(asked(conn, packet, DURING)).await?;
        for row in told.into_iter().flat_map(|told| told.rows) {
            let (order,): (u64,) = read(row)?;
            self.shared.spent(order).await;
        }
        if self.check(conn).await? {
            self.shared.used.note(name);
        }
        Ok(())
    }

    /// Whether the lock's row is this name's: two names may have one key (bug 81). And whether nobody is about to end this
    /// connection for what it was before: then another one must be used. Says whether there is a row.
    async fn check(&self, conn: &mut Conn) -> Result<bool, Fault> {
        let name = &self.pinned.claim.name;
        let (lock, doom) = (self.shared.lock_name(name), doom(conn.id()));
        let packet = "SELECT IS_FREE_LOCK(?); SELECT name FROM @names WHERE lock_name = ?";
        let values = [Value::Bytes(doom.as_bytes()), Value::Bytes(lock.as_bytes())];
        let packet = self.shared.statement(packet, &values);
        let mut told = bounded(asked(conn, packet, DURING)).await?.into_iter();
        if read::<(i64,)>(first_row(told.next())?)? != (1,) {
            return Err(Fault::Told(unreachable(DOOMED)));
        }
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

/// The number that came with the lock, if it was taken.
pub(super) fn taken(told: Result<Told, Fault>) -> Result<Option<u64>, Fault> {
    match told {
        Ok(told) => Ok(Some(told.insert_id)),
        Err(Fault::Unmet(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}
