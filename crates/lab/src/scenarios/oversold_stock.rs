//! Stock that is sold more often than it is there, and five ways not to; a lock is only one of them.

use std::time::Duration;

use lockkeeper_testbed::{Postgres, Redis};

use crate::Result;
use crate::actor::{Answer, Client, redis, sql};
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{granted, lock_on};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "oversold-stock",
    title: Text {
        en: "Stock oversold without a lock, and five ways not to",
        zh: "不加锁的超卖，以及五种避免的办法",
    },
    story: Text {
        en: "One item is left and three customers want it. Each of their servers reads that there is one, sells it, and writes \
             that there is none.",
        zh: "库存只剩一件，三位顾客都想要。三台服务器都读到还有一件，都卖了出去，再各自写回库存为零。",
    },
    proves: "N1, N2, C3, F3",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "Each decided by what it had read, and nobody looked again when writing.",
                zh: "每一方都按先前读到的数来决定，写入时没有人再看一眼。",
            },
            play: naive,
        },
        Part {
            name: "conditional-update",
            expects: Expects::NoHarm,
            why: Text {
                en: "One statement looks and takes, and the database lets one at a time do so: no lock is needed.",
                zh: "一条语句同时完成检查与扣减，数据库保证同一时刻只有一条在执行：不需要锁。",
            },
            play: conditional_update,
        },
        Part {
            name: "version-column",
            expects: Expects::NoHarm,
            why: Text {
                en: "A write counts only if the row still has the version that was read; whoever comes second reads again.",
                zh: "只有行的版本还是读到的那个版本，写入才算数；晚到的一方重新读取。",
            },
            play: version_column,
        },
        Part {
            name: "row-lock",
            expects: Expects::NoHarm,
            why: Text {
                en: "SELECT FOR UPDATE makes the second reader wait until the first has written.",
                zh: "SELECT FOR UPDATE 让后来的读者一直等到前一个写完。",
            },
            play: row_lock,
        },
        Part {
            name: "one-script",
            expects: Expects::NoHarm,
            why: Text {
                en: "Redis runs one script at a time, so looking and taking cannot be parted: no lock is needed.",
                zh: "Redis 一次只执行一个脚本，检查与扣减无法被拆开：不需要锁。",
            },
            play: one_script,
        },
        Part {
            name: "lock-and-fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "The lock lets one in at a time, and the row refuses whoever was stopped for so long that it is not the one any \
                     more.",
                zh: "锁让每次只有一方进入；谁停得太久、已不再持有，数据行就拒绝谁。",
            },
            play: lock_and_fence,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(1);
/// How long one buyer is listened to before the next.
const A_LOOK: Duration = Duration::from_millis(20);
const READ: &str = "SELECT remaining FROM stock WHERE id = 1";
const READ_WITH_VERSION: &str = "SELECT remaining || ' ' || version FROM stock WHERE id = 1";
/// KEYS: stock, orders; ARGV: buyer. Gives 1 if there was one left.
const SELL: &str = "if tonumber(redis.call('GET', KEYS[1])) < 1 then return 0 end \
     redis.call('DECR', KEYS[1]) redis.call('RPUSH', KEYS[2], ARGV[1]) return 1";

/// One item, and three who want it.
struct Shop {
    database: Postgres,
    url: String,
    buyers: Vec<Client>,
}

fn open(stage: &Stage) -> Result<Shop> {
    let database = Postgres::start()?;
    database.sql(
        "CREATE TABLE stock (id INTEGER PRIMARY KEY, remaining BIGINT, version BIGINT, fence_token BIGINT);
         CREATE TABLE orders (buyer TEXT);
         INSERT INTO stock VALUES (1, 1, 1, 0)",
    )?;
    let (url, buyers) = (database.url(), buyers(stage)?);
    Ok(Shop {
        database,
        url,
        buyers,
    })
}

fn buyers(stage: &Stage) -> Result<Vec<Client>> {
    let names = ["client A", "client B", "client C"];
    names.into_iter().map(|name| stage.client(name)).collect()
}

impl Shop {
    /// What this buyer reads is left.
    fn left(&mut self, buyer: usize) -> Result<i64> {
        let answer = self.buyers[buyer].sql(&self.url, READ)?;
        Ok(answer.text().ok_or_else(|| answer.words())?.parse()?)
    }

    /// All three read before any of them writes.
    fn all_read(&mut self) -> Result<Vec<i64>> {
        (0..3).map(|buyer| self.left(buyer)).collect()
    }

    /// Runs a statement that takes an item; tells whether it changed a row.
    fn take(&mut self, stage: &Stage, buyer: usize, statement: &str) -> Result<bool> {
        let answer = self.buyers[buyer].sql(&self.url, statement)?;
        let taken = changed(&answer)?;
        self.note(stage, buyer, taken);
        Ok(taken)
    }

    /// Takes the order of a buyer who has an item.
    fn order(&mut self, buyer: usize) -> Result<()> {
        let name = self.buyers[buyer].name();
        let order = format!("INSERT INTO orders VALUES ('{name}')");
        changed(&self.buyers[buyer].sql(&self.url, &order)?)?;
        Ok(())
    }

    fn note(&self, stage: &Stage, buyer: usize, accepted: bool) {
        note_sale(stage, self.buyers[buyer].name(), accepted);
    }

    fn judge(&self, what_happened: &str) -> Result<Outcome> {
        let sold = self.database.sql("SELECT count(*) FROM orders")?;
        judge(sold.trim().parse()?, what_happened)
    }
}

fn changed(answer: &Answer) -> Result<bool> {
    match answer {
        Answer::Text(rows) => Ok(rows != "0"),
        Answer::Nothing => Ok(false),
        other => Err(other.words().into()),
    }
}

fn note_sale(stage: &Stage, buyer: &str, accepted: bool) {
    let note = if accepted { "sold to" } else { "not sold to" };
    let write = What::Write {
        resource: "stock".to_owned(),
        value: "one less".to_owned(),
        token: None,
        accepted,
        note: format!("{note} {buyer}"),
    };
    stage.note("resource", write);
}

fn judge(sold: i64, what_happened: &str) -> Result<Outcome> {
    let words = format!("{what_happened} There was 1 item; sold: {sold}.");
    Ok(match sold {
        1 => Outcome::Prevented(words),
        _ => Outcome::Harm(words),
    })
}

fn naive(stage: &Stage) -> Result<Outcome> {
    let mut shop = open(stage)?;
    let read = shop.all_read()?;
    for (buyer, left) in read.into_iter().enumerate() {
        if left > 0 {
            let less = left - 1;
            let take = format!("UPDATE stock SET remaining = {less} WHERE id = 1");
            shop.take(stage, buyer, &take)?;
            shop.order(buyer)?;
        }
    }
    shop.judge("All three read before any of them wrote.")
}

fn conditional_update(stage: &Stage) -> Result<Outcome> {
    let mut shop = open(stage)?;
    shop.all_read()?;
    let take = "UPDATE stock SET remaining = remaining - 1 WHERE id = 1 AND remaining > 0";
    let deed = sql(&shop.url, take);
    for buyer in &mut shop.buyers {
        buyer.begin(&deed)?;
    }
    for buyer in 0..3 {
        let taken = changed(&shop.buyers[buyer].finish(&deed)?)?;
        shop.note(stage, buyer, taken);
        if taken {
            shop.order(buyer)?;
        }
    }
    shop.judge("All three took at once, each on the condition that one is left.")
}

fn version_column(stage: &Stage) -> Result<Outcome> {
    let mut shop = open(stage)?;
    let mut read = Vec::new();
    for buyer in &mut shop.buyers {
        let row = buyer.sql(&shop.url, READ_WITH_VERSION)?;
        let (left, version) = row
            .text()
            .and_then(|row| row.split_once(' '))
            .ok_or("no row")?;
        read.push((left.parse::<i64>()?, version.to_owned()));
    }
    let mut again = Vec::new();
    for (buyer, (left, version)) in read.iter().enumerate() {
        let less = left - 1;
        let take = format!(
            "UPDATE stock SET remaining = {less}, version = version + 1 WHERE id = 1 AND version = {version}"
        );
        if shop.take(stage, buyer, &take)? {
            shop.order(buyer)?;
        } else {
            again.push(shop.left(buyer)?);
        }
    }
    let version = &read[0].1;
    shop.judge(&format!(
        "All three read version {version} before any of them wrote; the others found another version when writing, read again, and \
         what was left was {again:?}."
    ))
}

fn row_lock(stage: &Stage) -> Result<Outcome> {
    let mut shop = open(stage)?;
    let read = sql(&shop.url, &format!("{READ} FOR UPDATE"));
    for buyer in &mut shop.buyers {
        buyer.sql(&shop.url, "BEGIN")?;
    }
    let first = shop.buyers[0].ask(read.clone())?;
    shop.buyers[1].begin(&read)?;
    shop.buyers[2].begin(&read)?;
    wait_until("two buyers wait for the row", || {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        Ok(shop.database.sql(waiting)?.trim() == "2")
    })?;
    let mut found = vec![buy_in_transaction(stage, &mut shop, 0, &first)?];
    let mut waiting = vec![1, 2];
    // The database may let either of them go first.
    wait_until("all buyers have had their turn", || {
        for buyer in waiting.clone() {
            if let Some(answer) = shop.buyers[buyer].finish_within(&read, A_LOOK) {
                found.push(buy_in_transaction(stage, &mut shop, buyer, &answer)?);
                waiting.retain(|other| *other != buyer);
            }
        }
        Ok(waiting.is_empty())
    })?;
    shop.judge(&format!(
        "Two waited for the row while the first had it; what was left was {found:?} for one after the other."
    ))
}

/// Buys if this buyer's transaction has read that there is one, and ends the transaction; gives what it read.
fn buy_in_transaction(stage: &Stage, shop: &mut Shop, buyer: usize, read: &Answer) -> Result<i64> {
    let left: i64 = read.text().ok_or_else(|| read.words())?.parse()?;
    if left > 0 {
        let take = "UPDATE stock SET remaining = remaining - 1 WHERE id = 1";
        shop.take(stage, buyer, take)?;
        shop.order(buyer)?;
    }
    shop.buyers[buyer].sql(&shop.url, "COMMIT")?;
    Ok(left)
}

fn one_script(stage: &Stage) -> Result<Outcome> {
    let server = Redis::durable()?;
    server.ask(&["SET", "stock", "1"])?;
    let mut buyers = buyers(stage)?;
    let mut deeds = Vec::new();
    for buyer in &mut buyers {
        buyer.redis(&server, &["GET", "stock"])?;
        let sell = ["EVAL", SELL, "2", "stock", "orders", buyer.name()];
        deeds.push(redis(&server, &sell));
    }
    for (buyer, deed) in buyers.iter_mut().zip(&deeds) {
        buyer.begin(deed)?;
    }
    for (buyer, deed) in buyers.iter_mut().zip(&deeds) {
        let sold = changed(&buyer.finish(deed)?)?;
        note_sale(stage, buyer.name(), sold);
    }
    let sold = server.ask(&["LLEN", "orders"])?.text().parse()?;
    judge(sold, "All three called the script at once.")
}

fn lock_and_fence(stage: &Stage) -> Result<Outcome> {
    let (mut shop, locks) = (open(stage)?, Redis::start()?);
    let ask = lock_on(&locks.url(), LEASE);
    let _truth = stage.watch_lock(&ask.url, "redis", "lock")?;
    let mut seen = Vec::new();
    // The first buyer is stopped with what it read until the others are done.
    for buyer in [0, 1, 2] {
        let token = granted(&mut shop.buyers[buyer], &ask)?;
        let left = shop.left(buyer)?;
        seen.push((token, left));
        if buyer == 0 {
            shop.buyers[0].pause()?;
            continue;
        }
        buy_fenced(stage, &mut shop, buyer, token, left)?;
        shop.buyers[buyer].release("lock")?;
    }
    shop.buyers[0].resume()?;
    let (token, left) = seen[0];
    let late = buy_fenced(stage, &mut shop, 0, token, left)?;
    let outcome = shop.judge(&format!(
        "Client A read {left} left and stood still; client B bought with token {}, client C found {} left, and client A's write \
         with token {token} changed {}.",
        seen[1].0,
        seen[2].1,
        if late { "the row" } else { "nothing" },
    ))?;
    Ok(match outcome {
        Outcome::Prevented(words) if !late => Outcome::Refused(words),
        other => other,
    })
}

/// Buys what was read, unless a newer token has written since.
fn buy_fenced(stage: &Stage, shop: &mut Shop, buyer: usize, token: u64, left: i64) -> Result<bool> {
    if left < 1 {
        return Ok(false);
    }
    let less = left - 1;
    let take = format!(
        "UPDATE stock SET remaining = {less}, fence_token = {token} WHERE id = 1 AND fence_token < {token}"
    );
    let taken = shop.take(stage, buyer, &take)?;
    if taken {
        shop.order(buyer)?;
    }
    Ok(taken)
}
