//! An asynchronous replica that is promoted before it has heard of the lock.

use std::time::Duration;

use lockkeeper_testbed::{Etcd, Sentinels};

use crate::Result;
use crate::actor::Ask;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{
    account, deposit, granted, judge_deposits, judge_stale_write, lock_on, read_account, set_nx,
};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "sentinel-fail-over",
    title: Text {
        en: "A fail-over to a replica that missed the lock",
        zh: "故障转移到没收到锁的副本",
    },
    story: Text {
        en: "Redis answers first and replicates later. The master dies with the only copy of the lock, the sentinels promote \
             a replica that never heard of it, and the lock is granted a second time.",
        zh: "Redis 先应答、后复制。主节点带着锁的唯一副本死去，哨兵提升了一个从未收到这把锁的从节点，同一把锁被再次授予。",
    },
    proves: "N1, N2, F1, F3, bug 67",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "A grant that only one server knows of dies with that server.",
                zh: "只有一台服务器知道的授权，会随那台服务器一起消失。",
            },
            play: naive,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "No lock on an asynchronous replica can prevent the second grant, but its token is higher, and the fence \
                     refuses the lower one.",
                zh: "建立在异步复制上的锁都挡不住第二次授权；但第二次的令牌更大，围栏会拒绝较小的令牌。",
            },
            play: fence,
        },
        Part {
            name: "tokens",
            expects: Expects::NoHarm,
            why: Text {
                en: "The tokens come from etcd, which forgets none, whatever the engine of the lock has lost.",
                zh: "令牌来自 etcd，无论锁所在的引擎丢了什么，令牌都不会倒退。",
            },
            play: tokens,
        },
    ],
};

/// Longer than the fail-over: client A is not asked to renew before client B has come.
const LEASE: Duration = Duration::from_secs(60);

/// Everything that is needed for a grant that the replica misses.
fn deafen_replica(stage: &Stage, sentinels: &Sentinels) -> Result<()> {
    stage.pause("redis 2", sentinels.replica().server())?;
    let master = sentinels.master();
    master.ask(&["CLIENT", "KILL", "TYPE", "replica"])?;
    Ok(())
}

/// The master dies; returns when the replica is master.
fn fail_over(stage: &Stage, sentinels: &Sentinels) -> Result<()> {
    stage.kill("redis 1", sentinels.master().server())?;
    stage.resume("redis 2", sentinels.replica().server())?;
    let next = sentinels.replica();
    wait_until("the replica is promoted", || {
        let named = sentinels.current_master()? == next.address();
        Ok(named && next.ask(&["ROLE"])?.text().starts_with("master"))
    })?;
    stage.tell("redis 2", "promoted");
    Ok(())
}

fn naive(stage: &Stage) -> Result<Outcome> {
    let (sentinels, account) = (Sentinels::start()?, account(stage)?);
    let _truth = [
        stage.watch_key(sentinels.master(), "redis 1", "lock"),
        stage.watch_key(sentinels.replica(), "redis 2", "lock"),
    ];
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    deafen_replica(stage, &sentinels)?;
    set_nx(&mut a, sentinels.master(), LEASE)?;
    let read = read_account(&mut a, &account)?;
    fail_over(stage, &sentinels)?;
    if !set_nx(&mut b, sentinels.replica(), LEASE)? {
        let kept_out = "The replica had the lock of client A, and client B was kept out.";
        return Ok(Outcome::Prevented(kept_out.to_owned()));
    }
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    deposit(&mut a, &account, read, 10, None)?;
    let told = "The promoted replica granted to client B what client A still held.";
    judge_deposits(&account, told)
}

fn fence(stage: &Stage) -> Result<Outcome> {
    played_with(stage, None)
}

fn tokens(stage: &Stage) -> Result<Outcome> {
    let etcd = Etcd::start()?;
    played_with(stage, Some(format!("etcd://{}", etcd.address())))
}

fn played_with(stage: &Stage, tokens: Option<String>) -> Result<Outcome> {
    let (sentinels, account) = (Sentinels::start()?, account(stage)?);
    let url = url_of(&sentinels);
    let _truth = stage.watch_lock(&url, "sentinels", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let ask = Ask {
        tokens,
        ..lock_on(&url, LEASE)
    };
    deafen_replica(stage, &sentinels)?;
    let older = granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    fail_over(stage, &sentinels)?;
    let newer = granted(&mut b, &ask)?;
    let told = format!(
        "The promoted replica granted to client B (token {newer}) what client A (token {older}) still held."
    );
    judge_stale_write(&mut a, read, &mut b, &account, &told)
}

fn url_of(sentinels: &Sentinels) -> String {
    let hosts = sentinels.addresses();
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let service = Sentinels::SERVICE;
    format!("redis+sentinel://{}/{service}", hosts.join(","))
}
