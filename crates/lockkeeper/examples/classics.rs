//! The classics: five ways to exclude each other that every text about SQL has. Each is shown on a real server, at
//! work and where it breaks; each break is asserted, so that it is no rumour. What to use instead stands beside it.
//!
//! `cargo run -p lockkeeper --all-features --example classics`

use std::error::Error;
use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_fence::postgres::Postgres;
use lockkeeper_fence::sql::{Change, Outcome};
use tokio_postgres::{Client, NoTls};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const TABLES: &str = "
    CREATE TABLE locks (name TEXT PRIMARY KEY, owner TEXT NOT NULL, ends TIMESTAMPTZ NOT NULL);
    CREATE TABLE stock (id INTEGER PRIMARY KEY, remaining BIGINT NOT NULL, version BIGINT NOT NULL, buyer TEXT);
    CREATE TABLE jobs (id INTEGER PRIMARY KEY, status TEXT NOT NULL, worker TEXT);
    INSERT INTO stock VALUES (1, 100, 1), (2, 100, 1);
    INSERT INTO jobs VALUES (1, 'new');";

/// Longer than any pause below.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A row is the lock: whoever can insert it holds. It does exclude, and outlives everybody: also its dead owner. So people give it an
/// end and let others take it over. Then two believe, for nobody tells the first; and nobody renews.
async fn unique_key(url: &str) -> Result<&'static str> {
    let (one, two) = (connect(url).await?, connect(url).await?);
    let take =
        "INSERT INTO locks VALUES ('report', $1, now() + interval '100 ms') ON CONFLICT DO NOTHING";
    assert_eq!(one.execute(take, &[&"one"]).await?, 1);
    assert_eq!(two.execute(take, &[&"two"]).await?, 0, "it excludes");
    // Its owner is slow, or dead: nobody can say. Without this the row would stay for ever.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let over = "UPDATE locks SET owner = $1, ends = now() + interval '1 h' WHERE name = 'report' AND ends < now()";
    assert_eq!(two.execute(over, &[&"two"]).await?, 1, "taken over");
    // And the classic way to give it back does not ask whose it is.
    assert_eq!(
        one.execute("DELETE FROM locks WHERE name = 'report'", &[])
            .await?,
        1
    );
    assert_eq!(two.execute(take, &[&"three"]).await?, 1, "two and three");
    Ok(
        "unique key         stays for ever, or two hold; release frees the next one's   instead: a lease lock, with a fence",
    )
}

/// The server's row lock ends with its transaction, and a transaction ends by more than its owner: here by a limit for idle ones. What
/// the owner does outside of the database meanwhile is protected by nothing, and it hears of it with its next statement.
async fn for_update(url: &str) -> Result<&'static str> {
    let (one, two) = (connect(url).await?, connect(url).await?);
    let lock = "SELECT remaining FROM stock WHERE id = 1 FOR UPDATE";
    one.batch_execute("SET idle_in_transaction_session_timeout = '200ms'; BEGIN")
        .await?;
    one.query_one(lock, &[]).await?;
    let waits = tokio::spawn(async move { two.query_one(lock, &[]).await });
    // The first one writes to a customer, which takes a while.
    let row = tokio::time::timeout(PATIENCE, waits).await???;
    assert_eq!(row.get::<_, i64>(0), 100, "two hold");
    assert!(one.query_one(lock, &[]).await.is_err(), "told too late");
    Ok(
        "FOR UPDATE         a connection per lock, lost in silence while it rests       instead: mode=session, which tells within a second",
    )
}

/// One statement decides. The right tool for one row; but an answer that is lost leaves the question whether it was done, and asking again does it
/// twice. With a name for each attempt, the row can say who did it.
async fn conditional_update(url: &str) -> Result<&'static str> {
    let client = connect(url).await?;
    let session = &mut Postgres::on(&client);
    let sale = || {
        let one = Change::of("stock", "id", 1).set("remaining = remaining - ?", [1]);
        one.only_if("remaining >= ?", [1])
    };
    assert_eq!(sale().run(session).await?, Outcome::Won);
    // The answer got lost, the buyer asks again.
    assert_eq!(sale().run(session).await?, Outcome::Won);
    assert_eq!(remaining(&client, 1).await?, 98, "one buyer, two items");
    let named = || {
        let mine = sale().only_if("buyer IS DISTINCT FROM ?", ["order-17"]);
        mine.by("buyer", "order-17")
    };
    assert_eq!(named().run(session).await?, Outcome::Won);
    assert_eq!(named().run(session).await?, Outcome::Won, "the same one");
    assert_eq!(remaining(&client, 1).await?, 97, "one buyer, one item");
    Ok(
        "conditional update asked again it acts twice, and it guards one row only      instead: Change::by, once(), a lock for more",
    )
}

async fn remaining(client: &Client, id: i32) -> Result<i64> {
    let query = "SELECT remaining FROM stock WHERE id = $1";
    Ok(client.query_one(query, &[&id]).await?.get(0))
}

/// Whoever read an old version has to begin anew. Right where that is rare; where it is not, work is done to be thrown away, and nobody's
/// turn ever comes for certain.
async fn version_column(url: &str) -> Result<&'static str> {
    const BUYERS: i64 = 16;
    let mut tasks = Vec::new();
    for _ in 0..BUYERS {
        let client = connect(url).await?;
        tasks.push(tokio::spawn(async move {
            let mut attempts = 0_u32;
            loop {
                let query = "SELECT remaining, version FROM stock WHERE id = 2";
                let row = client.query_one(query, &[]).await?;
                let (remaining, version): (i64, i64) = (row.get(0), row.get(1));
                // Deciding takes a while; all of it is in vain if somebody else is done first.
                tokio::time::sleep(Duration::from_millis(5)).await;
                let change = Change::of("stock", "id", 2).set("remaining = ?", [remaining - 1]);
                let session = &mut Postgres::on(&client);
                attempts += 1;
                if change.at_version(session, "version", version).await? == Outcome::Won {
                    return Ok::<_, tokio_postgres::Error>(attempts);
                }
            }
        }));
    }
    let (mut all, mut most) = (0, 0);
    for task in tasks {
        let attempts = task.await??;
        (all, most) = (all + attempts, most.max(attempts));
    }
    assert_eq!(remaining(&connect(url).await?, 2).await?, 100 - BUYERS);
    assert!(i64::from(all) > BUYERS, "nobody met");
    println!("     {BUYERS} buyers needed {all} attempts, one of them {most}");
    Ok(
        "version column     correct, but work is thrown away where many meet            instead: a lock, where the work is dear",
    )
}

/// The status says who works on it. If they die, it says so for ever; if others may take it over after a while, the first one
/// still believes. A lock says who lives, and its token tells the row whose word counts.
async fn status_transition(url: &str, locks: &str) -> Result<&'static str> {
    let client = connect(url).await?;
    let session = &mut Postgres::on(&client);
    let begin = |who: &str| Change::of("jobs", "id", 1).by("worker", who);
    let to_running = ("new", "running");
    let won = begin("one")
        .transition(session, "status", to_running)
        .await?;
    assert_eq!(won, Outcome::Won);
    // The first worker dies here.
    let lost = begin("two")
        .transition(session, "status", to_running)
        .await?;
    assert!(matches!(&lost, Outcome::Lost(winner) if winner.by.as_deref() == Some("one")));
    // With a lock around the work, the death of the worker is seen, and its successor may say so in the row.
    let keeper = Keeper::connect(locks).await?;
    let guard = keeper.lock("jobs/1").acquire_within(PATIENCE).await?;
    let retry = ("running", "running");
    let won = begin("two").transition(session, "status", retry).await?;
    assert_eq!(won, Outcome::Won);
    guard.release().await?;
    Ok(
        "status transition  a dead worker's job stays `running` for ever                instead: a lock around the work, fenced by its token",
    )
}

#[tokio::main]
async fn main() -> Result<()> {
    let database = lockkeeper_testbed::Postgres::start()?;
    database.sql(TABLES)?;
    let url = database.url();
    println!("{}", unique_key(&url).await?);
    println!("{}", for_update(&url).await?);
    println!("{}", conditional_update(&url).await?);
    println!("{}", version_column(&url).await?);
    println!("{}", status_transition(&url, &url).await?);
    Ok(())
}
