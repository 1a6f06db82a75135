//! A method that holds the lock calls another that takes it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::actor::{Answer, Ask};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::{granted, insist, lock_on, set_nx};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "re-entry",
    title: Text {
        en: "Re-entry: a holder that waits for itself",
        zh: "重入：持有者等待自己",
    },
    story: Text {
        en: "The outer method takes the lock and calls an inner one, which takes the same lock. The inner one waits for the \
             outer one to give it back, and the outer one waits for the inner one to return.",
        zh: "外层方法拿到锁后调用内层方法，内层又去拿同一把锁。内层等外层释放，外层等内层返回，谁也走不了。",
    },
    proves: "N1, N2, L10",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "SET NX does not know that the one who asks is the one who holds.",
                zh: "SET NX 不知道请求者就是持有者本人。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "An owner enters its own lock again, and the lock is free only when every entry was given back.",
                zh: "同一所有者可以再次进入自己的锁；所有进入都归还之后，锁才真正释放。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(3);

fn naive(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let mut a = stage.client("client A")?;
    set_nx(&mut a, &redis, LEASE)?;
    stage.tell("client A", "the inner method asks");
    let (began, mut tries) = (Instant::now(), 0);
    while began.elapsed() < PATIENCE {
        tries += 1;
        if set_nx(&mut a, &redis, LEASE)? {
            return Ok(Outcome::Prevented(format!(
                "The inner method got the lock at try {tries}."
            )));
        }
        sleep(Duration::from_millis(200));
    }
    let owner = redis.ask(&["GET", "lock"])?.text();
    let left = redis.ask(&["PTTL", "lock"])?.text();
    Ok(Outcome::Harm(format!(
        "The inner method of client A asked {tries} times in {PATIENCE:?} in vain; the lock is held by {owner}, for {left} \
         ms more."
    )))
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let ask = lock_on(&redis.url(), LEASE);
    let outer = granted(&mut a, &ask)?;
    let began = Instant::now();
    let again = Ask {
        again: true,
        ..ask.clone()
    };
    let answer = insist(&mut a, &again)?;
    let took = began.elapsed();
    let Some(inner) = answer.token() else {
        let words = answer.words();
        return Ok(Outcome::Harm(format!(
            "The inner method was not let in: {words}"
        )));
    };
    let at_once = Ask {
        within_ms: 0,
        ..ask.clone()
    };
    a.release("lock")?;
    let beside = insist(&mut b, &at_once)?;
    a.release("lock")?;
    let after = insist(&mut b, &ask)?;
    Ok(if beside == Answer::Nothing && after.is_granted() {
        Outcome::Prevented(format!(
            "The inner method had the lock after {} ms (tokens {outer} and {inner}); client B was kept out after the first \
             release, and let in after the second.",
            took.as_millis()
        ))
    } else {
        Outcome::Harm(format!(
            "Client B was told after the first release: {}; after the second: {}.",
            beside.words(),
            after.words()
        ))
    })
}
