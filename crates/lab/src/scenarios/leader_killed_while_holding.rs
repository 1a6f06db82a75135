//! The server that knows who holds is killed: one Redis that keeps nothing, against three that agree.

use std::net::SocketAddr;
use std::time::Duration;

use lockkeeper_testbed::{Etcd, EtcdThree, Redis, Server, ZooKeeper, ZooKeeperThree};

use crate::Result;
use crate::actor::{Answer, Deed, redis};
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, held, judge_deposits, lock_on, read_account};

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
            play: on_etcd,
        },
        Part {
            name: "lockkeeper-zookeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "A session belongs to the ensemble and not to a server, so it goes on with whichever server is left.",
                zh: "会话属于整个集群，而不属于某一台服务器，所以换一台服务器就能继续。",
            },
            play: on_zookeeper,
        },
    ],
};

/// Longer than an election on a busy machine.
const LEASE: Duration = Duration::from_secs(9);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (server, account) = (Redis::start()?, account(stage)?);
    let _truth = stage.watch_key(&server, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    a.redis(&server, &["SET", "lock", "client A", "NX", "PX", "60000"])?;
    a.believes("lock", None);
    stage.show_holder("client A");
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
    stage.show_holder("client B");
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        "The server was killed and started again long before the lock would have expired, and both clients held it.",
    )
}

fn on_etcd(stage: &Stage) -> Result<Outcome> {
    let etcd = EtcdThree::start()?;
    let ensemble = Ensemble {
        lane: "etcd",
        url: format!("etcd://{}", list(&etcd.addresses())),
        nodes: etcd.nodes().iter().map(Etcd::server).collect(),
        leader: &|| etcd.leader().map(Etcd::address),
    };
    survives(stage, &ensemble)
}

fn on_zookeeper(stage: &Stage) -> Result<Outcome> {
    let zookeeper = ZooKeeperThree::start()?;
    let session = LEASE.as_millis();
    let hosts = list(&zookeeper.addresses());
    let ensemble = Ensemble {
        lane: "zookeeper",
        url: format!("zookeeper://{hosts}?session={session}ms"),
        nodes: zookeeper.nodes().iter().map(ZooKeeper::server).collect(),
        leader: &|| zookeeper.leader().map(ZooKeeper::address),
    };
    survives(stage, &ensemble)
}

/// Servers that elect one of them.
struct Ensemble<'a> {
    lane: &'static str,
    url: String,
    nodes: Vec<&'a Server>,
    leader: &'a dyn Fn() -> Option<SocketAddr>,
}

fn survives(stage: &Stage, ensemble: &Ensemble<'_>) -> Result<Outcome> {
    let account = account(stage)?;
    let ask = lock_on(&ensemble.url, LEASE);
    let _truth = stage.watch_lock(&ask.url, ensemble.lane, "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let token_of_a = held(stage, &mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    let waits = Deed::Acquire(ask.clone());
    b.begin(&waits)?;
    stage.await_line(&ask.url, "lock", 1)?;

    let since = kill_leader(stage, ensemble)?;
    wait_until("client A hears from the new leader", || {
        let history = stage.history();
        let mut of_a = history.iter().filter(|event| event.lane == "client A");
        Ok(of_a.any(|event| match event.what {
            What::Renewed { .. } => event.at > since,
            What::Lost { .. } => true,
            _ => false,
        }))
    })?;
    let seen = a.check("lock")?;
    let early = b.finish_within(&waits, Duration::from_millis(1));
    let both = early.as_ref().is_some_and(Answer::is_granted);
    if both || matches!(seen, Answer::Lost(_)) {
        let early = early.map_or("still waits".to_owned(), |answer| answer.words());
        return Ok(Outcome::Harm(format!(
            "After the change of leader client A: {}; client B: {early}.",
            seen.words()
        )));
    }
    deposit(&mut a, &account, read, 10, None)?;
    a.release("lock")?;
    let answer = early.map_or_else(|| b.finish(&waits), Ok)?;
    // Nobody led for a moment, so client B may have to ask again.
    let token_of_b = answer
        .token()
        .map_or_else(|| held(stage, &mut b, &ask), Ok)?;
    stage.show_holder("client B");
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
fn kill_leader(stage: &Stage, ensemble: &Ensemble<'_>) -> Result<u64> {
    let mut old = None;
    wait_until("somebody leads", || {
        old = (ensemble.leader)();
        Ok(old.is_some())
    })?;
    let mut nodes = ensemble.nodes.iter().zip(1..);
    let (leader, number) = nodes
        .find(|(node, _)| Some(node.address()) == old)
        .ok_or("the leader is none of the three")?;
    stage.kill(&format!("{} {number}", ensemble.lane), leader)?;
    wait_until("another one leads", || {
        Ok((ensemble.leader)().is_some_and(|address| Some(address) != old))
    })?;
    stage.tell(ensemble.lane, "another one leads");
    Ok(stage.recorder().now())
}

fn list(addresses: &[SocketAddr]) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(",")
}
