//! ZooKeeper: the holder is stopped for longer than its session lasts.

use std::time::Duration;

use lockkeeper_testbed::ZooKeeper;

use crate::Result;
use crate::actor::{Answer, Ask, Client, Deed, ZooKeeperVerb};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, judge_deposits, lock_on, read_account};
use super::stopped_holder::{looks_first, writes_blindly};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "zookeeper-session-ended-during-a-pause",
    title: Text {
        en: "A ZooKeeper session ends during a pause",
        zh: "进程暂停期间，ZooKeeper 会话失效",
    },
    story: Text {
        en: "An ephemeral node has no expiry to guess: it lives as long as its session. But a session lives only as long \
             as its client is heard, and a client that is stopped, by a garbage collection or by its machine, is not.",
        zh: "临时节点不需要猜测过期时间：会话在，节点就在。但客户端一旦停顿（垃圾回收，或者整台机器被挂起），心跳随之中断，\
             会话就会失效。",
    },
    proves: "N1, N2, L7, F1, F3",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The server took the node away while the holder could not hear of it, and nothing at the account asks.",
                zh: "服务器删除节点时，持有者根本听不到；而账户那边没有任何检查。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "A guard counts its own time, on a clock that also runs while the process stands still.",
                zh: "守卫用自己的时钟计时，进程停住时这个时钟照样走。",
            },
            play: lockkeeper,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "No look is early enough if the pause comes after it, but the resource knows the higher token.",
                zh: "检查之后仍然可能停顿，检查再早也没用；但资源记得更大的令牌。",
            },
            play: fence,
        },
    ],
};

const SESSION: Duration = Duration::from_secs(2);
/// Of those whose session does not end in the story.
const LONG: Duration = Duration::from_secs(20);
const NODE: &str = "/lock";

fn naive(stage: &Stage) -> Result<Outcome> {
    let (zookeeper, account) = (ZooKeeper::start()?, account(stage)?);
    let address = zookeeper.address().to_string();
    let read = ZooKeeperVerb::Read { path: NODE.into() };
    let _truth = stage.watch_by("zookeeper", "lock", asked(&address, LONG, read))?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    take(&mut a, &address, SESSION)?;
    stage.show_holder("client A");
    let read = read_account(&mut a, &account)?;
    a.pause()?;
    take(&mut b, &address, LONG)?;
    stage.show_holder("client B");
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    a.resume()?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        "Client A stood still for longer than its session of 2 s, client B was let in, and client A went on.",
    )
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let zookeeper = ZooKeeper::start()?;
    looks_first(stage, &ask(&zookeeper), "zookeeper")
}

fn fence(stage: &Stage) -> Result<Outcome> {
    let zookeeper = ZooKeeper::start()?;
    writes_blindly(stage, &ask(&zookeeper), "zookeeper")
}

/// Asks until the node is there and is this client's, which it may be by an attempt whose answer was lost.
fn take(client: &mut Client, address: &str, session: Duration) -> Result<()> {
    let create = ZooKeeperVerb::Create {
        path: NODE.into(),
        sequential: false,
    };
    let create = asked(address, session, create);
    let read = asked(address, session, ZooKeeperVerb::Read { path: NODE.into() });
    wait_until("a client makes the node", || {
        Ok(match client.ask(create.clone())? {
            Answer::Text(_) => true,
            Answer::Nothing => client.ask(read.clone())?.text() == Some(client.name()),
            _ => false,
        })
    })?;
    client.believes("lock", None);
    Ok(())
}

fn asked(address: &str, session: Duration, verb: ZooKeeperVerb) -> Deed {
    Deed::ZooKeeper {
        address: address.to_owned(),
        session_ms: u64::try_from(session.as_millis()).unwrap_or(u64::MAX),
        verb,
    }
}

fn ask(zookeeper: &ZooKeeper) -> Ask {
    let session = SESSION.as_millis();
    let url = format!("zookeeper://{}?session={session}ms", zookeeper.address());
    lock_on(&url, SESSION)
}
