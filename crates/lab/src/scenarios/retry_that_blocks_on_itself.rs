//! A lost answer: the server has granted the lock, and the client that asks again finds it taken, by itself.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::{Proxy, Redis, ReplyLoss};

use crate::Result;
use crate::actor::Answer;
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{connect, lock_on, through};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "retry-that-blocks-on-itself",
    title: Text {
        en: "A retry that blocks on itself",
        zh: "重试时被自己的锁挡住",
    },
    story: Text {
        en: "SET NX is done, and its answer is lost with the connection. The client connects again, asks again, and waits for \
             whoever has the lock: itself.",
        zh: "SET NX 已经执行，应答却随连接一起丢了。客户端重连后再次请求，等待锁的持有者，而那正是它自己。",
    },
    proves: "N1, N2, L5, bug 58",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "SET NX only tells that the key is there, not that it is one's own.",
                zh: "SET NX 只告诉你键已存在，不会告诉你那就是你自己的。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "The retry carries the same claim id, and the server finds that claim in the list and answers as it did.",
                zh: "重试带着同一个声明 ID，服务器在队列里认出它，给出与之前相同的回答。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(3);

fn lose_next_answer(stage: &Stage, proxy: &Proxy) -> Result<()> {
    proxy.lose(ReplyLoss::next(1).reset())?;
    let how = "the next answer is lost".to_owned();
    stage.note("client A", What::LinkBroken { how });
    Ok(())
}

fn naive(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let proxy = Proxy::to(redis.address())?;
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let mut a = stage.client("client A")?;
    wait_until("client A is connected", || {
        Ok(a.ask(through(&proxy, &["PING"]))?.text() == Some("PONG"))
    })?;
    let lease = LEASE.as_millis().to_string();
    let take = through(&proxy, &["SET", "lock", "client A", "NX", "PX", &lease]);
    lose_next_answer(stage, &proxy)?;
    let first = a.ask(take.clone())?;
    if !matches!(first, Answer::Unknown(_)) {
        return Err(format!("the answer was not lost: {}", first.words()).into());
    }
    proxy.heal()?;
    stage.note("client A", What::LinkHealed);

    let began = Instant::now();
    let mut tries = 0;
    while began.elapsed() < PATIENCE {
        tries += 1;
        if a.ask(take.clone())?.text().is_some() {
            return Ok(Outcome::Prevented(format!(
                "Client A got the lock at try {tries}."
            )));
        }
        sleep(Duration::from_millis(200));
    }
    let owner = redis.ask(&["GET", "lock"])?.text();
    let left = redis.ask(&["PTTL", "lock"])?.text();
    Ok(Outcome::Harm(format!(
        "Client A asked {tries} more times in {PATIENCE:?} in vain; the lock is held by {owner}, for {left} ms more, and \
         nobody works."
    )))
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let proxy = Proxy::to(redis.address())?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let mut a = stage.client("client A")?;
    let url = format!("redis://{}", proxy.address());
    connect(&mut a, &url)?;
    lose_next_answer(stage, &proxy)?;
    let began = Instant::now();
    let answer = a.acquire(&lock_on(&url, LEASE))?;
    let took = began.elapsed();
    if proxy.lost_replies() == 0 {
        return Err("no answer was lost".into());
    }
    let lost = proxy.lost_replies();
    Ok(if answer.is_granted() && took < LEASE {
        Outcome::Prevented(format!(
            "{lost} answer was lost, and the retry of client A found its own claim: {} after {} ms, with a lease of \
             {LEASE:?}.",
            answer.words(),
            took.as_millis()
        ))
    } else {
        Outcome::Harm(format!(
            "Client A waited {took:?} for its own claim: {}.",
            answer.words()
        ))
    })
}
