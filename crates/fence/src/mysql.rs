//! MySQL and MariaDB through `mysql_async`: a connection or a transaction as a [`Session`].

use mysql_async::prelude::Queryable;
use mysql_async::{Params, Row, Value};

use crate::sql::{Dialect, Session, SqlValue};

/// A connection or a transaction of `mysql_async`.
///
/// **Not cancel safe**, whatever the connection says: after a dropped call its next answers belong to
/// earlier questions. Take the connection from a pool, which cleans it, or never drop a call.
///
/// ```no_run
/// # async fn example(mut conn: mysql_async::Conn, guard_token: lockkeeper_fence::Token)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use lockkeeper_fence::Pass;
/// use lockkeeper_fence::mysql::MySql;
/// use lockkeeper_fence::sql::Change;
///
/// let pay = Change::of("accounts", "id", 42).set("balance = balance - ?", [100]);
/// let written = pay.fenced(&mut MySql::on(&mut conn), &Pass::from(guard_token)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MySql<'a, Q>(&'a mut Q);

impl<'a, Q: Queryable> MySql<'a, Q> {
    /// Speaks through this connection or transaction.
    pub fn on(connection: &'a mut Q) -> Self {
        Self(connection)
    }
}

impl<Q: Queryable> Session for MySql<'_, Q> {
    type Error = mysql_async::Error;

    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    async fn change(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, Self::Error> {
        let result = self.0.exec_iter(text, arguments(values)).await?;
        let rows = matched(&result.info()).unwrap_or(result.affected_rows());
        result.drop_result().await?;
        Ok(rows)
    }

    async fn row(
        &mut self,
        text: &str,
        values: &[SqlValue],
    ) -> Result<Option<Vec<SqlValue>>, Self::Error> {
        let row: Option<Row> = self.0.exec_first(text, arguments(values)).await?;
        Ok(row.map(|row| row.unwrap().into_iter().map(column).collect()))
    }
}

/// The server counts a row as affected only if a column got another value, so a repeated write would look
/// like a refused one. How many rows it has found, it says in words: `Rows matched: 1  Changed: 0 …`.
fn matched(info: &str) -> Option<u64> {
    let count = info.strip_prefix("Rows matched: ")?;
    count.split(' ').next()?.parse().ok()
}

fn arguments(values: &[SqlValue]) -> Params {
    let one = |value: &SqlValue| match value {
        SqlValue::Null => Value::NULL,
        SqlValue::Int(number) => Value::Int(*number),
        SqlValue::Text(text) => Value::Bytes(text.clone().into_bytes()),
        SqlValue::Bytes(bytes) => Value::Bytes(bytes.clone()),
    };
    match values.is_empty() {
        true => Params::Empty,
        false => Params::Positional(values.iter().map(one).collect()),
    }
}

fn column(value: Value) -> SqlValue {
    match value {
        Value::NULL => SqlValue::Null,
        Value::Int(number) => SqlValue::Int(number),
        Value::UInt(number) => {
            i64::try_from(number).map_or_else(|_| number.to_string().into(), SqlValue::Int)
        }
        Value::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => SqlValue::Text(text),
            Err(error) => SqlValue::Bytes(error.into_bytes()),
        },
        other => SqlValue::Text(other.as_sql(true)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_found_are_read_from_the_servers_words() {
        assert_eq!(
            matched("Rows matched: 17  Changed: 0  Warnings: 0"),
            Some(17)
        );
        assert_eq!(matched(""), None);
    }
}
