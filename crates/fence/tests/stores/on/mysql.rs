//! MySQL and MariaDB: guard columns in one statement, and the side table in a transaction.

use std::time::Duration;

use lockkeeper_fence::mysql::MySql;
use lockkeeper_fence::sql::{Change, Dialect, raise};
use lockkeeper_fence::{FenceError, Name, Pass};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder, TxOpts};

use super::{FORGET, LOOK, LOOK_BESIDE, Seen, Store, columns, tables, text, writer_of};
use crate::history::Verdict;
use crate::writer::{compared, verdict};

pub(crate) const DATABASE: &str = "fences";

pub(crate) fn prepare(server: &lockkeeper_testbed::MariaDb) {
    server.sql(&format!("CREATE DATABASE {DATABASE}")).unwrap();
    for statement in tables(Dialect::MySql) {
        server.sql(&format!("USE {DATABASE}; {statement}")).unwrap();
    }
}

/// As if nobody had ever written.
pub(crate) fn forget(server: &lockkeeper_testbed::MariaDb) {
    for statement in FORGET {
        server.sql(&format!("USE {DATABASE}; {statement}")).unwrap();
    }
}

pub(crate) async fn connect(url: &str) -> Result<Conn, String> {
    let options = OptsBuilder::from_opts(Opts::from_url(url).map_err(text)?);
    let options = options.db_name(Some(DATABASE)).prefer_socket(false);
    Conn::new(options).await.map_err(text)
}

async fn look(connection: &mut Conn, query: &str) -> Result<Seen, String> {
    type Row = (Option<i64>, Option<String>, String);
    let row: Option<Row> = connection.query_first(query).await.map_err(text)?;
    let (token, claim, value) = row.ok_or("no row")?;
    let fence = columns(token.unwrap_or(0), &claim.unwrap_or_default());
    Ok((fence, writer_of(&value)))
}

pub(crate) struct Guarded(Conn);

impl Store for Guarded {
    async fn open(target: &str) -> Result<Self, String> {
        connect(target).await.map(Self)
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        let change = Change::of("resource", "id", 1).set("value = ?", [value]);
        verdict(change.fenced(&mut MySql::on(&mut self.0), pass).await)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        let Ok((fence, _)) = look(&mut self.0, LOOK).await else {
            return Verdict::Unknown;
        };
        if let Some(refused) = compared(pass, fence, pause).await {
            return refused;
        }
        let change = Change::of("resource", "id", 1)
            .set("value = ?", [value])
            .set("fence_token = ?", [pass.token().get().cast_signed()])
            .set("fence_claim = ?", [pass.claim().to_string()]);
        let outcome = change.run(&mut MySql::on(&mut self.0)).await;
        verdict(outcome.map_err(FenceError::Store))
    }

    async fn read(&mut self) -> Result<Seen, String> {
        look(&mut self.0, LOOK).await
    }
}

/// The side table, and a plain row.
pub(crate) struct Side(Conn);

const UPDATE: &str = "UPDATE resource SET value = ? WHERE id = 1";

impl Side {
    async fn try_write(&mut self, pass: &Pass, value: &str) -> Result<(), FenceError<Error>> {
        let transaction = self.0.start_transaction(TxOpts::default()).await;
        let mut transaction = transaction.map_err(FenceError::Store)?;
        let name = Name::new("resource").unwrap();
        let raised = raise(&mut MySql::on(&mut transaction), &name, pass).await;
        if raised.is_err() {
            transaction.rollback().await.map_err(FenceError::Store)?;
            return raised;
        }
        transaction
            .exec_drop(UPDATE, (value,))
            .await
            .map_err(FenceError::Store)?;
        transaction.commit().await.map_err(FenceError::Store)
    }

    /// The comparison in one transaction, the write in another.
    async fn try_in_two(
        &mut self,
        pass: &Pass,
        (value, pause): (&str, Duration),
    ) -> Result<(), FenceError<Error>> {
        let name = Name::new("resource").unwrap();
        raise(&mut MySql::on(&mut self.0), &name, pass).await?;
        // Long, so that what stands is seen before the next write covers it.
        tokio::time::sleep(8 * pause).await;
        self.0
            .exec_drop(UPDATE, (value,))
            .await
            .map_err(FenceError::Store)
    }
}

impl Store for Side {
    async fn open(target: &str) -> Result<Self, String> {
        connect(target).await.map(Self)
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        verdict(self.try_write(pass, value).await)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        verdict(self.try_in_two(pass, (value, pause)).await)
    }

    async fn read(&mut self) -> Result<Seen, String> {
        look(&mut self.0, LOOK_BESIDE).await
    }
}
