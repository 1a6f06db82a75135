//! A random id in place of a number: the resource can tell two holders apart, but not which of them came first.

use std::time::Duration;

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::actor::Client;
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit_fenced, granted, judge_late_deposit, lock_on, read_account};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "compare-and-set-with-a-random-id",
    title: Text {
        en: "Compare-and-set with a random id: exclusion without order",
        zh: "用随机 ID 做比较并设置：有互斥，无先后",
    },
    story: Text {
        en: "Redlock has no rising number, so its random value is proposed as the check: mark the resource with it, and write \
             only if the mark is still there. But a client that lost the lock long ago may mark as well as the one that has it.",
        zh: "Redlock 没有递增的编号，于是有人提议用它的随机值来检查：先在资源上做标记，写入时标记还在才写。可是早已失去锁的客户端，\
             同样可以做标记。",
    },
    proves: "N1, N2, F7, F3",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "Random ids are equal or not, none is older: the resource cannot know which mark must not replace which.",
                zh: "随机 ID 只有相等与不等，没有新旧：资源无从知道哪个标记不该覆盖哪个。",
            },
            play: naive,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "A rising number is an id with an order: once the newer one was seen, the older one cannot come back.",
                zh: "递增的编号是带先后顺序的 ID：一旦见过新的，旧的就再也回不来。",
            },
            play: fence,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(1);
const MARK: &str = "account:mark";
/// Writes if the mark is still this one's.
const COMPARE_AND_SET: &str = "if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end \
     redis.call('SET', KEYS[1], ARGV[2]) return 1";

fn naive(stage: &Stage) -> Result<Outcome> {
    let (server, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_key(&server, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    take(&mut a, &server, LEASE)?;
    a.pause()?;

    take(&mut b, &server, LEASE * 30)?;
    mark(&mut b, &account)?;
    let read_by_b = read_account(&mut b, &account)?;
    a.resume()?;
    mark(&mut a, &account)?;
    let read = read_account(&mut a, &account)?;
    let b_wrote = write_if_marked(stage, &mut b, &account, read_by_b + 20)?;
    let a_wrote = write_if_marked(stage, &mut a, &account, read + 10)?;

    let holder = server.ask(&["GET", "lock"])?.text();
    let balance = account.ask(&["GET", "account"])?.text();
    Ok(if a_wrote && !b_wrote && holder == b.name() {
        Outcome::Harm(format!(
            "The lock is held by {holder}, whose write was refused, because client A, whose lease of {LEASE:?} had ended, had put \
             its mark over the other; the {balance} of client A stand."
        ))
    } else {
        Outcome::Prevented(format!(
            "The lock is held by {holder}, and the account has {balance}."
        ))
    })
}

/// Takes the lock with the client's own id as its value.
fn take(client: &mut Client, server: &Redis, lease: Duration) -> Result<()> {
    let (id, lease_ms) = (client.name().to_owned(), lease.as_millis().to_string());
    wait_until("the lock is free", || {
        let take = ["SET", "lock", &id, "NX", "PX", &lease_ms];
        Ok(client.redis(server, &take)?.is_some())
    })?;
    client.believes("lock", Some(lease));
    Ok(())
}

fn mark(client: &mut Client, account: &Redis) -> Result<()> {
    let id = client.name().to_owned();
    client.redis(account, &["SET", MARK, &id])?;
    Ok(())
}

fn write_if_marked(stage: &Stage, client: &mut Client, account: &Redis, sum: i64) -> Result<bool> {
    let (id, value) = (client.name().to_owned(), sum.to_string());
    let swap = ["EVAL", COMPARE_AND_SET, "2", "account", MARK, &id, &value];
    let accepted = client.redis(account, &swap)?.as_deref() == Some("1");
    let note = if accepted {
        format!("by {id}, whose mark was there")
    } else {
        format!("by {id}, whose mark was gone")
    };
    let write = What::Write {
        resource: "account".to_owned(),
        value,
        token: None,
        accepted,
        note,
    };
    stage.note("resource", write);
    Ok(accepted)
}

fn fence(stage: &Stage) -> Result<Outcome> {
    let (server, account) = (Redis::start()?, account(stage)?);
    let ask = lock_on(&server.url(), LEASE);
    let _truth = stage.watch_lock(&ask.url, "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    a.pause()?;

    granted(&mut b, &ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    // Its mark: what is there, under its own number.
    deposit_fenced(&mut b, &account, read_by_b, 0)?;
    a.resume()?;
    let late = deposit_fenced(&mut a, &account, read, 10)?;
    deposit_fenced(&mut b, &account, read_by_b, 20)?;
    judge_late_deposit(
        &account,
        &late,
        "Client B marked the account with its number, then client A came with an older one, then client B wrote.",
    )
}
