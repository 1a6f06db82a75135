//! PostgreSQL through `tokio-postgres`: a client or a transaction as a [`Session`].

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{GenericClient, Row};

use crate::sql::{Dialect, Session, SqlValue, numbered};

/// A client or a transaction of `tokio-postgres`.
///
/// Every statement is one round trip. A dropped call does the connection no harm.
///
/// ```no_run
/// # async fn example(mut client: tokio_postgres::Client, guard_token: lockkeeper_fence::Token)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use lockkeeper_fence::postgres::Postgres;
/// use lockkeeper_fence::sql::{Change, raise};
/// use lockkeeper_fence::{Name, Pass};
///
/// let pass = Pass::from(guard_token);
/// // One row with guard columns: one statement.
/// let pay = Change::of("accounts", "id", 42).set("balance = balance - ?", [100]);
/// let written = pay.fenced(&mut Postgres::on(&client), &pass).await?;
///
/// // Anything, inside a transaction.
/// let transaction = client.transaction().await?;
/// raise(&mut Postgres::on(&transaction), &Name::new("accounts")?, &pass).await?;
/// transaction.execute("DELETE FROM offers WHERE stale", &[]).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Postgres<'a, C>(&'a C);

impl<'a, C: GenericClient> Postgres<'a, C> {
    /// Speaks through this client or transaction.
    pub fn on(client: &'a C) -> Self {
        Self(client)
    }
}

impl<C: GenericClient> Session for Postgres<'_, C> {
    type Error = tokio_postgres::Error;

    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn change(&mut self, text: &str, values: &[SqlValue]) -> Result<u64, Self::Error> {
        self.0.execute_typed(&numbered(text), &typed(values)).await
    }

    async fn row(
        &mut self,
        text: &str,
        values: &[SqlValue],
    ) -> Result<Option<Vec<SqlValue>>, Self::Error> {
        let rows = self.0.query_typed(&numbered(text), &typed(values)).await?;
        rows.first().map(columns).transpose()
    }
}

/// With the types said beforehand, a statement needs no round trip of its own to be prepared.
fn typed(values: &[SqlValue]) -> Vec<(&(dyn ToSql + Sync), Type)> {
    values
        .iter()
        .map(|value| (value as _, kind(value)))
        .collect()
}

fn kind(value: &SqlValue) -> Type {
    match value {
        SqlValue::Null => Type::UNKNOWN,
        SqlValue::Int(_) => Type::INT8,
        SqlValue::Text(_) => Type::TEXT,
        SqlValue::Bytes(_) => Type::BYTEA,
    }
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::UNKNOWN, Type::INT8, Type::TEXT, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

fn columns(row: &Row) -> Result<Vec<SqlValue>, tokio_postgres::Error> {
    (0..row.len()).map(|index| column(row, index)).collect()
}

fn column(row: &Row, index: usize) -> Result<SqlValue, tokio_postgres::Error> {
    let null = || SqlValue::Null;
    Ok(match *row.columns()[index].type_() {
        Type::INT2 => row
            .try_get::<_, Option<i16>>(index)?
            .map_or_else(null, |n| i32::from(n).into()),
        Type::INT4 => row
            .try_get::<_, Option<i32>>(index)?
            .map_or_else(null, Into::into),
        Type::INT8 => row
            .try_get::<_, Option<i64>>(index)?
            .map_or_else(null, Into::into),
        Type::BYTEA => row
            .try_get::<_, Option<Vec<u8>>>(index)?
            .map_or_else(null, Into::into),
        _ => row
            .try_get::<_, Option<String>>(index)?
            .map_or_else(null, Into::into),
    })
}
