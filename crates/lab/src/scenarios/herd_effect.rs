//! Thirty wait for one lock of ZooKeeper: whom does a release wake?

use std::time::Duration;

use lockkeeper_testbed::ZooKeeper;

use crate::Result;
use crate::actor::{Client, Deed, ZooKeeperVerb};
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{held, lock_on};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "herd-effect",
    title: Text {
        en: "One release wakes the whole herd",
        zh: "一次释放，惊醒所有等待者（惊群）",
    },
    story: Text {
        en: "The simplest lock of ZooKeeper is one common node that everybody who waits watches. When it is deleted \
             everybody is told, everybody asks, one wins, and the rest watch again: work that grows with the square of \
             the crowd.",
        zh: "最简单的 ZooKeeper 锁只有一个公共节点，所有等待者都监听它。节点一删除，所有人都收到通知、都来争抢，\
             只有一个成功，其余的重新监听：总工作量随人数的平方增长。",
    },
    proves: "N1, N2, W5, W6",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "All of them watch the same node, so its deletion is news for all of them.",
                zh: "所有人监听同一个节点，它被删除就要通知所有人。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "Each claim has a node of its own in a queue, and watches only the one whose leaving can let it in.",
                zh: "每个等待者在队列里有自己的节点，只监听排在它前面、离开后轮到自己的那一个。",
            },
            play: lockkeeper,
        },
    ],
};

const CROWD: u64 = 30;
/// Nobody's session ends in this story.
const SESSION: Duration = Duration::from_secs(30);
/// More notifications than these would grow with the crowd.
const FEW: u64 = 2;

fn naive(stage: &Stage) -> Result<Outcome> {
    let zookeeper = ZooKeeper::start()?;
    let address = zookeeper.address().to_string();
    let path = || "/lock".to_owned();
    let read = verb(&address, ZooKeeperVerb::Read { path: path() });
    let _truth = stage.watch_by("zookeeper", "lock", read)?;
    let (mut a, mut crowd) = (stage.client("client A")?, stage.client("crowd")?);
    let lock = verb(&address, ZooKeeperVerb::LockCommon { path: path() });
    done(&mut a, lock.clone())?;
    a.believes("lock", None);
    crowd_up(&mut crowd, lock)?;
    wait_until("all of them watch", || {
        Ok(figure(&zookeeper, "zk_watch_count")? >= CROWD)
    })?;

    let before = notifications(&zookeeper)?;
    a.gives_back("lock");
    done(
        &mut a,
        verb(&address, ZooKeeperVerb::Delete { path: path() }),
    )?;
    let told = count(stage, &zookeeper, before, &mut crowd)?;
    judge(told)
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let zookeeper = ZooKeeper::start()?;
    let session = SESSION.as_millis();
    let url = format!("zookeeper://{}?session={session}ms", zookeeper.address());
    let _truth = stage.watch_lock(&url, "zookeeper", "lock")?;
    let (mut a, mut crowd) = (stage.client("client A")?, stage.client("crowd")?);
    let ask = lock_on(&url, SESSION);
    held(stage, &mut a, &ask)?;
    crowd_up(&mut crowd, Deed::Acquire(ask))?;
    stage.await_line(&url, "lock", usize::try_from(CROWD)?)?;
    wait_until("all of them watch", || {
        Ok(figure(&zookeeper, "zk_watch_count")? >= 2 * CROWD)
    })?;

    let before = notifications(&zookeeper)?;
    a.release("lock")?;
    let told = count(stage, &zookeeper, before, &mut crowd)?;
    judge(told)
}

fn judge(told: u64) -> Result<Outcome> {
    let seen = format!("One release with {CROWD} waiting let one in; notifications sent: {told}.");
    match told {
        0 => Err("one was let in without having been told".into()),
        1..=FEW => Ok(Outcome::Prevented(seen)),
        _ => Ok(Outcome::Harm(seen)),
    }
}

/// All of the crowd begin to wait.
fn crowd_up(crowd: &mut Client, deed: Deed) -> Result<()> {
    let (size, each) = (usize::try_from(CROWD)?, Box::new(deed));
    done(crowd, Deed::Crowd { size, each })
}

/// How many notifications the server has sent once one of the crowd was let in.
fn count(stage: &Stage, zookeeper: &ZooKeeper, before: u64, crowd: &mut Client) -> Result<u64> {
    wait_until("one of the crowd is let in", || {
        let answer = crowd.ask(Deed::CrowdDone)?;
        Ok(answer.text().ok_or_else(|| answer.words())? == "1")
    })?;
    let number = notifications(zookeeper)? - before;
    let of = format!("notifications for one release, {CROWD} waiting");
    stage.note("zookeeper", What::Counted { of, number });
    Ok(number)
}

/// How many watchers the server has told of a node's end or of a change below it, by its own count.
fn notifications(zookeeper: &ZooKeeper) -> Result<u64> {
    let deleted = figure(zookeeper, "zk_sum_node_deleted_watch_count")?;
    let below = figure(zookeeper, "zk_sum_node_children_watch_count")?;
    Ok(deleted + below)
}

fn figure(zookeeper: &ZooKeeper, name: &str) -> Result<u64> {
    let all = zookeeper.ask("mntr")?;
    let mut lines = all.lines().filter_map(|line| line.split_once('\t'));
    let found = lines.find(|(key, _)| *key == name);
    let (_, value) = found.ok_or_else(|| format!("the server does not tell {name}"))?;
    Ok(value.trim().parse()?)
}

fn verb(address: &str, verb: ZooKeeperVerb) -> Deed {
    Deed::ZooKeeper {
        address: address.to_owned(),
        session_ms: u64::try_from(SESSION.as_millis()).unwrap_or(u64::MAX),
        verb,
    }
}

fn done(client: &mut Client, deed: Deed) -> Result<()> {
    let answer = client.ask(deed)?;
    let failed = || format!("{}: {}", client.name(), answer.words());
    answer.text().map(drop).ok_or_else(|| failed().into())
}
