//! A fence that checks first and writes afterwards: between the two there is room for another writer.

use std::time::Duration;

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::actor::{Client, redis};
use crate::history::What;
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::{account, granted, lock_on, read_account};
use super::stopped_holder::writes_blindly;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "two-delayed-writers-in-order",
    title: Text {
        en: "Two delayed writers, and a fence that checks before it writes",
        zh: "两个迟到的写入者，和一道先检查后写入的栅栏",
    },
    story: Text {
        en: "The tokens rise, and every writer compares its own with the highest one before it writes. One is delayed between \
             comparison and write; a newer one compares, finds nothing higher either, and writes; then the older write lands.",
        zh: "令牌递增，每个写入者在写入之前都先与最大的令牌比较。一个写入者在比较与写入之间被耽搁；较新的写入者也比较了，\
             同样没看到更大的令牌，于是写入；随后旧的写入才落下。",
    },
    proves: "N1, N2, F3",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "A comparison holds only for the moment in which it is made, and the write came later.",
                zh: "比较的结果只在比较的那一刻成立，而写入发生在那之后。",
            },
            play: naive,
        },
        Part {
            name: "fence",
            expects: Expects::NoHarm,
            why: Text {
                en: "Comparison and write are one step of the resource, so nothing fits in between.",
                zh: "比较和写入是资源的同一个原子步骤，中间插不进任何东西。",
            },
            play: fence,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(1);
const HIGHEST: &str = "account:highest";

fn naive(stage: &Stage) -> Result<Outcome> {
    let (server, account) = (Redis::start()?, account(stage)?);
    let ask = lock_on(&server.url(), LEASE);
    let _truth = stage.watch_lock(&ask.url, "redis", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let token = granted(&mut a, &ask)?;
    let read = read_account(&mut a, &account)?;
    let seen = highest(&mut a, &account)?;
    a.pause()?;

    let token_of_b = granted(&mut b, &ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    let seen_by_b = highest(&mut b, &account)?;
    if seen_by_b < token_of_b {
        write(stage, &mut b, &account, read_by_b + 20, token_of_b)?;
    }
    a.resume()?;
    if seen < token {
        write(stage, &mut a, &account, read + 10, token)?;
    }
    let balance = account.ask(&["GET", "account"])?.text();
    let highest = account.ask(&["GET", HIGHEST])?.text();
    Ok(match balance.as_str() {
        "110" => Outcome::Harm(format!(
            "Client A compared its token {token} with {seen} and was delayed; client B wrote 120 with token {token_of_b}, then \
             client A's 110 came: the stale write stands, and the highest token is {highest} again."
        )),
        other => Outcome::Prevented(format!(
            "The account has {other} and the highest token is {highest}."
        )),
    })
}

/// The naive fence's first step.
fn highest(client: &mut Client, account: &Redis) -> Result<u64> {
    let seen = client.redis(account, &["GET", HIGHEST])?;
    Ok(seen.map_or(Ok(0), |seen| seen.parse())?)
}

/// Its second step, in the belief that the first one still holds.
fn write(stage: &Stage, client: &mut Client, account: &Redis, sum: i64, token: u64) -> Result<()> {
    let (value, number) = (sum.to_string(), token.to_string());
    let both = redis(account, &["MSET", "account", &value, HIGHEST, &number]);
    let answer = client.ask(both)?;
    answer.text().ok_or_else(|| answer.words())?;
    stage.note(
        "resource",
        What::Write {
            resource: "account".to_owned(),
            value,
            token: Some(token),
            accepted: true,
            note: format!("by {}", client.name()),
        },
    );
    Ok(())
}

fn fence(stage: &Stage) -> Result<Outcome> {
    let server = Redis::start()?;
    writes_blindly(stage, &lock_on(&server.url(), LEASE), "redis")
}
