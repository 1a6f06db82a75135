//! SQLite: guard columns in one statement, and the side table in a transaction.

use std::time::Duration;

use lockkeeper_fence::sql::{Change, Dialect, raise};
use lockkeeper_fence::sqlite::Sqlite;
use lockkeeper_fence::{FenceError, Name, Pass};
use rusqlite::{Connection, Error, TransactionBehavior};

use super::{LOOK, LOOK_BESIDE, Seen, Store, columns, tables, text, writer_of};
use crate::history::Verdict;
use crate::writer::{compared, verdict};

pub(crate) fn prepare(path: &str) {
    let connection = connect(path).unwrap();
    connection
        .execute_batch(&tables(Dialect::Sqlite).join(";"))
        .unwrap();
}

pub(crate) fn connect(path: &str) -> Result<Connection, String> {
    let connection = Connection::open(path).map_err(text)?;
    connection
        .busy_timeout(Duration::from_secs(20))
        .map_err(text)?;
    let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL";
    connection.execute_batch(pragmas).map_err(text)?;
    Ok(connection)
}

fn look(connection: &Connection, query: &str) -> Result<Seen, String> {
    let row = connection.query_row(query, [], |row| {
        let (token, claim): (Option<i64>, Option<String>) = (row.get(0)?, row.get(1)?);
        Ok((token, claim, row.get::<_, String>(2)?))
    });
    let (token, claim, value) = row.map_err(text)?;
    let fence = columns(token.unwrap_or(0), &claim.unwrap_or_default());
    Ok((fence, writer_of(&value)))
}

pub(crate) struct Guarded(Connection);

impl Store for Guarded {
    async fn open(target: &str) -> Result<Self, String> {
        connect(target).map(Self)
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        let change = Change::of("resource", "id", 1).set("value = ?", [value]);
        verdict(change.fenced(&mut Sqlite::on(&self.0), pass).await)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        let Ok((fence, _)) = look(&self.0, LOOK) else {
            return Verdict::Unknown;
        };
        if let Some(refused) = compared(pass, fence, pause).await {
            return refused;
        }
        let change = Change::of("resource", "id", 1)
            .set("value = ?", [value])
            .set("fence_token = ?", [pass.token().get().cast_signed()])
            .set("fence_claim = ?", [pass.claim().to_string()]);
        let outcome = change.run(&mut Sqlite::on(&self.0)).await;
        verdict(outcome.map_err(FenceError::Store))
    }

    async fn read(&mut self) -> Result<Seen, String> {
        look(&self.0, LOOK)
    }
}

/// The side table, and a plain row.
pub(crate) struct Side(Connection);

const UPDATE: &str = "UPDATE resource SET value = ? WHERE id = 1";

impl Side {
    async fn try_write(&mut self, pass: &Pass, value: &str) -> Result<(), FenceError<Error>> {
        let immediate = TransactionBehavior::Immediate;
        let transaction = self
            .0
            .transaction_with_behavior(immediate)
            .map_err(FenceError::Store)?;
        let name = Name::new("resource").unwrap();
        raise(&mut Sqlite::on(&transaction), &name, pass).await?;
        transaction
            .execute(UPDATE, [value])
            .map_err(FenceError::Store)?;
        transaction.commit().map_err(FenceError::Store)
    }

    /// The comparison in one transaction, the write in another.
    async fn try_in_two(
        &mut self,
        pass: &Pass,
        (value, pause): (&str, Duration),
    ) -> Result<(), FenceError<Error>> {
        let name = Name::new("resource").unwrap();
        raise(&mut Sqlite::on(&self.0), &name, pass).await?;
        // Long, so that what stands is seen before the next write covers it.
        tokio::time::sleep(8 * pause).await;
        self.0
            .execute(UPDATE, [value])
            .map(drop)
            .map_err(FenceError::Store)
    }
}

impl Store for Side {
    async fn open(target: &str) -> Result<Self, String> {
        connect(target).map(Self)
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        verdict(self.try_write(pass, value).await)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        verdict(self.try_in_two(pass, (value, pause)).await)
    }

    async fn read(&mut self) -> Result<Seen, String> {
        look(&self.0, LOOK_BESIDE)
    }
}
