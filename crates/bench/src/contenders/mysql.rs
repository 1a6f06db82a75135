//! The own words of MySQL and MariaDB. Commits wait as the server is set to, for lockkeeper too.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Params, Statement, Value};
use tokio::sync::Mutex;

use super::sql::{Connection, STEPS, Step};
use crate::Result;

const TABLES: [&str; 2] = [
    "CREATE TABLE IF NOT EXISTS bare (name VARBINARY(255) PRIMARY KEY, value VARBINARY(64), ends DATETIME(6))",
    "CREATE TABLE IF NOT EXISTS token (name VARBINARY(255) PRIMARY KEY, number BIGINT UNSIGNED)",
];

fn text(step: Step) -> &'static str {
    match step {
        // An insert reaches one row, an update two, an update that changes nothing none.
        Step::Take => {
            "INSERT INTO bare VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL 30 SECOND) ON DUPLICATE KEY UPDATE \
             value = IF(ends < UTC_TIMESTAMP(6), VALUES(value), value), ends = IF(value = VALUES(value), VALUES(ends), ends)"
        }
        Step::Give => "DELETE FROM bare WHERE name = ? AND value = ?",
        Step::Lock => "SELECT 1 FROM DUAL WHERE GET_LOCK(?, 60) = 1",
        Step::Unlock => "SELECT 1 FROM DUAL WHERE RELEASE_LOCK(?) = 1",
        Step::Token => "UPDATE token SET number = LAST_INSERT_ID(number + 1) WHERE name = ?",
    }
}

/// A connection does one thing at a time: the protocol has no second question before the first answer.
pub(crate) struct MySql {
    connection: Mutex<Conn>,
    statements: Vec<Statement>,
}

impl Connection for MySql {
    async fn open(place: &str) -> Result<Self> {
        let options = OptsBuilder::from_opts(Opts::from_url(&format!("mysql://{place}"))?);
        let mut connection = Conn::new(options.prefer_socket(false)).await?;
        for table in TABLES {
            connection.query_drop(table).await?;
        }
        let mut statements = Vec::new();
        for step in STEPS {
            statements.push(connection.prep(text(step)).await?);
        }
        let connection = Mutex::new(connection);
        Ok(Self {
            connection,
            statements,
        })
    }

    async fn make_token(&self, name: &str) -> Result<()> {
        let make = "INSERT IGNORE INTO token VALUES (?, 0)";
        Ok(self
            .connection
            .lock()
            .await
            .exec_drop(make, (name,))
            .await?)
    }

    async fn run(&self, step: Step, values: &[&str]) -> Result<u64> {
        let values = values.iter().map(|value| Value::from(*value)).collect();
        let statement = &self.statements[step as usize];
        let mut connection = self.connection.lock().await;
        let told = connection
            .exec_iter(statement, Params::Positional(values))
            .await?;
        // What is only asked for comes as rows, and changes none.
        let changes = told.columns_ref().is_empty();
        let changed = told.affected_rows();
        let rows: Vec<mysql_async::Row> = told.collect_and_drop().await?;
        Ok(if changes { changed } else { rows.len() as u64 })
    }
}
