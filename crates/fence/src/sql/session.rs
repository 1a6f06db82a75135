//! The seam to the clients: run a statement, read a row. Everything else is written above it.

use std::fmt::Write;
use std::future::Future;

/// One connection or transaction of a client.
///
/// Statements have `?` for each argument. A dropped call leaves the outcome unknown; whether the
/// connection may be used afterwards is the client's matter.
pub trait Session {
    /// What the client says when something goes wrong.
    type Error;

    /// Which SQL is spoken here.
    fn dialect(&self) -> Dialect;

    /// Runs a statement that changes rows; tells how many rows it **matched**.
    fn change(
        &mut self,
        text: &str,
        values: &[SqlValue],
    ) -> impl Future<Output = Result<u64, Self::Error>>;

    /// Runs a query and gives its first row.
    fn row(
        &mut self,
        text: &str,
        values: &[SqlValue],
    ) -> impl Future<Output = Result<Option<Vec<SqlValue>>, Self::Error>>;
}

/// Which SQL is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// Makes the side table of [`super::raise`], if it is not there.
    pub const fn side_table(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("text/side_table.postgres.sql"),
            Self::MySql => include_str!("text/side_table.mysql.sql"),
            Self::Sqlite => include_str!("text/side_table.sqlite.sql"),
        }
    }

    /// Makes the table of [`super::once`], if it is not there.
    pub const fn once_table(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("text/once.postgres.sql"),
            Self::MySql => include_str!("text/once.mysql.sql"),
            Self::Sqlite => include_str!("text/once.sqlite.sql"),
        }
    }

    /// What makes a query see the newest row instead of the transaction's snapshot. PostgreSQL's
    /// statements either see it or fail, SQLite has one writer at a time.
    pub(super) const fn newest(self) -> &'static str {
        match self {
            Self::MySql => " FOR UPDATE",
            Self::Postgres | Self::Sqlite => "",
        }
    }
}

/// An argument or a column.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlValue {
    /// Nothing.
    Null,
    /// An integer of any width.
    Int(i64),
    /// Text. For a column of another type write `CAST(? AS …)`.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl SqlValue {
    /// As an integer, also where a database gives numbers as text.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            other => other.as_text()?.parse().ok(),
        }
    }

    /// As text, also where a database gives text as bytes.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Self::Null | Self::Int(_) => None,
        }
    }
}

impl From<i64> for SqlValue {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<i32> for SqlValue {
    fn from(number: i32) -> Self {
        Self::Int(number.into())
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<u8>> for SqlValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// Turns each `?` into `$1`, `$2` and so on, outside of quotes and comments. PostgreSQL's operators with a
/// question mark have functions of the same meaning (`jsonb_exists`).
pub fn numbered(text: &str) -> String {
    let mut output = String::with_capacity(text.len() + 16);
    let (mut quote, mut comment, mut count) = (None, false, 0);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (quote, character) {
            _ if comment => comment = character != '\n',
            (None, '-') if characters.peek() == Some(&'-') => comment = true,
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '?') => {
                count += 1;
                let _a_string_takes_all = write!(output, "${count}");
                continue;
            }
            _ => {}
        }
        output.push(character);
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_numbered_outside_of_quotes() {
        assert_eq!(
            numbered("SET a = ?, b = '?''?' -- ?'\nWHERE \"c?\" = ? - ?"),
            "SET a = $1, b = '?''?' -- ?'\nWHERE \"c?\" = $2 - $3"
        );
        assert_eq!(numbered("é = ?"), "é = $1");
    }
}
