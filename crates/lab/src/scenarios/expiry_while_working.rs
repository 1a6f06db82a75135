//! An expiry alone: the work takes longer than the lease.

use std::thread::sleep;
use std::time::Duration;

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::actor::Deed;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, judge_deposits, lock_on, read_account};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "expiry-while-working",
    title: Text {
        en: "The lease ends while the work goes on",
        zh: "业务还没做完，锁先过期",
    },
    story: Text {
        en: "SET NX PX lets a crash heal itself, and opens the next hole: the work takes longer than anybody thought, the key \
             expires under the worker's hands, and a second worker begins.",
        zh: "SET NX PX 让崩溃可以自愈，却打开了下一个漏洞：业务比预想的久，键在手中过期，第二个工人开始工作。",
    },
    proves: "N1, N2, W1",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The server counts the lease whether or not the work is done, and nobody told the worker.",
                zh: "不管业务是否完成，服务器照样计时；而且没有人告诉持有者。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "The watchdog renews the lease for as long as the guard lives and its process runs.",
                zh: "只要守卫还在、进程还在运行，看门狗就不断续期。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(600);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let lease = LEASE.as_millis().to_string();

    a.redis(&redis, &["SET", "lock", "client A", "NX", "PX", &lease])?;
    a.believes("lock", None);
    let read = read_account(&mut a, &account)?;
    // Client A works; B asks until it is let in.
    let take = ["SET", "lock", "client B", "NX", "PX", lease.as_str()];
    wait_until("client B gets the lock", || {
        Ok(b.redis(&redis, &take)?.is_some())
    })?;
    b.believes("lock", None);
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    b.redis(&redis, &["DEL", "lock"])?;
    b.gives_back("lock");
    deposit(&mut a, &account, read, 10, None)?;
    a.gives_back("lock");
    judge_deposits(&account, "The work took longer than the lease of 600 ms.")
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let ask = lock_on(&redis.url(), LEASE);
    a.acquire(&ask)?;
    let read = read_account(&mut a, &account)?;
    let waits = Deed::Acquire(ask.clone());
    b.begin(&waits)?;
    sleep(LEASE * 3);
    deposit(&mut a, &account, read, 10, None)?;
    a.release("lock")?;
    if !b.finish(&waits)?.is_granted() {
        return Err("client B was never let in".into());
    }
    let read = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read, 20, None)?;
    b.release("lock")?;
    judge_deposits(
        &account,
        "The work took three leases of 600 ms, and the lease was renewed all the while.",
    )
}
