//! The first lock of all: `SETNX` without an expiry, and a holder that dies.

use std::time::{Duration, Instant};

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::{dies_after_setnx, held, insist, lock_on};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "crash-without-expiry",
    title: Text {
        en: "A crash with no expiry",
        zh: "崩溃且没有过期时间",
    },
    story: Text {
        en: "The first lock of the field is SETNX: whoever creates the key holds the lock, and deletes it when done. A \
             holder that dies in between never deletes it.",
        zh: "最早的分布式锁只有 SETNX：谁建了键，谁就持有锁，用完再删除。持有者若在中途死去，键就永远留在那里。",
    },
    proves: "N1, N2, L4",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "Nothing but the dead holder would ever delete the key.",
                zh: "除了已死的持有者，没有人会删除这个键。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "Every claim has a lease that its own watchdog renews, and a dead process renews nothing.",
                zh: "每个锁都有租约，由持有者自己的看门狗续期；死去的进程不会再续期。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(1);

fn naive(stage: &Stage) -> Result<Outcome> {
    dies_after_setnx(stage, "with the lock")
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let ask = lock_on(&redis.url(), LEASE);
    held(stage, &mut a, &ask)?;
    a.kill()?;
    let began = Instant::now();
    let next = insist(&mut b, &ask)?;
    if !next.is_granted() {
        let words = format!("Client B was not let in: {}", next.words());
        return Ok(Outcome::Harm(words));
    }
    Ok(Outcome::Prevented(format!(
        "Client A died with the lock, and client B had it {:.1} s later, when the lease of {LEASE:?} had ended.",
        began.elapsed().as_secs_f64()
    )))
}
