//! Redlock, and a client that stands still while the votes are on their way to it: only a check after they came helps.

use std::time::Duration;

use lockkeeper_testbed::Setup;

use crate::Result;
use crate::actor::{Ask, Client, Deed};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, granted, judge_deposits, lock_on, read_account};
use super::redlock::{Five, Votes};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "redlock-pause-before-the-check",
    title: Text {
        en: "Redlock: a pause before the validity check",
        zh: "Redlock：有效期检查之前的停顿",
    },
    story: Text {
        en: "All five nodes have voted, but the client is stopped before it reads the last answer, and the lease ends \
             meanwhile. A library that only counts votes hands out a lock that somebody else has by now.",
        zh: "五个节点都投了票，客户端却在读到最后一个应答之前停住，租约就在这期间到期。只数选票的库会交出一把早已属于别人的锁。",
    },
    proves: "N1, N2, Q1, bug 27",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The votes were counted, and nobody asked how old they were.",
                zh: "只数了选票，没有人问这些选票是多久以前的。",
            },
            play: naive,
        },
        Part {
            name: "check",
            expects: Expects::NoHarm,
            why: Text {
                en: "The published algorithm subtracts the time of asking from the lease, and nothing was left.",
                zh: "公开的算法会从租约里减去询问所花的时间，结果什么也没剩下。",
            },
            play: check,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "A vote counts only if it is read well before the lease ends, counted from before the question; these were read too \
                     late.",
                zh: "选票只有在租约到期之前早早读到才算数，租约从发出询问之前算起；这些选票读得太晚了。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(1500);

fn naive(stage: &Stage) -> Result<Outcome> {
    by_hand(stage, false)
}

fn check(stage: &Stage) -> Result<Outcome> {
    by_hand(stage, true)
}

/// Client A asks all five nodes and is stopped while the last vote is on its way.
fn by_hand(stage: &Stage, checks: bool) -> Result<Outcome> {
    let (five, account) = (Five::start(&Setup::new())?, account(stage)?);
    let _truth = five.watch(stage);
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    // Connected before, so that nothing but the vote is on its way.
    five.ask_all(&mut a, LEASE)?;
    five.give_back(&mut a)?;
    let mut votes = Votes::none(LEASE);
    for number in 1..=4 {
        let answer = a.ask(five.vote(&a, number, LEASE))?;
        votes.count(&answer);
    }
    five.hold_answers_back(stage, &[5])?;
    let last = five.vote(&a, 5, LEASE);
    a.begin(&last)?;
    wait_until("node 5 has voted", || {
        let voted = five.node(5).ask(&["EXISTS", "lock"])?;
        Ok(voted.text() == "1")
    })?;
    a.pause()?;
    five.heal(stage, &[5])?;

    five.take(&mut b, LEASE * 20)?;
    let read_by_b = read_account(&mut b, &account)?;
    a.resume()?;
    let answer = a.finish(&last)?;
    votes.count(&answer);
    let number = votes.number;
    let believes = votes.are_majority() && (!checks || votes.are_valid());
    if believes {
        a.believes("lock", None);
        let read = read_account(&mut a, &account)?;
        deposit(&mut b, &account, read_by_b, 20, None)?;
        deposit(&mut a, &account, read, 10, None)?;
        return judge_deposits(
            &account,
            &format!("Client A counted {number} votes of 5 after client B had got the lock."),
        );
    }
    deposit(&mut b, &account, read_by_b, 20, None)?;
    five.give_back(&mut b)?;
    b.gives_back("lock");
    five.take(&mut a, LEASE * 20)?;
    let read = read_account(&mut a, &account)?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        &format!(
            "Client A counted {number} votes of 5, found no time left of its lease of {LEASE:?}, and asked again after \
             client B."
        ),
    )
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let (five, account) = (Five::start(&Setup::new())?, account(stage)?);
    let ask = lock_on(&five.url(LEASE * 60), LEASE);
    let _truth = stage.watch_lock(&ask.url, "redlock", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let first = asks_all(stage, &mut a, &five, &ask)?;

    granted(&mut b, &ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    a.resume()?;
    let answer = a.finish(&first)?;
    if answer.is_granted() {
        let read = read_account(&mut a, &account)?;
        deposit(&mut b, &account, read_by_b, 20, None)?;
        deposit(&mut a, &account, read, 10, None)?;
        return judge_deposits(&account, "Client A was granted the lock of client B.");
    }
    deposit(&mut b, &account, read_by_b, 20, None)?;
    b.release("lock")?;
    granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        &format!(
            "The votes of 5 nodes waited for client A until its lease of {LEASE:?} had ended; it got no guard ({}), and asked \
             again after client B.",
            first_clause(&answer.words())
        ),
    )
}

/// The rest of an error is advice.
fn first_clause(words: &str) -> &str {
    words.split(';').next().unwrap_or(words)
}

/// Client A has asked all nodes and stands still; the answers wait for it.
fn asks_all(stage: &Stage, a: &mut Client, five: &Five, ask: &Ask) -> Result<Deed> {
    // Connected before, so that nothing but the votes is on its way.
    granted(a, ask)?;
    a.release("lock")?;
    let all = [1, 2, 3, 4, 5];
    five.hold_answers_back(stage, &all)?;
    let once = Deed::Acquire(Ask {
        within_ms: 0,
        ..ask.clone()
    });
    a.begin(&once)?;
    wait_until("all nodes have voted", || {
        Ok(five.with_key("redlock:lock:lock")? == 5)
    })?;
    a.pause()?;
    five.heal(stage, &all)?;
    Ok(once)
}
