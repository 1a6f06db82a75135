//! The first lock of all: `SETNX` without an expiry, and a holder that dies.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::lock_on;

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
/// Several leases: whoever is not in by then is not let in.
const PATIENCE: Duration = Duration::from_secs(4);

fn naive(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    a.redis(&redis, &["SETNX", "lock", "client A"])?;
    a.believes("lock", None);
    a.kill()?;

    let began = Instant::now();
    let mut tries = 0;
    while began.elapsed() < PATIENCE {
        tries += 1;
        if b.redis(&redis, &["SETNX", "lock", "client B"])?.as_deref() == Some("1") {
            return Ok(Outcome::Prevented(format!(
                "client B got the lock at try {tries}"
            )));
        }
        sleep(Duration::from_millis(200));
    }
    let ttl = b.redis(&redis, &["PTTL", "lock"])?.unwrap_or_default();
    Ok(Outcome::Harm(format!(
        "Client A died with the lock, and client B asked {tries} times in {PATIENCE:?} in vain; the key's time to live \
         is {ttl}, which means for ever."
    )))
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let ask = lock_on(&redis.url(), LEASE);
    a.acquire(&ask)?;
    a.kill()?;
    let began = Instant::now();
    let granted = b.acquire(&ask)?;
    if !granted.is_granted() {
        return Ok(Outcome::Harm(format!(
            "Client B was not let in: {}",
            granted.words()
        )));
    }
    Ok(Outcome::Prevented(format!(
        "Client A died with the lock, and client B had it {:.1} s later, when the lease of {LEASE:?} had ended.",
        began.elapsed().as_secs_f64()
    )))
}
