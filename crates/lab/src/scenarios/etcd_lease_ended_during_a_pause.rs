//! etcd: the holder is stopped for longer than its lease lasts.

use std::time::Duration;

use lockkeeper_testbed::Etcd;

use crate::Result;
use crate::actor::{Ask, Client, Deed};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, judge_deposits, lock_on, read_account};
use super::stopped_holder::{looks_first, writes_blindly};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "etcd-lease-ended-during-a-pause",
    title: Text {
        en: "An etcd lease ends during a pause",
        zh: "进程暂停期间，etcd 租约到期",
    },
    story: Text {
        en: "etcd agrees by Raft on who holds, and deletes the key of a lease that nobody keeps alive. A holder that is \
             stopped keeps nothing alive, and no agreement among servers tells it so when it goes on.",
        zh: "etcd 用 Raft 对持有者达成一致；租约无人续期，键就被删除。持有者停顿时无法续期，而服务器之间再一致，\
             也没有人在它恢复时告诉它。",
    },
    proves: "N1, N2, L7, F1, F3",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "Consensus makes the lock right, not the client: the write does not go through etcd.",
                zh: "共识保证的是锁，而不是客户端：写操作并不经过 etcd。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "A guard counts its lease from before it was asked for, on a clock that runs while the process does not.",
                zh: "守卫从发出请求之前开始计算租约，进程停住时这个时钟照样走。",
            },
            play: lockkeeper,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "The token comes from etcd's revision, which only rises, and the resource remembers the highest.",
                zh: "令牌来自 etcd 的版本号（revision），只增不减，而资源记得见过的最大值。",
            },
            play: fence,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(2);
/// Of the naive lock, whose steps are programs of their own and need their time.
const NAIVE_LEASE_SECONDS: &str = "3";

fn naive(stage: &Stage) -> Result<Outcome> {
    let (etcd, account) = (Etcd::start()?, account(stage)?);
    let place = etcd.address().to_string();
    // Not more often: each look is a program.
    let look = etcdctl(&place, "sleep 0.1;", "get lock --print-value-only");
    let _truth = stage.watch_by("etcd", "lock", look)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let lease = take(&mut a, &place, NAIVE_LEASE_SECONDS)?;
    stage.show_holder("client A");
    let read = read_account(&mut a, &account)?;
    let keep_alive = format!("lease keep-alive --once {lease}");
    a.ask(etcdctl(&place, "", &keep_alive))?;
    a.pause()?;
    take(&mut b, &place, "60")?;
    stage.show_holder("client B");
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    a.resume()?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        "Client A stood still for longer than its lease of 3 s, client B was let in, and client A went on.",
    )
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let etcd = Etcd::start()?;
    looks_first(stage, &ask(&etcd), "etcd")
}

fn fence(stage: &Stage) -> Result<Outcome> {
    let etcd = Etcd::start()?;
    writes_blindly(stage, &ask(&etcd), "etcd")
}

fn ask(etcd: &Etcd) -> Ask {
    lock_on(&format!("etcd://{}", etcd.address()), LEASE)
}

/// The lock as people write it: a lease, and the key bound to it if nobody has made it yet. Gives the lease.
fn take(client: &mut Client, place: &str, seconds: &str) -> Result<String> {
    let owner = client.name().to_owned();
    let grant = etcdctl(place, "", &format!("lease grant {seconds}"));
    let mut lease = String::new();
    wait_until("a client makes the key", || {
        let granted = client.ask(grant.clone())?;
        let number = granted.text().and_then(|said| said.split(' ').nth(1));
        lease = number.ok_or_else(|| granted.words())?.to_owned();
        let transaction = format!(
            "printf 'create(\"lock\") = \"0\"\\n\\nput lock \"{owner}\" --lease={lease}\\n\\n\\n' |"
        );
        // On a busy machine the lease may have ended before the transaction came.
        let made = client.ask(etcdctl(place, &transaction, "txn"))?;
        Ok(made.text().is_some_and(|said| said.starts_with("SUCCESS")))
    })?;
    client.believes("lock", None);
    Ok(lease)
}

fn etcdctl(place: &str, before: &str, words: &str) -> Deed {
    let line = format!("{before} ETCDCTL_API=3 etcdctl --endpoints={place} {words}");
    let words = ["sh", "-c", line.trim()].map(str::to_owned).to_vec();
    Deed::Program { words }
}
