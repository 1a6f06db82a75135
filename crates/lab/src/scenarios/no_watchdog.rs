//! A watchdog of the field, which renews the key, not the lock: also when the key is somebody else's by now.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::actor::{Answer, Deed};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{first_words, granted, insist, lock_on, set_nx, wait_for_nx};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "no-watchdog",
    title: Text {
        en: "No watchdog, or one that renews whatever it finds",
        zh: "没有看门狗，或者看门狗见键就续",
    },
    story: Text {
        en: "A home-made watchdog says PEXPIRE to the key every now and then. Client A stands still past its lease, client B \
             takes the lock and dies with it, and A's watchdog wakes up and keeps the lock of the dead alive.",
        zh: "自制的看门狗每隔一会儿就对键执行 PEXPIRE。客户端 A 停顿超过租约，客户端 B 取得锁后死去；A 的看门狗醒来，一直替死者续命。",
    },
    proves: "N1, N2, W2, W4, L4",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "PEXPIRE renews the key whoever it belongs to.",
                zh: "PEXPIRE 不看键属于谁，一律续期。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "A renewal names its own claim; A's claim is gone, so its watchdog reports the loss and renews nothing.",
                zh: "续期只针对自己的声明；A 的声明已不在，看门狗只报告丢锁，不再续期。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(1500);
/// Two leases: whoever is not in by then is not let in.
const PATIENCE: Duration = Duration::from_secs(3);

fn naive(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let mut c = stage.client("client C")?;
    let lease = LEASE.as_millis().to_string();
    let renew = ["PEXPIRE", "lock", lease.as_str()];
    set_nx(&mut a, &redis, LEASE)?;
    a.redis(&redis, &renew)?;
    a.pause()?;
    wait_for_nx(&mut b, &redis, LEASE)?;
    a.resume()?;
    // On a slow machine the lease of client B may be over before the watchdog is awake: then once more.
    wait_until(
        "the watchdog of client A renews the lock of client B",
        || {
            set_nx(&mut b, &redis, LEASE)?;
            Ok(a.redis(&redis, &renew)?.as_deref() == Some("1"))
        },
    )?;
    b.kill()?;

    let (began, mut renewals, mut tries) = (Instant::now(), 0, 0);
    while began.elapsed() < PATIENCE {
        let renewed = a.redis(&redis, &renew)?;
        renewals += u32::from(renewed.as_deref() == Some("1"));
        tries += 1;
        if set_nx(&mut c, &redis, LEASE)? {
            return Ok(Outcome::Prevented(format!(
                "Client C got the lock at try {tries}."
            )));
        }
        sleep(LEASE / 6);
    }
    let owner = redis.ask(&["GET", "lock"])?.text();
    Ok(Outcome::Harm(format!(
        "The lock belongs to {owner}, which is dead; the watchdog of client A renewed it {renewals} times in {PATIENCE:?}, \
         and client C asked {tries} times in vain."
    )))
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let mut c = stage.client("client C")?;
    let ask = lock_on(&redis.url(), LEASE);
    let first = granted(&mut a, &ask)?;
    a.pause()?;
    let second = granted(&mut b, &ask)?;
    b.kill()?;
    a.resume()?;

    let (began, waits) = (Instant::now(), Deed::Acquire(ask.clone()));
    c.begin(&waits)?;
    let told = a.check("lock")?;
    let mut answer = c.finish(&waits)?;
    if matches!(answer, Answer::Unknown(_)) {
        answer = insist(&mut c, &ask)?;
    }
    let Some(third) = answer.token() else {
        let words = answer.words();
        return Ok(Outcome::Harm(format!("Client C was not let in: {words}")));
    };
    Ok(Outcome::Prevented(format!(
        "Client A (token {first}) stood still and was told on waking: {}; client B (token {second}) died, and client C \
         (token {third}) had the lock {:.1} s later, with a lease of {LEASE:?}.",
        first_words(&told),
        began.elapsed().as_secs_f64()
    )))
}
