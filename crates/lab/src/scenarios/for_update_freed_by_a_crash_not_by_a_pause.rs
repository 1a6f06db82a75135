//! `SELECT … FOR UPDATE`: a lock that lasts as long as a transaction, and a transaction as long as its connection.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Postgres, Setup};

use crate::Result;
use crate::actor::{Answer, Client, sql};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::{Stage, Truth, wait_until};

use super::props::{account, deposit, judge_deposits, lock_on, read_account};
use super::stopped_holder::writes_blindly;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "for-update-freed-by-a-crash-not-by-a-pause",
    title: Text {
        en: "FOR UPDATE is freed by a crash, not by a pause",
        zh: "FOR UPDATE：崩溃会释放，暂停不会",
    },
    story: Text {
        en: "A row lock needs no expiry: it ends with its transaction, and that with its connection, so a crash frees it \
             at once. A holder that merely stands still keeps its connection, and everybody waits for it; and a server \
             that cuts it off has told it nothing.",
        zh: "行锁不需要过期时间：事务结束锁就释放，连接断开事务就结束，所以崩溃会立即释放。但持有者只是停住时，连接还在，\
             所有人都得等；服务器若强行断开它，它自己也不知道。",
    },
    proves: "N1, N2, S1, S2, L3, F3",
    parts: &[
        Part {
            name: "crash",
            expects: Expects::NoHarm,
            why: Text {
                en: "The kernel closes the connections of a dead process, and the server rolls its transaction back.",
                zh: "进程死亡时，内核会关闭它的连接，服务器随即回滚它的事务。",
            },
            play: crash,
        },
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The connection of a stopped process is as good as ever, and the lock has no end of its own.",
                zh: "进程停住了，连接却完好无损；而这种锁本身没有期限。",
            },
            play: pause,
        },
        Part {
            name: "naive-cut-off",
            expects: Expects::Harm,
            why: Text {
                en: "The server ended the transaction of the stopped one, who writes elsewhere and so never hears of it.",
                zh: "服务器结束了停顿者的事务，但它写的是别处的资源，所以毫不知情。",
            },
            play: cut_off,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "A lease bounds how long a stopped holder is waited for, and the fence refuses what it writes later.",
                zh: "租约限定了等待停顿者的时间，之后它迟到的写入会被栅栏拒绝。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_millis(1500);
/// How long client B waits for the row.
const PATIENCE: Duration = Duration::from_secs(3);
const TABLE: &str = "CREATE TABLE locks (name text PRIMARY KEY); INSERT INTO locks VALUES ('lock')";
const TAKE: &str = "SELECT name FROM locks WHERE name = 'lock' FOR UPDATE";
/// Who has taken a row and does not wait for one.
const HOLDER: &str = "SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'client %' AND \
                      backend_xid IS NOT NULL AND wait_event_type IS DISTINCT FROM 'Lock'";

fn crash(stage: &Stage) -> Result<Outcome> {
    let postgres = Postgres::start()?;
    let _truth = prepare(stage, &postgres)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    take(stage, &mut a, &postgres)?;
    a.kill()?;
    let began = Instant::now();
    let answer = try_take(&mut b, &postgres, PATIENCE)?;
    let waited = began.elapsed();
    if answer.text().is_none() {
        return Ok(Outcome::Harm(format!(
            "Client A died, and client B waited {PATIENCE:?} in vain: {}.",
            answer.words()
        )));
    }
    stage.show_holder("client B");
    Ok(Outcome::Prevented(format!(
        "Client A died with the row lock, and client B had it {} ms later.",
        waited.as_millis()
    )))
}

fn pause(stage: &Stage) -> Result<Outcome> {
    let postgres = Postgres::start()?;
    let _truth = prepare(stage, &postgres)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    take(stage, &mut a, &postgres)?;
    a.pause()?;
    let answer = try_take(&mut b, &postgres, PATIENCE)?;
    if answer.text().is_some() {
        return Ok(Outcome::Prevented(
            "Client B was let in although client A had not committed.".to_owned(),
        ));
    }
    a.resume()?;
    a.sql(&named(&postgres, "client A"), "COMMIT")?;
    a.gives_back("lock");
    take(stage, &mut b, &postgres)?;
    Ok(Outcome::Harm(format!(
        "Client A stood still with the row lock, and client B waited {PATIENCE:?} in vain ({}); it was let in only after \
         client A went on and committed.",
        answer.words()
    )))
}

fn cut_off(stage: &Stage) -> Result<Outcome> {
    let impatient = Setup::new().setting("idle_in_transaction_session_timeout", "1500");
    let (postgres, account) = (Postgres::start_with(&impatient)?, account(stage)?);
    let _truth = prepare(stage, &postgres)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    take(stage, &mut a, &postgres)?;
    let read = read_account(&mut a, &account)?;
    a.pause()?;
    take(stage, &mut b, &postgres)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    b.sql(&named(&postgres, "client B"), "COMMIT")?;
    b.gives_back("lock");
    a.resume()?;
    deposit(&mut a, &account, read, 10, None)?;
    judge_deposits(
        &account,
        "The server ended client A's transaction after 1.5 s without a word, client B was let in, and client A went on.",
    )
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let postgres = Postgres::start()?;
    writes_blindly(stage, &lock_on(&postgres.url(), LEASE), "postgres")
}

fn prepare(stage: &Stage, postgres: &Postgres) -> Result<Truth> {
    postgres.sql(TABLE)?;
    stage.watch_by("postgres", "lock", sql(&postgres.url(), HOLDER))
}

/// Takes the row, and waits for it as long as it must.
fn take(stage: &Stage, client: &mut Client, postgres: &Postgres) -> Result<()> {
    wait_until("a client takes the row", || {
        let answer = try_take(client, postgres, Duration::from_secs(20))?;
        Ok(answer.text().is_some())
    })?;
    stage.show_holder(client.name());
    Ok(())
}

fn try_take(client: &mut Client, postgres: &Postgres, patience: Duration) -> Result<Answer> {
    let url = named(postgres, client.name());
    let patience = patience.as_millis();
    client.sql(&url, "ROLLBACK")?;
    client.sql(&url, &format!("SET lock_timeout = {patience}"))?;
    client.sql(&url, "BEGIN")?;
    let answer = client.sql(&url, TAKE)?;
    if answer.text().is_some() {
        client.believes("lock", None);
    }
    Ok(answer)
}

/// The server, as this client says its name to it.
fn named(postgres: &Postgres, client: &str) -> String {
    let client = client.replace(' ', "%20");
    format!("{}?application_name={client}", postgres.url())
}
