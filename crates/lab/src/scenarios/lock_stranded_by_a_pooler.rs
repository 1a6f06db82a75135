//! An advisory lock through a pooler that hands the server's sessions about.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::{PgBouncer, Postgres};

use crate::Result;
use crate::actor::{Answer, Client, sql};
use crate::scenario::{Expects, Outcome, Part, Scenario, Text};
use crate::stage::Stage;

use super::props::{held, insist, lock_on};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "lock-stranded-by-a-pooler",
    title: Text {
        en: "A lock is stranded by a pooler",
        zh: "连接池让锁搁浅",
    },
    story: Text {
        en: "An advisory lock belongs to a session of the server. A pooler in transaction mode lends sessions out for one \
             transaction at a time, so the unlock may go to another session than the lock; the lock stays with a session \
             that nobody knows, and outlives the client.",
        zh: "咨询锁属于服务器的某个会话。事务模式的连接池每个事务才借出一次会话，解锁可能落到另一个会话上；\
             锁就留在无人知晓的会话里，客户端退出了也还在。",
    },
    proves: "N1, N2, S2, bug 74",
    parts: &[
        Part {
            name: "naive",
            expects: Expects::Harm,
            why: Text {
                en: "The session that has the lock belongs to the pooler, which keeps it open for the next client.",
                zh: "持有锁的会话属于连接池，它会一直保持打开，留给下一个客户端。",
            },
            play: naive,
        },
        Part {
            name: "lockkeeper",
            expects: Expects::NoHarm,
            why: Text {
                en: "At the start it is tried out whether a session stays the same, and a pooler that changes it is refused.",
                zh: "连接时会先试探会话是否固定不变；会调换会话的连接池直接拒绝。",
            },
            play: lockkeeper,
        },
    ],
};

const LEASE: Duration = Duration::from_secs(5);
/// How long client C asks.
const PATIENCE: Duration = Duration::from_secs(2);
/// Locks, and tells which session of the server it was that did.
const LOCK: &str = "SELECT pg_backend_pid() FROM pg_advisory_lock(74)";
const SESSION: &str = "SELECT pg_backend_pid()";
const HOLDER: &str =
    "SELECT 'session ' || pid FROM pg_locks WHERE locktype = 'advisory' AND granted";

fn naive(stage: &Stage) -> Result<Outcome> {
    let postgres = Postgres::start()?;
    let pooler = PgBouncer::before(&postgres, "")?;
    let _truth = stage.watch_by("postgres", "lock", sql(&postgres.url(), HOLDER))?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let mut c = stage.client("client C")?;
    let locked_by = said(&mut a, &pooler.url(), LOCK)?;
    a.believes("lock", None);
    // Somebody else's transaction is lent the session that client A used last.
    b.sql(&pooler.url(), "BEGIN")?;
    let lent = said(&mut b, &pooler.url(), SESSION)?;
    let unlocked = said(&mut a, &pooler.url(), "SELECT pg_advisory_unlock(74)")?;
    a.gives_back("lock");
    a.kill()?;
    b.sql(&pooler.url(), "COMMIT")?;
    let tries = ask_in_vain(&mut c, &postgres)?;
    let holder = postgres.sql(HOLDER)?;
    Ok(match tries {
        Some(tries) => Outcome::Harm(format!(
            "Client A locked in session {locked_by}, which was then lent to client B (session {lent}), so that its unlock \
             went elsewhere and answered \"{unlocked}\"; client A is gone, {holder} still has the lock, and client C \
             asked {tries} times in {PATIENCE:?} in vain."
        )),
        None => Outcome::Prevented(format!(
            "The unlock answered \"{unlocked}\", and client C had the lock."
        )),
    })
}

fn lockkeeper(stage: &Stage) -> Result<Outcome> {
    let postgres = Postgres::start()?;
    let pooler = PgBouncer::before(&postgres, "")?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    let pooled = lock_on(&format!("{}?mode=session", pooler.url()), LEASE);
    let refusal = match a.acquire(&pooled)? {
        Answer::Failed(why) => why,
        other => {
            return Ok(Outcome::Harm(format!(
                "A lock was kept through the pooler: {}.",
                other.words()
            )));
        }
    };
    let direct = lock_on(&format!("{}?mode=session", postgres.url()), LEASE);
    let _truth = stage.watch_lock(&direct.url, "postgres", "lock")?;
    held(stage, &mut a, &direct)?;
    a.kill()?;
    let began = Instant::now();
    let next = insist(&mut b, &direct)?;
    let waited = began.elapsed().as_millis();
    if !next.is_granted() {
        return Ok(Outcome::Harm(format!(
            "Client A died, and client B was not let in: {}.",
            next.words()
        )));
    }
    stage.show_holder("client B");
    Ok(Outcome::Prevented(format!(
        "Through the pooler client A was told at once: \"{refusal}\"; straight to the server it had the lock, died, and \
         client B had it {waited} ms later."
    )))
}

/// How often this client asked, or nothing if it was let in.
fn ask_in_vain(client: &mut Client, postgres: &Postgres) -> Result<Option<u32>> {
    let (began, mut tries) = (Instant::now(), 0);
    while began.elapsed() < PATIENCE {
        tries += 1;
        let got = said(client, &postgres.url(), "SELECT pg_try_advisory_lock(74)")?;
        if got == "t" {
            return Ok(None);
        }
        sleep(Duration::from_millis(200));
    }
    Ok(Some(tries))
}

fn said(client: &mut Client, url: &str, statement: &str) -> Result<String> {
    let answer = client.sql(url, statement)?;
    let text = answer.text().map(str::to_owned);
    text.ok_or_else(|| format!("{statement}: {}", answer.words()).into())
}
