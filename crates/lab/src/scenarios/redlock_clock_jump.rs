//! Redlock, and a node whose clock jumps: what it voted for is over too early.

use std::time::Duration;

use lockkeeper_testbed::Setup;

use crate::Result;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit_fenced, granted, judge_late_deposit, lock_on, read_account};
use super::redlock::{Five, keeps_out, second_majority};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "redlock-clock-jump",
    title: Text {
        en: "Redlock: the clock of one node jumps",
        zh: "Redlock：一个节点的时钟跳变",
    },
    story: Text {
        en: "Client A has the votes of three nodes of five, and an administrator or NTP sets the clock of one of them forward. \
             Redis ends leases by the wall clock, so that node votes for client B at once.",
        zh: "客户端 A 拿到五个节点中三个的选票，随后管理员或 NTP 把其中一个节点的时钟往前拨。Redis 按系统时钟判断过期，\
             这个节点立刻就会投票给客户端 B。",
    },
    proves: "N1, N2, Q1, F1, F2, bug 31",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The lease was counted by a clock that somebody may set.",
                zh: "租约由一个可以被人拨动的时钟来计算。",
            },
            play: naive,
        },
        Part {
            name: "watchdog",
            expects: Expects::NoHarm,
            why: Text {
                en: "Each renewal puts the claim on every node that can be reached, so one clock of five cannot turn the \
                     majority.",
                zh: "每次续期都会把锁补到所有能连上的节点，五个时钟里错一个改变不了多数派。",
            },
            play: watchdog,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "With a bare majority no Redlock can help, lockkeeper's neither: two hold, but the second has the higher \
                     number.",
                zh: "票数刚好过半时，任何 Redlock 都无能为力，lockkeeper 的也一样：会有两个持有者，但后来者的编号更大。",
            },
            play: fence,
        },
    ],
};

/// Far longer than the story: only the clock that jumps ends one.
const LEASE: Duration = Duration::from_secs(30);
const JUMP: Duration = Duration::from_secs(3600);

fn movable() -> Setup {
    Setup::new().movable_clock()
}

fn naive(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&movable())?, account(stage)?);
    let _truth = five.watch(stage);
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    five.cut(stage, &[4, 5])?;
    let votes = five.take(&mut a, LEASE)?;
    let read = read_account(&mut a, &account)?;
    five.heal(stage, &[4, 5])?;
    five.clock_forward(stage, 3, JUMP)?;

    second_majority(&five, (&mut a, &votes, read), &mut b, LEASE, &account)
}

fn watchdog(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&movable())?, account(stage)?);
    let ask = lock_on(&five.url(LEASE), Duration::from_secs(2));
    let _truth = stage.watch_lock(&ask.url, "redlock", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    five.cut(stage, &[4, 5])?;
    granted(&mut a, &ask)?;
    let voted = five.with_key("redlock:lock:lock")?;
    let read = read_account(&mut a, &account)?;
    five.heal(stage, &[4, 5])?;
    wait_until("the claim is on all nodes", || {
        Ok(five.with_key("redlock:lock:lock")? == 5)
    })?;
    five.clock_forward(stage, 3, JUMP)?;

    let how = format!("Client A's {voted} votes were 5 after a renewal, one was lost by the jump");
    keeps_out((&mut a, read), &mut b, &ask, &account, &how)
}

fn fence(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&movable())?, account(stage)?);
    let mut ask = lock_on(&five.url(LEASE), LEASE);
    // No renewal puts the claim on more than the three nodes.
    ask.fixed = true;
    let _truth = stage.watch_lock(&ask.url, "redlock", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    five.cut(stage, &[4, 5])?;
    granted(&mut a, &ask)?;
    let voted = five.with_key("redlock:lock:lock")?;
    let read = read_account(&mut a, &account)?;
    five.heal(stage, &[4, 5])?;
    five.clock_forward(stage, 3, JUMP)?;

    granted(&mut b, &ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit_fenced(&mut b, &account, read_by_b, 20)?;
    let checked = a.check("lock")?;
    let late = deposit_fenced(&mut a, &account, read, 10)?;
    judge_late_deposit(
        &account,
        &late,
        &format!(
            "Client A had {voted} votes; after the jump client B was let in while client A's guard still said {}.",
            checked.words()
        ),
    )
}
