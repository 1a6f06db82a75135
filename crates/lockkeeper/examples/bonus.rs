//! An idempotent bonus: the message "order 17 is paid" is delivered twenty times, some deliveries break down
//! in the middle, and the bonus is paid once. No lock at all: a unique key decides.
//!
//! `cargo run -p lockkeeper --all-features --example bonus`

use std::error::Error;

use lockkeeper_fence::postgres::Postgres;
use lockkeeper_fence::sql::{Change, Dialect, Once, once};
use tokio_postgres::{NoTls, Transaction};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

async fn deliver(url: String, number: usize) -> Result<Option<Once>> {
    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let transaction = client.transaction().await?;
    let pay = async |session: &mut Postgres<'_, Transaction<'_>>| {
        let bonus = Change::of("customers", "id", 4).set("bonus = bonus + ?", [10]);
        bonus
            .run(session)
            .await
            .map(|_| format!("10 paid by delivery {number}"))
    };
    let outcome = once(&mut Postgres::on(&transaction), "bonus/order-17", pay).await?;
    if number.is_multiple_of(4) {
        return Ok(None); // breaks down before its commit
    }
    transaction.commit().await?;
    Ok(Some(outcome))
}

#[tokio::main]
async fn main() -> Result<()> {
    let database = lockkeeper_testbed::Postgres::start()?;
    database.sql(Dialect::Postgres.once_table())?;
    database.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY, bonus BIGINT NOT NULL)")?;
    database.sql("INSERT INTO customers VALUES (4, 0)")?;
    let deliveries: Vec<_> = (0..20)
        .map(|number| tokio::spawn(deliver(database.url(), number)))
        .collect();
    for (number, delivery) in deliveries.into_iter().enumerate() {
        match delivery.await?? {
            Some(Once::First(result)) => println!("{number:2}: first: {result}"),
            Some(Once::Remembered(result)) => println!("{number:2}: remembered: {result}"),
            Some(Once::Unfinished) => println!("{number:2}: unfinished"),
            None => println!("{number:2}: broke down"),
        }
    }
    let bonus = database.sql("SELECT bonus FROM customers")?;
    assert_eq!(bonus, "10");
    println!("the customer has a bonus of {bonus}");
    Ok(())
}
