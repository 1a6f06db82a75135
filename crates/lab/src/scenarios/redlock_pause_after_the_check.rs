//! Redlock, and a client that stands still after its validity check: no check can help any more.

use std::time::Duration;

use lockkeeper_testbed::Setup;

use crate::Result;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{
    account, deposit, deposit_fenced, granted, judge_deposits, judge_late_deposit, lock_on,
    read_account,
};
use super::redlock::Five;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "redlock-pause-after-the-check",
    title: Text {
        en: "Redlock: a pause after the validity check",
        zh: "Redlock：有效期检查之后的停顿",
    },
    story: Text {
        en: "A client has the votes of all five nodes, checks that its lease is still valid, and is stopped right before its \
             write, by garbage collection or a full disk. When it goes on, the lock is somebody else's, and the write goes out.",
        zh: "客户端拿到五个节点的全部选票，检查确认锁仍在有效期内，却在写入之前停住了：也许是垃圾回收，也许是磁盘繁忙。\
             等它恢复运行，锁已属于别人，而这次写入照样发了出去。",
    },
    proves: "N1, N2, F1, F2",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "Between a check and the write after it there is always room for a pause, however many nodes have voted.",
                zh: "检查与随后的写入之间总容得下一次停顿，与多少节点投过票无关。",
            },
            play: naive,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "The resource itself compares the numbers of the two grants, and the older one comes too late.",
                zh: "由资源自己比较两次授权的编号，较旧的编号来得太迟，被拒绝。",
            },
            play: fence,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(1);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&Setup::new())?, account(stage)?);
    let _truth = five.watch(stage);
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let mut read = 0;
    wait_until("client A holds, has read and passes its check", || {
        let votes = five.take(&mut a, LEASE)?;
        read = read_account(&mut a, &account)?;
        Ok(votes.are_valid())
    })?;
    a.pause()?;

    five.take(&mut b, LEASE)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    a.resume()?;
    deposit(&mut a, &account, read, 10, None)?;
    five.give_back(&mut b)?;
    b.gives_back("lock");
    judge_deposits(
        &account,
        "Client A passed its validity check and stood still until client B had the lock.",
    )
}

fn fence(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&Setup::new())?, account(stage)?);
    let ask = lock_on(&five.url(LEASE * 60), LEASE);
    let _truth = stage.watch_lock(&ask.url, "redlock", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    let checked = a.check("lock")?;
    a.pause()?;

    granted(&mut b, &ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit_fenced(&mut b, &account, read_by_b, 20)?;
    a.resume()?;
    let late = deposit_fenced(&mut a, &account, read, 10)?;
    judge_late_deposit(
        &account,
        &late,
        &format!(
            "Client A asked its guard ({}) and stood still until client B had the lock.",
            checked.words()
        ),
    )
}
