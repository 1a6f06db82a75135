//! A flash sale: within a window, while stock lasts, one per user. Six round trips under a lock against one
//! script that decides everything in one.
//!
//! `cargo run -p lockkeeper --all-features --example flash_sale`

use std::error::Error;
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const STOCK: i64 = 50;
const USERS: usize = 200;

/// KEYS: stock, buyers. ARGV: user, begin, end. Gives what happened; the server's clock decides.
const SALE: &str = "
local now = tonumber(redis.call('TIME')[1])
if now < tonumber(ARGV[2]) or now >= tonumber(ARGV[3]) then return 'closed' end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return 'again' end
if tonumber(redis.call('GET', KEYS[1])) < 1 then return 'sold out' end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[1])
return 'bought'";

async fn by_script(redis: MultiplexedConnection, user: usize) -> Result<bool> {
    let mut redis = redis;
    let script = redis::Script::new(SALE);
    let mut call = script.prepare_invoke();
    let answer: String = call
        .key("{sale}stock")
        .key("{sale}buyers")
        .arg(user % (USERS / 2))
        .arg(0)
        .arg(i64::MAX)
        .invoke_async(&mut redis)
        .await?;
    Ok(answer == "bought")
}

/// Lock, look at the stock, look at the buyers, take, note, unlock.
async fn under_lock(keeper: Keeper, redis: MultiplexedConnection, user: usize) -> Result<bool> {
    let (mut redis, user) = (redis, user % (USERS / 2));
    let guard = keeper
        .lock("sale")
        .acquire_within(Duration::from_secs(60))
        .await?;
    let left: i64 = redis.get("{sale}stock").await?;
    let again: bool = redis.sismember("{sale}buyers", user).await?;
    let buys = left > 0 && !again;
    if buys {
        redis.decr::<_, _, ()>("{sale}stock", 1).await?;
        redis.sadd::<_, _, ()>("{sale}buyers", user).await?;
    }
    guard.release().await?;
    Ok(buys)
}

#[tokio::main]
async fn main() -> Result<()> {
    let server = lockkeeper_testbed::Redis::start()?;
    let url = format!("redis://{}", server.address());
    let redis = redis::Client::open(url.as_str())?
        .get_multiplexed_async_connection()
        .await?;
    let keeper = Keeper::connect(&url).await?;
    println!("{STOCK} items, {USERS} requests, each user asks twice\n");
    for (way, rounds) in [("lock, six round trips", 6), ("one script", 1)] {
        server.ask(&["DEL", "{sale}buyers"])?;
        server.ask(&["SET", "{sale}stock", &STOCK.to_string()])?;
        let start = Instant::now();
        let tasks: Vec<_> = (0..USERS)
            .map(|user| {
                let (redis, keeper) = (redis.clone(), keeper.clone());
                tokio::spawn(async move {
                    match rounds {
                        1 => by_script(redis, user).await,
                        _ => under_lock(keeper, redis, user).await,
                    }
                })
            })
            .collect();
        let mut sold = 0;
        for task in tasks {
            sold += i64::from(task.await??);
        }
        println!("{way:<22} sold {sold} in {:?}", start.elapsed());
        assert_eq!(sold, STOCK);
    }
    Ok(())
}
