//! A release that asks for no owner: `DEL`, after the own lease has ended.

use std::time::Duration;

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::actor::{Answer, Ask, Client, Deed};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::{
    account, connect, deposit, first_words, granted, judge_deposits, lock_on, read_account, set_nx,
    wait_for_nx,
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "deleting-somebody-elses-lock",
    title: Text {
        en: "Deleting somebody else's lock",
        zh: "误删别人的锁",
    },
    story: Text {
        en: "Client A works past its lease, and client B takes the lock. When A is done it deletes the key as always, which \
             is B's by now, and client C walks in beside B.",
        zh: "客户端 A 的工作超过了租约，锁由客户端 B 取得。A 做完后照例删除键，可键已属于 B，于是客户端 C 与 B 同时进入。",
    },
    proves: "N1, N2, L4, L8, bug 15",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "DEL deletes the key whoever it belongs to.",
                zh: "DEL 不看键属于谁，一律删除。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "A release names its own claim, and another's claim is not touched by it.",
                zh: "释放时要出示自己的声明 ID，别人的声明不受影响。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(600);
/// Of those whose lease must not end.
pub(super) const LONG: Duration = Duration::from_secs(30);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    set_nx(&mut a, &redis, LEASE)?;
    wait_for_nx(&mut b, &redis, LONG)?;
    let read = read_account(&mut b, &account)?;
    a.redis(&redis, &["DEL", "lock"])?;
    a.gives_back("lock");

    let told = "Client A deleted the lock of client B, and client C came in beside it.";
    judge_deleted_lock(stage, (&mut b, read), &redis, &account, told)
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (redis, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_lock(&redis.url(), "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let ask = lock_on(&redis.url(), LONG);
    let short = Ask {
        fixed: true,
        ..lock_on(&redis.url(), LEASE)
    };
    granted(&mut a, &short)?;
    granted(&mut b, &ask)?;
    let read = read_account(&mut b, &account)?;
    let told = first_words(&a.release("lock")?);

    let told = format!("Client A gave the lock back too late and was told so ({told}).");
    let mut c = stage.client("client C")?;
    pay_in_one_by_one(&mut b, read, &mut c, &ask, &account)?;
    judge_deposits(&account, &told)
}

/// Client B holds the naive lock and has read, and somebody has deleted it: whether client C comes in beside B, and what
/// that does to the account.
pub(super) fn judge_deleted_lock(
    stage: &Stage,
    (b, read): (&mut Client, i64),
    redis: &Redis,
    account: &Redis,
    how: &str,
) -> Result<Outcome> {
    let mut c = stage.client("client C")?;
    if !set_nx(&mut c, redis, LONG)? {
        let kept_out = "Client C was kept out: the lock of client B is still there.";
        return Ok(Outcome::Prevented(kept_out.to_owned()));
    }
    pay_in_beside_each_other(b, read, &mut c, account)?;
    judge_deposits(account, how)
}

/// Client B has read; client C reads too, both write.
fn pay_in_beside_each_other(
    b: &mut Client,
    read: i64,
    c: &mut Client,
    account: &Redis,
) -> Result<()> {
    let read_by_c = read_account(c, account)?;
    deposit(c, account, read_by_c, 20, None)?;
    deposit(b, account, read, 10, None)?;
    b.gives_back("lock");
    c.gives_back("lock");
    Ok(())
}

/// Client B has read; client C asks, and pays in as soon as it is let in, be it beside B.
pub(super) fn pay_in_one_by_one(
    b: &mut Client,
    read: i64,
    c: &mut Client,
    ask: &Ask,
    account: &Redis,
) -> Result<()> {
    let waits = Deed::Acquire(ask.clone());
    connect(c, &ask.url)?;
    c.begin(&waits)?;
    let beside = c.finish_within(&waits, Duration::from_millis(1500));
    if beside.as_ref().is_some_and(Answer::is_granted) {
        return pay_in_beside_each_other(b, read, c, account);
    }
    deposit(b, account, read, 10, None)?;
    b.release("lock")?;
    let waited = beside.map_or_else(|| c.finish(&waits), Ok)?;
    if !waited.is_granted() {
        granted(c, ask)?;
    }
    let read = read_account(c, account)?;
    deposit(c, account, read, 20, None)?;
    c.release("lock")?;
    Ok(())
}
