//! Redlock, and a node that comes back without its data: it votes a second time.

use std::time::Duration;

use lockkeeper_testbed::Setup;

use crate::Result;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::{account, granted, lock_on, read_account};
use super::redlock::{Five, keeps_out, second_majority};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "redlock-node-restarted-empty",
    title: Text {
        en: "Redlock: a node restarted without its data",
        zh: "Redlock：节点重启后数据丢失",
    },
    story: Text {
        en: "Client A has the votes of three nodes of five; one of the three crashes and comes back empty. Together with the \
             two that never voted it makes a second majority, while client A's lease still runs.",
        zh: "客户端 A 拿到五个节点中三个的选票；其中一个崩溃，重启后空空如也。它与另外两个从未投票的节点凑成第二个多数派，\
             而客户端 A 的租约还远未到期。",
    },
    proves: "N1, N2, Q5",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "A node that forgot its vote votes again, and two majorities need only one such node in common.",
                zh: "忘了自己投过票的节点会再投一次；两个多数派之间只要有一个这样的公共节点就够了。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "The node's marker is gone with its data, so it abstains until every lease that it may have forgotten is \
                     over.",
                zh: "节点的标记随数据一起丢失，所以它一直弃权，直到它可能忘记的每个租约都已到期。",
            },
            play: lockkeeper,
        },
    ],
};

/// Far longer than the story: nothing here happens because a lease ends.
const LEASE: Duration = Duration::from_secs(30);

fn naive(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&Setup::new())?, account(stage)?);
    let _truth = five.watch(stage);
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    five.cut(stage, &[4, 5])?;
    let votes = five.take(&mut a, LEASE)?;
    let read = read_account(&mut a, &account)?;
    five.heal(stage, &[4, 5])?;
    five.restart_empty(stage, 3)?;

    second_majority(&five, (&mut a, &votes, read), &mut b, LEASE, &account)
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&Setup::new())?, account(stage)?);
    let mut ask = lock_on(&five.url(LEASE), LEASE);
    // A renewal would put the claim on all nodes: here only the abstention helps.
    ask.fixed = true;
    let _truth = stage.watch_lock(&ask.url, "redlock", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    five.cut(stage, &[4, 5])?;
    granted(&mut a, &ask)?;
    let voted = five.with_key("redlock:lock:lock")?;
    let read = read_account(&mut a, &account)?;
    five.heal(stage, &[4, 5])?;
    five.restart_empty(stage, 3)?;

    let how = format!("Client A had {voted} votes, one of them forgotten");
    keeps_out((&mut a, read), &mut b, &ask, &account, &how)
}
