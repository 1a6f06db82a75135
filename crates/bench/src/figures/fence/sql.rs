//! SQL: one row with guard columns, beside the same update of a row without; and a transaction with a side
//! table, beside the same transaction without.

use lockkeeper_fence::Name;
use lockkeeper_fence::mysql::MySql;
use lockkeeper_fence::postgres::Postgres;
use lockkeeper_fence::sql::{Change, Dialect, GUARD_COLUMNS, Session, raise};
use lockkeeper_fence::sqlite::Sqlite;
use mysql_async::{Conn, Opts, OptsBuilder, TxOpts};
use rusqlite::{Connection, TransactionBehavior};
use tokio_postgres::NoTls;

use super::{Pair, pass, value};
use crate::Result;
use crate::figures::local::runtime;
use crate::place::Place;
use crate::report::Figure;

const PER_ROUND: u64 = 100;

fn tables(dialect: Dialect) -> Vec<String> {
    let [token, claim] = GUARD_COLUMNS;
    vec![
        "CREATE TABLE plain (id INTEGER PRIMARY KEY, value VARCHAR(100) NOT NULL)".to_owned(),
        format!(
            "CREATE TABLE fenced (id INTEGER PRIMARY KEY, value VARCHAR(100) NOT NULL, {token}, {claim})"
        ),
        "INSERT INTO plain VALUES (1, '')".to_owned(),
        "INSERT INTO fenced (id, value) VALUES (1, '')".to_owned(),
        dialect.side_table().to_owned(),
    ]
}

fn change(table: &'static str, number: u64) -> Change {
    Change::of(table, "id", 1).set("value = ?", [value(number)])
}

async fn plain<S>(session: &mut S, number: u64) -> Result<()>
where
    S: Session<Error: std::error::Error + Send + Sync + 'static>,
{
    let _won = change("plain", number).run(session).await?;
    Ok(())
}

async fn fenced<S>(session: &mut S, number: u64) -> Result<()>
where
    S: Session<Error: std::error::Error + Send + Sync + 'static>,
{
    let _written = change("fenced", number)
        .fenced(session, &pass(number)?)
        .await?;
    Ok(())
}

/// The first half of a fenced transaction.
async fn raised<S>(session: &mut S, number: u64) -> Result<()>
where
    S: Session<Error: std::error::Error + Send + Sync + 'static>,
{
    Ok(raise(session, &Name::new("fenced")?, &pass(number)?).await?)
}

pub(super) fn postgres(_: &Place) -> Result<Vec<Figure>> {
    let server =
        lockkeeper_testbed::Postgres::start_with(&lockkeeper_testbed::Setup::new().durable())?;
    for statement in tables(Dialect::Postgres) {
        server.sql(&statement)?;
    }
    runtime()?.block_on(async {
        let connect = || async {
            let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        };
        let (client, other) = (connect().await?, connect().await?);
        let columns = Pair::new("postgres: one row, guard columns", PER_ROUND).measure(
            async |n| plain(&mut Postgres::on(&client), n).await,
            async |n| fenced(&mut Postgres::on(&client), n).await,
        );
        let columns = columns.await?;
        let (mut client, mut other) = (client, other);
        let side = Pair::new("postgres: a transaction, side table", PER_ROUND)
            .without_target()
            .measure(
                async |n| {
                    let transaction = client.transaction().await?;
                    plain(&mut Postgres::on(&transaction), n).await?;
                    Ok(transaction.commit().await?)
                },
                async |n| {
                    let transaction = other.transaction().await?;
                    raised(&mut Postgres::on(&transaction), n).await?;
                    plain(&mut Postgres::on(&transaction), n).await?;
                    Ok(transaction.commit().await?)
                },
            );
        Ok(vec![columns, side.await?])
    })
}

pub(super) fn mysql(_: &Place) -> Result<Vec<Figure>> {
    let server =
        lockkeeper_testbed::MariaDb::start_with(&lockkeeper_testbed::Setup::new().durable())?;
    server.sql("CREATE DATABASE bench")?;
    for statement in tables(Dialect::MySql) {
        server.sql(&format!("USE bench; {statement}"))?;
    }
    let options = OptsBuilder::from_opts(Opts::from_url(&server.url())?);
    let options: Opts = options.db_name(Some("bench")).prefer_socket(false).into();
    runtime()?.block_on(async {
        let (mut one, mut two) = (Conn::new(options.clone()).await?, Conn::new(options).await?);
        let columns = Pair::new("mysql: one row, guard columns", PER_ROUND).measure(
            async |n| plain(&mut MySql::on(&mut one), n).await,
            async |n| fenced(&mut MySql::on(&mut two), n).await,
        );
        let columns = columns.await?;
        let side = Pair::new("mysql: a transaction, side table", PER_ROUND)
            .without_target()
            .measure(
                async |n| {
                    let mut transaction = one.start_transaction(TxOpts::default()).await?;
                    plain(&mut MySql::on(&mut transaction), n).await?;
                    Ok(transaction.commit().await?)
                },
                async |n| {
                    let mut transaction = two.start_transaction(TxOpts::default()).await?;
                    raised(&mut MySql::on(&mut transaction), n).await?;
                    plain(&mut MySql::on(&mut transaction), n).await?;
                    Ok(transaction.commit().await?)
                },
            );
        let side = side.await?;
        Ok(vec![columns, side])
    })
}

pub(super) fn sqlite(place: &Place) -> Result<Vec<Figure>> {
    let path = place.room("fence-sqlite")?.join("database");
    let connect = || {
        let connection = Connection::open(&path)?;
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")?;
        Ok::<_, rusqlite::Error>(connection)
    };
    let (mut one, mut two) = (connect()?, connect()?);
    one.execute_batch(&tables(Dialect::Sqlite).join(";"))?;
    runtime()?.block_on(async {
        let columns = Pair::new("sqlite: one row, guard columns", PER_ROUND).measure(
            async |n| plain(&mut Sqlite::on(&one), n).await,
            async |n| fenced(&mut Sqlite::on(&two), n).await,
        );
        let columns = columns.await?;
        let immediate = TransactionBehavior::Immediate;
        let side = Pair::new("sqlite: a transaction, side table", PER_ROUND)
            .without_target()
            .measure(
                async |n| {
                    let transaction = one.transaction_with_behavior(immediate)?;
                    plain(&mut Sqlite::on(&transaction), n).await?;
                    Ok(transaction.commit()?)
                },
                async |n| {
                    let transaction = two.transaction_with_behavior(immediate)?;
                    raised(&mut Sqlite::on(&transaction), n).await?;
                    plain(&mut Sqlite::on(&transaction), n).await?;
                    Ok(transaction.commit()?)
                },
            );
        Ok(vec![columns, side.await?])
    })
}
