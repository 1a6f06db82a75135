//! Stock that must not be oversold, in five ways: nothing, conditional update, version column, lock and
//! fence, one script. Each with its round trips and its time, on real servers.
//!
//! `cargo run -p lockkeeper --all-features --example stock`

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use lockkeeper_fence::postgres::Postgres;
use lockkeeper_fence::sql::{Change, GUARD_COLUMNS, Outcome, Update};
use redis::aio::MultiplexedConnection;
use tokio_postgres::{Client, NoTls};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const STOCK: i64 = 100;
const BUYERS: usize = 16;
/// All together want twice of what there is.
const WISHES: i64 = 2 * STOCK / BUYERS as i64;

/// Round trips of all buyers.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

fn round<T>(answer: T) -> T {
    ROUNDS.fetch_add(1, Ordering::Relaxed);
    answer
}

/// How one item is bought.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Nothing,
    Conditional,
    Version,
    LockAndFence,
    Script,
}

/// What a buyer has at hand.
struct Buyer {
    client: Client,
    redis: MultiplexedConnection,
    keeper: Keeper,
}

impl Buyer {
    async fn read(&self) -> Result<(i64, i64)> {
        let query = "SELECT remaining, version FROM stock WHERE id = 1";
        let row = round(self.client.query_typed(query, &[]).await)?;
        Ok((row[0].get(0), row[0].get(1)))
    }

    /// Buys one; tells whether there was one left.
    async fn buy(&self, way: Way) -> Result<bool> {
        let one = || Change::of("stock", "id", 1);
        let session = &mut Postgres::on(&self.client);
        match way {
            Way::Nothing => {
                let (remaining, _) = self.read().await?;
                if remaining <= 0 {
                    return Ok(false);
                }
                let change = one().set("remaining = ?", [remaining - 1]);
                Ok(round(change.run(session).await)? == Outcome::Won)
            }
            Way::Conditional => {
                let change = one()
                    .set("remaining = remaining - ?", [1])
                    .only_if("remaining >= ?", [1]);
                Ok(round(change.run(session).await)? == Outcome::Won)
            }
            Way::Version => loop {
                let (remaining, version) = self.read().await?;
                if remaining <= 0 {
                    return Ok(false);
                }
                let change = one().set("remaining = ?", [remaining - 1]);
                if round(change.at_version(session, "version", version).await)? == Outcome::Won {
                    return Ok(true);
                }
            },
            Way::LockAndFence => self.buy_under_lock().await,
            Way::Script => self.buy_by_script().await,
        }
    }

    async fn buy_under_lock(&self) -> Result<bool> {
        let guard = round(
            self.keeper
                .lock("stock")
                .acquire_within(Duration::from_secs(60))
                .await,
        )?;
        let (remaining, _) = self.read().await?;
        let mut bought = false;
        if remaining > 0 {
            let change = Change::of("stock", "id", 1).set("remaining = ?", [remaining - 1]);
            let written = change
                .fenced(&mut Postgres::on(&self.client), &guard.pass()?)
                .await;
            bought = round(written)? == Update::Written;
        }
        round(guard.release().await)?;
        Ok(bought)
    }

    async fn buy_by_script(&self) -> Result<bool> {
        // KEYS: stock. Gives 1 if one was left.
        let script = redis::Script::new(
            "if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end
             redis.call('DECR', KEYS[1]) return 1",
        );
        let mut connection = self.redis.clone();
        let bought: i64 = round(script.key("stock").invoke_async(&mut connection).await)?;
        Ok(bought == 1)
    }
}

async fn buyer(database: &str, redis: &redis::Client, locks: &str) -> Result<Buyer> {
    let (client, connection) = tokio_postgres::connect(database, NoTls).await?;
    tokio::spawn(connection);
    Ok(Buyer {
        client,
        redis: redis.get_multiplexed_async_connection().await?,
        keeper: Keeper::connect(locks).await?,
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let database = lockkeeper_testbed::Postgres::start()?;
    let server = lockkeeper_testbed::Redis::start()?;
    let (redis_url, [token, claim]) = (format!("redis://{}", server.address()), GUARD_COLUMNS);
    database.sql(&format!(
        "CREATE TABLE stock (id INTEGER PRIMARY KEY, remaining BIGINT, version BIGINT, {token}, {claim})"
    ))?;
    let redis = redis::Client::open(redis_url.as_str())?;
    println!(
        "{STOCK} items, {BUYERS} buyers who want {} together\n",
        BUYERS as i64 * WISHES
    );
    println!("way            sold  round trips per sale      ms");
    for way in [
        Way::Nothing,
        Way::Conditional,
        Way::Version,
        Way::LockAndFence,
        Way::Script,
    ] {
        database.sql("DELETE FROM stock")?;
        database.sql(&format!("INSERT INTO stock VALUES (1, {STOCK}, 1)"))?;
        server.ask(&["SET", "stock", &STOCK.to_string()])?;
        let mut buyers = Vec::new();
        for _ in 0..BUYERS {
            buyers.push(buyer(&database.url(), &redis, &redis_url).await?);
        }
        ROUNDS.store(0, Ordering::Relaxed);
        let start = Instant::now();
        let tasks: Vec<_> = buyers
            .into_iter()
            .map(|buyer| tokio::spawn(shop(buyer, way)))
            .collect();
        let mut sold = 0;
        for task in tasks {
            sold += task.await??;
        }
        let (took, rounds) = (start.elapsed().as_millis(), ROUNDS.load(Ordering::Relaxed));
        let verdict = if sold > STOCK { "OVERSOLD" } else { "" };
        let way = format!("{way:?}");
        println!(
            "{way:<14} {sold:4}  {:20.1}  {took:6}  {verdict}",
            rounds as f64 / sold as f64
        );
        assert!(way == "Nothing" || sold == STOCK, "{way} sold {sold}");
    }
    Ok(())
}

async fn shop(buyer: Buyer, way: Way) -> Result<i64> {
    let mut bought = 0;
    for _ in 0..WISHES {
        bought += i64::from(buyer.buy(way).await?);
    }
    Ok(bought)
}
