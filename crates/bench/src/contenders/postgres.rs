//! PostgreSQL's own words. Commits wait as lockkeeper's do.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Statement};

use super::sql::{Connection, STEPS, Step};
use crate::Result;

/// One transaction, with a lock until its end: two processes that make one table at once fail.
const TABLES: &str = "SELECT pg_advisory_xact_lock(1); \
    CREATE TABLE IF NOT EXISTS bare (name text PRIMARY KEY, value text, ends timestamptz); \
    CREATE TABLE IF NOT EXISTS token (name text PRIMARY KEY, number bigint)";

fn text(step: Step) -> &'static str {
    match step {
        Step::Take => {
            "INSERT INTO bare VALUES ($1, $2, clock_timestamp() + '30s') ON CONFLICT (name) \
             DO UPDATE SET value = excluded.value, ends = excluded.ends WHERE bare.ends < clock_timestamp()"
        }
        Step::Give => "DELETE FROM bare WHERE name = $1 AND value = $2",
        Step::Lock => "SELECT pg_advisory_lock(hashtextextended($1, 0))",
        Step::Unlock => "SELECT 1 WHERE pg_advisory_unlock(hashtextextended($1, 0))",
        Step::Token => "UPDATE token SET number = number + 1 WHERE name = $1 RETURNING number",
    }
}

pub(crate) struct Postgres {
    client: Client,
    statements: Vec<Statement>,
}

impl Connection for Postgres {
    async fn open(place: &str) -> Result<Self> {
        let url = format!("postgres://{place}");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        tokio::spawn(connection);
        client.batch_execute("SET synchronous_commit = on").await?;
        client.batch_execute(TABLES).await?;
        let mut statements = Vec::new();
        for step in STEPS {
            statements.push(client.prepare(text(step)).await?);
        }
        Ok(Self { client, statements })
    }

    async fn make_token(&self, name: &str) -> Result<()> {
        let make = "INSERT INTO token VALUES ($1, 0) ON CONFLICT DO NOTHING";
        self.client.execute(make, &[&name]).await?;
        Ok(())
    }

    async fn run(&self, step: Step, values: &[&str]) -> Result<u64> {
        let values = values.iter().map(|value| value as &(dyn ToSql + Sync));
        let values: Vec<&(dyn ToSql + Sync)> = values.collect();
        let statement = &self.statements[step as usize];
        Ok(self.client.execute(statement, &values).await?)
    }
}
