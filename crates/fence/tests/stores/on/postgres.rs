//! PostgreSQL: guard columns in one statement, and the side table in a transaction.

use std::time::Duration;

use lockkeeper_fence::postgres::Postgres;
use lockkeeper_fence::sql::{Change, Dialect, raise};
use lockkeeper_fence::{FenceError, Name, Pass};
use tokio_postgres::{Client, NoTls};

use super::{FORGET, LOOK, LOOK_BESIDE, Seen, Store, columns, tables, text, writer_of};
use crate::history::Verdict;
use crate::writer::{compared, verdict};

pub(crate) fn prepare(server: &lockkeeper_testbed::Postgres) {
    for statement in tables(Dialect::Postgres) {
        server.sql(&statement).unwrap();
    }
}

/// As if nobody had ever written.
pub(crate) fn forget(server: &lockkeeper_testbed::Postgres) {
    for statement in FORGET {
        server.sql(statement).unwrap();
    }
}

pub(crate) async fn connect(url: &str) -> Result<Client, String> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(text)?;
    tokio::spawn(connection);
    Ok(client)
}

async fn look(client: &Client, query: &str) -> Result<Seen, String> {
    let row = client.query_one(query, &[]).await.map_err(text)?;
    let token: Option<i64> = row.get(0);
    let claim: Option<String> = row.get(1);
    let fence = columns(token.unwrap_or(0), &claim.unwrap_or_default());
    Ok((fence, writer_of(row.get(2))))
}

pub(crate) struct Guarded(Client);

impl Store for Guarded {
    async fn open(target: &str) -> Result<Self, String> {
        connect(target).await.map(Self)
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        let change = Change::of("resource", "id", 1).set("value = ?", [value]);
        verdict(change.fenced(&mut Postgres::on(&self.0), pass).await)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        let Ok((fence, _)) = look(&self.0, LOOK).await else {
            return Verdict::Unknown;
        };
        if let Some(refused) = compared(pass, fence, pause).await {
            return refused;
        }
        let change = Change::of("resource", "id", 1)
            .set("value = ?", [value])
            .set("fence_token = ?", [pass.token().get().cast_signed()])
            .set("fence_claim = ?", [pass.claim().to_string()]);
        let outcome = change.run(&mut Postgres::on(&self.0)).await;
        verdict(outcome.map_err(FenceError::Store))
    }

    async fn read(&mut self) -> Result<Seen, String> {
        look(&self.0, LOOK).await
    }
}

/// The side table, and a plain row.
pub(crate) struct Side(Client);

impl Side {
    async fn try_write(
        &mut self,
        pass: &Pass,
        value: &str,
    ) -> Result<(), FenceError<tokio_postgres::Error>> {
        let transaction = self.0.transaction().await.map_err(FenceError::Store)?;
        let name = Name::new("resource").unwrap();
        raise(&mut Postgres::on(&transaction), &name, pass).await?;
        let update = "UPDATE resource SET value = $1 WHERE id = 1";
        transaction
            .execute(update, &[&value])
            .await
            .map_err(FenceError::Store)?;
        transaction.commit().await.map_err(FenceError::Store)
    }

    /// The comparison in one transaction, the write in another.
    async fn try_in_two(
        &mut self,
        pass: &Pass,
        (value, pause): (&str, Duration),
    ) -> Result<(), FenceError<tokio_postgres::Error>> {
        let name = Name::new("resource").unwrap();
        raise(&mut Postgres::on(&self.0), &name, pass).await?;
        // Long, so that what stands is seen before the next write covers it.
        tokio::time::sleep(8 * pause).await;
        let update = "UPDATE resource SET value = $1 WHERE id = 1";
        let updated = self.0.execute(update, &[&value]).await;
        updated.map(drop).map_err(FenceError::Store)
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
        look(&self.0, LOOK_BESIDE).await
    }
}
