//! A lock in a cache: when the memory is full, the server throws it away.

use std::time::Duration;

use lockkeeper_testbed::{Redis, Setup};

use crate::Result;
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{
    account, claims, deposit, granted, judge_deposits, judge_stale_write, lock_on, read_account,
    set_nx,
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "evicted-by-memory-pressure",
    title: Text {
        en: "The lock is evicted by memory pressure",
        zh: "锁被内存淘汰策略清除",
    },
    story: Text {
        en: "The lock lives in the Redis that is also the cache, with a limit on memory and volatile-ttl. What ends soonest is \
             thrown out first, and of all keys that is the lock.",
        zh: "锁放在兼作缓存的 Redis 里，内存有上限，淘汰策略是 volatile-ttl。最快过期的键最先被淘汰，而那正是锁。",
    },
    proves: "N1, N2, F1, F3, bug 73",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "To the server the lock is a key like any other, and it needed the room.",
                zh: "对服务器来说锁只是一个普通的键，内存不够就清掉。",
            },
            play: naive,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "No client can keep the server from throwing a lock away, but the next token is higher, and the fence \
                     refuses the lower one; lockkeeper calls such a server best effort when it connects.",
                zh: "客户端无法阻止服务器清除锁；但下一个令牌更大，围栏会拒绝较小的令牌。lockkeeper 连接时就把这种服务器标为尽力而为。",
            },
            play: fence,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(60);
/// Room for cached things above what the server needs for itself.
const ROOM: u64 = 2 << 20;

/// A cache whose memory is not full yet.
fn cache() -> Result<Redis> {
    let redis = Redis::start_with(&Setup::new().setting("maxmemory-policy", "volatile-ttl"))?;
    let info = redis.ask(&["INFO", "memory"])?.text();
    let used = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("used_memory:"));
    let used: u64 = used.ok_or("the server does not tell its memory")?.parse()?;
    let limit = (used + ROOM).to_string();
    redis.ask(&["CONFIG", "SET", "maxmemory", &limit])?;
    Ok(redis)
}

/// Others cache things for an hour until the lock is gone; tells how many.
fn fill(stage: &Stage, redis: &Redis, is_there: impl Fn() -> Result<bool>) -> Result<u64> {
    let (page, mut pages) = ("x".repeat(50_000), 0);
    wait_until("the lock is evicted", || {
        pages += 1;
        let key = format!("page {pages}");
        redis.ask(&["SET", &key, &page, "EX", "3600"])?;
        Ok(!is_there()?)
    })?;
    let of = "pages cached".to_owned();
    let number = pages;
    stage.note("redis", What::Counted { of, number });
    Ok(pages)
}

fn naive(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (cache()?, account(stage)?);
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    set_nx(&mut a, &redis, LEASE)?;
    let read = read_account(&mut a, &account)?;
    let there = || Ok(redis.ask(&["EXISTS", "lock"])?.text() == "1");
    let pages = fill(stage, &redis, there)?;
    if !set_nx(&mut b, &redis, LEASE)? {
        let kept_out = "Client B was kept out: the lock is still there.";
        return Ok(Outcome::Prevented(kept_out.to_owned()));
    }
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    deposit(&mut a, &account, read, 10, None)?;
    let told = format!(
        "After {pages} cached pages the server had thrown away the lock of client A, and client B came in."
    );
    judge_deposits(&account, &told)
}

fn fence(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (cache()?, account(stage)?);
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let ask = lock_on(&redis.url(), LEASE);
    let older = granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    let pages = fill(stage, &redis, || Ok(claims(&redis)?.is_some()))?;
    let newer = granted(&mut b, &ask)?;
    let told = format!(
        "After {pages} cached pages the server had thrown away the lock of client A (token {older}), and client B (token \
         {newer}) came in."
    );
    judge_stale_write(&mut a, read, &mut b, &account, &told)
}
