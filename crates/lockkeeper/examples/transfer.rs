//! A bank transfer that arrives late: its lock was broken while it waited, somebody else has transferred since,
//! and the fence in the database refuses it. Lock and fence meet in one transaction.
//!
//! `cargo run -p lockkeeper --all-features --example transfer`

use std::error::Error;

use lockkeeper::{Keeper, Name, Pass};
use lockkeeper_fence::postgres::Postgres;
use lockkeeper_fence::sql::{Change, Dialect, Outcome, raise};
use tokio_postgres::{Client, NoTls};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Moves money from account 1 to account 2, or does nothing at all.
async fn transfer(client: &mut Client, pass: &Pass, amount: i64) -> Result<()> {
    let transaction = client.transaction().await?;
    let session = &mut Postgres::on(&transaction);
    // First the fence: it stays locked until the commit, so nobody gets between it and the two writes.
    raise(session, &Name::new("accounts/1+2")?, pass).await?;
    let take = Change::of("accounts", "id", 1).set("balance = balance - ?", [amount]);
    if take.only_if("balance >= ?", [amount]).run(session).await? != Outcome::Won {
        return Err("account 1 has not got that much".into());
    }
    let give = Change::of("accounts", "id", 2).set("balance = balance + ?", [amount]);
    assert_eq!(give.run(session).await?, Outcome::Won);
    Ok(transaction.commit().await?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let database = lockkeeper_testbed::Postgres::start()?;
    database.sql(Dialect::Postgres.side_table())?;
    database.sql("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)")?;
    database.sql("INSERT INTO accounts VALUES (1, 1000), (2, 0)")?;
    let (mut client, connection) = tokio_postgres::connect(&database.url(), NoTls).await?;
    tokio::spawn(connection);
    let keeper = Keeper::connect("memory:").await?;

    let slow = keeper.lock("accounts/1+2").acquire().await?;
    println!("the slow teller holds the lock with token {}", slow.token());
    keeper
        .evict(slow.name(), slow.token(), "it looked dead")
        .await?;

    let quick = keeper.lock("accounts/1+2").acquire().await?;
    transfer(&mut client, &quick.pass()?, 300).await?;
    println!(
        "the quick teller, with token {}, has transferred 300",
        quick.token()
    );

    let late = transfer(&mut client, &slow.pass()?, 300).await;
    let refusal = late.expect_err("the fence lets a stale token through");
    println!("the slow teller's transfer is refused: {refusal}");
    let balances = database.sql("SELECT balance FROM accounts ORDER BY id")?;
    assert_eq!(balances, "700\n300");
    println!("balances: {}", balances.replace('\n', " and "));
    Ok(())
}
