//! A grant that is over when it arrives: the answer takes longer than the lease.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Proxy, Redis};

use crate::Result;
use crate::actor::{Answer, Deed};
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{
    account, claims, connect, deposit, first_words, granted, judge_deposits, lock_on, read_account,
    through, wait_for_nx,
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "grant-slower-than-its-own-lease",
    title: Text {
        en: "A grant slower than its own lease",
        zh: "加锁成功的应答比租约还慢",
    },
    story: Text {
        en: "The server grants the lock at once, and the answer is held up in the network for longer than the lease. When OK \
             arrives, somebody else has the lock.",
        zh: "服务器立刻给了锁，应答却在网络中耽搁得比租约还久。等 OK 到达时，锁已归别人。",
    },
    proves: "N1, N2, L6, L7, bug 26",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The lease runs from the moment at which the server wrote it, and the client counts from the answer.",
                zh: "租约从服务器写入时开始计算，客户端却从收到应答时才开始算。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "The lease is counted from before the question, so an answer that comes after its end grants nothing.",
                zh: "租约从发出请求之前开始计算，过期之后才到的应答不算加锁成功。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(900);
/// Of those whose lease must not end.
const LONG: Duration = Duration::from_secs(30);

/// From now on the client's answers are held back until the proxy is healed.
fn hold_back(stage: &Stage, proxy: &Proxy) -> Result<()> {
    proxy.delay_replies(Duration::from_secs(60))?;
    let how = "replies are held back".to_owned();
    stage.note("client A", What::LinkBroken { how });
    Ok(())
}

fn heal(stage: &Stage, proxy: &Proxy) -> Result<()> {
    proxy.heal()?;
    stage.note("client A", What::LinkHealed);
    Ok(())
}

fn naive(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let proxy = Proxy::to(redis.address())?;
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    a.ask(through(&proxy, &["PING"]))?;
    hold_back(stage, &proxy)?;
    let lease = LEASE.as_millis().to_string();
    let take = through(&proxy, &["SET", "lock", "client A", "NX", "PX", &lease]);
    let began = Instant::now();
    a.begin(&take)?;
    wait_until("the server has granted the lock to client A", || {
        Ok(redis.ask(&["GET", "lock"])?.text() == "client A")
    })?;
    wait_for_nx(&mut b, &redis, LONG)?;
    let read_by_b = read_account(&mut b, &account)?;
    heal(stage, &proxy)?;
    let answer = a.finish(&take)?;
    let took = began.elapsed();
    if answer != Answer::Text("OK".to_owned()) {
        let words = answer.words();
        return Ok(Outcome::Prevented(format!("Client A was told: {words}.")));
    }
    a.believes("lock", None);
    let read = read_account(&mut a, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        &format!(
            "OK reached client A {:.1} s after its question, with a lease of {LEASE:?}, when client B had the lock.",
            took.as_secs_f64()
        ),
    )
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let proxy = Proxy::to(redis.address())?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let url = format!("redis://{}", proxy.address());
    connect(&mut a, &url)?;
    hold_back(stage, &proxy)?;
    let ask = lock_on(&url, LEASE);
    let waits = Deed::Acquire(ask.clone());
    a.begin(&waits)?;
    wait_until("the server has granted the lock to client A", || {
        Ok(claims(&redis)?.is_some())
    })?;
    granted(&mut b, &lock_on(&redis.url(), LONG))?;
    let read_by_b = read_account(&mut b, &account)?;
    heal(stage, &proxy)?;
    // Whoever believes now writes beside client B.
    let early = a.finish_within(&waits, LEASE);
    let believes = early.as_ref().is_some_and(Answer::is_granted);
    let read_early = believes
        .then(|| read_account(&mut a, &account))
        .transpose()?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    b.release("lock")?;
    let read = match read_early {
        Some(read) => read,
        None => {
            let waited = early.clone().map_or_else(|| a.finish(&waits), Ok)?;
            if !waited.is_granted() {
                granted(&mut a, &ask)?;
            }
            read_account(&mut a, &account)?
        }
    };
    deposit(&mut a, &account, read, 10, None)?;
    let told = early.map_or("nothing yet".to_owned(), |answer| first_words(&answer));
    let told = format!("While client B had the lock, client A was told: {told}.");
    judge_deposits(&account, &told)
}
