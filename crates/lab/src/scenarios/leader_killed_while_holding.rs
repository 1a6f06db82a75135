//! The server that knows who holds is killed: one Redis that keeps nothing, against three members of etcd.

use std::time::Duration;

use lockkeeper_testbed::{Etcd, EtcdThree, Redis};

use crate::Result;
use crate::actor::{Deed, redis};
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, judge_deposits, lock_on, read_account};
use super::stopped_holder::granted;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "leader-killed-while-holding",
    title: Text {
        en: "The leader is killed while a lock is held",
        zh: "持锁期间，主节点被杀死",
    },
    story: Text {
        en: "A lock is only as lasting as the memory of whoever keeps it. A single Redis without persistence forgets it \
             with its process; a majority that agreed on it does not forget it with its leader.",
        zh: "锁能存在多久，取决于记录它的一方能记多久。没有持久化的单个 Redis，进程一死就忘了锁；而多数派已经达成一致的锁，\
             不会随主节点一起消失。",
    },
    proves: "N1, N2, L1, F1, W2",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The server came back empty, and an empty server gives the lock to whoever asks first.",
                zh: "服务器重启后数据为空，而空的服务器会把锁交给第一个来要的人。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "Two of the three members knew the claim and its lease, and the keeper went on with the one that now leads.",
                zh: "三个成员中有两个知道这把锁和它的租约，客户端随即与新的主节点继续工作。",
            },
            play: lockkeeper,
        },
    ],
};

/// Longer than an election on a busy machine.
const LEASE: Duration = Duration::from_secs(5);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (server, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_key(&server, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    a.redis(&server, &["SET", "lock", "client A", "NX", "PX", "60000"])?;
    a.believes("lock", None);
    let read = read_account(&mut a, &account)?;
    let take = ["SET", "lock", "client B", "NX", "PX", "60000"];
    if b.redis(&server, &take)?.is_some() {
        return Err("the lock excludes nobody even before the crash".into());
    }
    stage.kill("redis", server.server())?;
    stage.restart("redis", server.server(), false)?;
    wait_until("client B gets the lock", || {
        // Its first question may meet the connection that the crash broke.
        Ok(b.ask(redis(&server, &take))?.text().is_some())
    })?;
    b.believes("lock", None);
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        "The server was killed and started again long before the lock would have expired, and both clients held it.",
    )
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (etcd, account) = (EtcdThree::start()?, account(stage)?);
    let places: Vec<String> = etcd.addresses().iter().map(ToString::to_string).collect();
    let ask = lock_on(&format!("etcd://{}", places.join(",")), LEASE);
    let _truth = stage.watch_lock(&ask.url, "etcd", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let token_of_a = granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    let waits = Deed::Acquire(ask);
    b.begin(&waits)?;

    let killed = kill_leader(stage, &etcd)?;
    wait_until("client A renews its lease with the new leader", || {
        let renewed = |what: &What| matches!(what, What::Renewed { .. });
        let history = stage.history();
        let mut after = history.iter().filter(|event| event.at > killed);
        Ok(after.any(|event| event.lane == "client A" && renewed(&event.what)))
    })?;
    if let Some(early) = b.finish_within(&waits, Duration::from_millis(1)) {
        let words = early.words();
        return Ok(Outcome::Harm(format!(
            "Client B was answered while client A held: {words}."
        )));
    }
    deposit(&mut a, &account, read, 10, None)?;
    a.release("lock")?;
    let token_of_b = b.finish(&waits)?.token().ok_or("client B was not let in")?;
    let read = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read, 20, None)?;
    if token_of_b <= token_of_a {
        return Ok(Outcome::Harm(format!(
            "Client B has token {token_of_b} after token {token_of_a} of client A."
        )));
    }
    let what = format!(
        "Client A held and renewed through the change of leader with token {token_of_a}, and client B was let in after \
         its release, with token {token_of_b}."
    );
    judge_deposits(&account, &what)
}

/// Kills who leads, and gives the time of this history at which another one leads.
fn kill_leader(stage: &Stage, etcd: &EtcdThree) -> Result<u64> {
    let mut old = None;
    wait_until("somebody leads", || {
        old = etcd.leader().map(Etcd::address);
        Ok(old.is_some())
    })?;
    let mut nodes = etcd.nodes().iter().zip(1..);
    let (leader, number) = nodes
        .find(|(node, _)| Some(node.address()) == old)
        .ok_or("the leader is none of the three")?;
    stage.kill(&format!("etcd {number}"), leader.server())?;
    wait_until("another one leads", || {
        Ok(etcd
            .leader()
            .is_some_and(|node| Some(node.address()) != old))
    })?;
    stage.tell("etcd", "another member leads");
    Ok(stage.recorder().now())
}
