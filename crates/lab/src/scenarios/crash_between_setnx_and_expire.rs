//! Two commands for one lock: `SETNX`, then `EXPIRE`, and a crash in between.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Proxy, Redis};

use crate::Result;
use crate::actor::Deed;
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{claims, connect, dies_after_setnx, insist, lock_on};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "crash-between-setnx-and-expire",
    title: Text {
        en: "A crash between SETNX and EXPIRE",
        zh: "崩溃发生在 SETNX 与 EXPIRE 之间",
    },
    story: Text {
        en: "So the lock gets an expiry: SETNX, then EXPIRE. They are two commands, and a process that dies between them \
             leaves a key that never expires.",
        zh: "于是给锁加上过期时间：先 SETNX，再 EXPIRE。这是两条命令，进程若死在两者之间，留下的键就永不过期。",
    },
    proves: "N1, N2, L2",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The expiry was to come with a second command, and whoever was to send it is dead.",
                zh: "过期时间要靠第二条命令来设置，而该发送它的进程已经死了。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "One script takes the lock and sets its expiry, so there is no moment between the two.",
                zh: "加锁与设置过期时间由同一个脚本原子完成，两者之间没有空隙。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(1);

fn naive(stage: &Stage) -> Result<Outcome> {
    dies_after_setnx(stage, "before it could say EXPIRE")
}

/// The earliest death there is: the server has the lock, and the client does not know it yet.
fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let proxy = Proxy::to(redis.address())?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let url = format!("redis://{}", proxy.address());
    connect(&mut a, &url)?;
    proxy.delay_replies(Duration::from_secs(60))?;
    let how = "replies are held back".to_owned();
    stage.note("client A", What::LinkBroken { how });
    a.begin(&Deed::Acquire(lock_on(&url, LEASE)))?;
    let mut ttl = String::new();
    wait_until("the server has the claim", || {
        let Some(key) = claims(&redis)? else {
            return Ok(false);
        };
        ttl = redis.ask(&["PTTL", &key])?.text();
        Ok(true)
    })?;
    a.kill()?;

    let began = Instant::now();
    let answer = insist(&mut b, &lock_on(&redis.url(), LEASE))?;
    if !answer.is_granted() {
        let words = answer.words();
        return Ok(Outcome::Harm(format!("Client B was not let in: {words}")));
    }
    Ok(Outcome::Prevented(format!(
        "Client A died when the server had just taken its claim, which had {ttl} ms to live from the first; client B had \
         the lock {:.1} s later.",
        began.elapsed().as_secs_f64()
    )))
}
