//! SQLite through `rusqlite`: a connection or a transaction as a [`Session`].

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params_from_iter};

use crate::sql::{Dialect, Session, SqlValue};

/// A connection of `rusqlite`; a transaction is one too.
///
/// Everything is done when a call first runs, on the thread that runs it, and the future is ready at once:
/// [`now`] takes the result out without a runtime. Begin transactions with
/// `TransactionBehavior::Immediate`.
///
/// ```
/// use lockkeeper_fence::sql::{Change, GUARD_COLUMNS, Update};
/// use lockkeeper_fence::sqlite::{Sqlite, now};
/// use lockkeeper_fence::{Pass, Token};
///
/// let connection = rusqlite::Connection::open_in_memory()?;
/// let [token, claim] = GUARD_COLUMNS;
/// connection.execute_batch(&format!(
///     "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, {token}, {claim});
///      INSERT INTO accounts (id, balance) VALUES (42, 500)"
/// ))?;
/// let pay = || Change::of("accounts", "id", 42).set("balance = balance - ?", [100]);
/// let (old, new) = (Pass::from(Token::new(7, 0)?), Pass::from(Token::new(8, 0)?));
/// assert_eq!(now(pay().fenced(&mut Sqlite::on(&connection), &new))?, Update::Written);
/// assert!(now(pay().fenced(&mut Sqlite::on(&connection), &old)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sqlite<'a>(&'a Connection);

impl<'a> Sqlite<'a> {
    /// Speaks through this connection or transaction.
    pub fn on(connection: &'a Connection) -> Self {
        Self(connection)
    }
}

/// The result of a future that never waits, as all calls on a [`Sqlite`] session are.
///
/// # Panics
/// When the future waits for something nevertheless.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => panic!("`now` was given a future that waits"),
    }
}

impl Session for Sqlite<'_> {
    type Error = rusqlite::Error;

    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn change(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, Self::Error> {
        let rows = self
            .0
            .prepare_cached(text)?
            .execute(params_from_iter(values))?;
        Ok(rows as u64)
    }

    async fn row(
        &mut self,
        text: &str,
        values: &[SqlValue],
    ) -> Result<Option<Vec<SqlValue>>, Self::Error> {
        let mut statement = self.0.prepare_cached(text)?;
        statement
            .query_row(params_from_iter(values), columns)
            .optional()
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

fn columns(row: &Row<'_>) -> rusqlite::Result<Vec<SqlValue>> {
    let count = row.as_ref().column_count();
    let one = |index| {
        Ok(match row.get::<_, Value>(index)? {
            Value::Null => SqlValue::Null,
            Value::Integer(number) => SqlValue::Int(number),
            Value::Real(number) => SqlValue::Text(number.to_string()),
            Value::Text(text) => SqlValue::Text(text),
            Value::Blob(bytes) => SqlValue::Bytes(bytes),
        })
    };
    (0..count).map(one).collect()
}
