//! A row as a lock: inserted by the holder, who dies before it deletes it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::Postgres;

use crate::Result;
use crate::actor::{Answer, sql};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::{held, insist, lock_on};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "table-lock-left-behind-by-a-crash",
    title: Text {
        en: "A table lock is left behind by a crash",
        zh: "崩溃后，锁表里的行没人清理",
    },
    story: Text {
        en: "A table with a unique name makes a lock of every database: whoever inserts the row holds, and deletes it \
             when done. The database keeps its promise and keeps the row, also of a holder that is dead.",
        zh: "一张带唯一约束的表，就能让任何数据库变成锁：谁插入成功，谁就持有，用完再删除。数据库很守信用：\
             持有者死了，行也照样保留。",
    },
    proves: "N1, N2, L3, S1",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The row has neither an end nor a living owner, and nobody else may delete it safely.",
                zh: "这一行既没有期限，也没有活着的主人，别人又不敢随便删除。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "The row carries an end by the clock of the server, and the next one takes it over in one transaction.",
                zh: "行里带有按服务器时钟计算的期限，过期后由下一个人在同一个事务中接管。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(1500);
/// Several leases: whoever is not in by then is not let in.
const PATIENCE: Duration = Duration::from_secs(3);
const TABLE: &str = "CREATE TABLE locks (name text PRIMARY KEY, owner text NOT NULL)";

fn naive(stage: &Stage) -> Result<Outcome> {
    let postgres = Postgres::start()?;
    postgres.sql(TABLE)?;
    let url = postgres.url();
    let look = sql(&url, "SELECT owner FROM locks WHERE name = 'lock'");
    let _truth = stage.watch_by("postgres", "lock", look)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let insert = |owner: &str| format!("INSERT INTO locks VALUES ('lock', '{owner}')");
    let inserted = a.sql(&url, &insert("client A"))?;
    if inserted.text() != Some("1") {
        return Err(format!("client A did not get the lock: {}", inserted.words()).into());
    }
    a.believes("lock", None);
    stage.show_holder("client A");
    a.kill()?;

    let began = Instant::now();
    let (mut tries, mut said) = (0, Answer::Nothing);
    while began.elapsed() < PATIENCE {
        tries += 1;
        said = b.sql(&url, &insert("client B"))?;
        if said.text().is_some() {
            return Ok(Outcome::Prevented(format!(
                "Client B got the lock at try {tries}."
            )));
        }
        sleep(Duration::from_millis(200));
    }
    Ok(Outcome::Harm(format!(
        "Client A died with the lock, and client B tried {tries} times in {PATIENCE:?} in vain ({}).",
        said.words()
    )))
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let postgres = Postgres::start()?;
    let ask = lock_on(&postgres.url(), LEASE);
    let _truth = stage.watch_lock(&ask.url, "postgres", "lock")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let dead = held(stage, &mut a, &ask)?;
    a.kill()?;
    let began = Instant::now();
    let answer = insist(&mut b, &ask)?;
    let waited = began.elapsed().as_secs_f64();
    let Some(next) = answer.token() else {
        return Ok(Outcome::Harm(format!(
            "Client B was not let in: {}.",
            answer.words()
        )));
    };
    stage.show_holder("client B");
    Ok(Outcome::Prevented(format!(
        "Client A died with the lock (token {dead}), and client B took it over {waited:.1} s later (token {next}), when \
         the lease of {LEASE:?} had ended."
    )))
}
