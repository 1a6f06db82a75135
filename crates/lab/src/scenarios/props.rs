//! What many stories need: the lock as it is asked for, and an account that two clients pay into.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lockkeeper_testbed::{Proxy, Redis};

use crate::Result;
use crate::actor::{Answer, Ask, Client, Deed, Shown};
use crate::scenario::Outcome;
use crate::stage::{Stage, wait_until};

/// The lock `lock`, for which everybody waits long.
pub(super) fn lock_on(url: &str, lease: Duration) -> Ask {
    Ask {
        url: url.to_owned(),
        name: "lock".to_owned(),
        lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        within_ms: 30_000,
        ..Ask::default()
    }
}

/// The pass of that lock.
pub(super) fn pass() -> Option<Shown> {
    Some(Shown::OfGuard("lock".to_owned()))
}

/// An account with 100 in it.
pub(super) fn account(stage: &Stage) -> Result<Redis> {
    stage.resource("account", "100")
}

/// What is in the account, as this client sees it.
pub(super) fn read_account(client: &mut Client, account: &Redis) -> Result<i64> {
    let text = client.redis(account, &["GET", "account"])?;
    Ok(text.ok_or("the account is gone")?.parse()?)
}

/// Writes back what was read plus the deposit: safe only for one at a time. Tells whether the resource took it.
pub(super) fn deposit(
    client: &mut Client,
    account: &Redis,
    read: i64,
    more: i64,
    pass: Option<Shown>,
) -> Result<bool> {
    client.write(account, "account", &(read + more).to_string(), pass)
}

/// After deposits of 10 by client A and of 20 by client B: whether both are in.
pub(super) fn judge_deposits(account: &Redis, what_happened: &str) -> Result<Outcome> {
    let balance = account.ask(&["GET", "account"])?.text();
    Ok(match balance.as_str() {
        "130" => Outcome::Prevented(format!(
            "{what_happened} Both deposits are in: 100 + 10 + 20 = 130."
        )),
        other => Outcome::Harm(format!(
            "{what_happened} Of 100 + 10 + 20 only {other} is there: a deposit is lost."
        )),
    })
}

/// Asks once for the naive lock `lock`, `SET NX PX` with the asker's name as its value; whoever gets it believes it.
pub(super) fn set_nx(client: &mut Client, redis: &Redis, lease: Duration) -> Result<bool> {
    let (name, lease) = (client.name().to_owned(), lease.as_millis().to_string());
    let got = client.redis(redis, &["SET", "lock", &name, "NX", "PX", &lease])?;
    if got.is_some() {
        client.believes("lock", None);
    }
    Ok(got.is_some())
}

/// Asks for the naive lock until it is had.
pub(super) fn wait_for_nx(client: &mut Client, redis: &Redis, lease: Duration) -> Result<()> {
    wait_until("the naive lock is free", || set_nx(client, redis, lease))
}

/// A command that goes through a proxy.
pub(super) fn through(proxy: &Proxy, command: &[&str]) -> Deed {
    let address = proxy.address().to_string();
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    Deed::Redis { address, command }
}

/// The key of lockkeeper's claims on the lock, while there are any.
pub(super) fn claims(redis: &Redis) -> Result<Option<String>> {
    let keys = redis.ask(&["KEYS", "*:k:lock"])?.text();
    Ok(keys.lines().next().map(str::to_owned))
}

/// Lets a client connect, so that what comes next is the lock and nothing else.
pub(super) fn connect(client: &mut Client, url: &str) -> Result<()> {
    let mut other = lock_on(url, Duration::from_secs(10));
    "another lock".clone_into(&mut other.name);
    granted(client, &other)?;
    client.release(&other.name)?;
    Ok(())
}

/// Client B came in beside client A, which has read before: both pay in through the fence, the newer one first.
pub(super) fn judge_stale_write(
    a: &mut Client,
    read: i64,
    b: &mut Client,
    account: &Redis,
    what_happened: &str,
) -> Result<Outcome> {
    let read_by_b = read_account(b, account)?;
    deposit_fenced(b, account, read_by_b, 20)?;
    let late = deposit_fenced(a, account, read, 10)?;
    judge_late_deposit(account, &late, what_happened)
}

/// What a client was told, without the advice: errors are long, and their beginning says what happened.
pub(super) fn first_words(told: &Answer) -> String {
    let words = told.words();
    words.split([';', '\n']).next().unwrap_or(&words).to_owned()
}

/// Deposits behind the fence, with the pass of the lock; gives what the fence says.
pub(super) fn deposit_fenced(
    client: &mut Client,
    account: &Redis,
    read: i64,
    more: i64,
) -> Result<Answer> {
    client.ask(Deed::Write {
        address: account.address().to_string(),
        key: "account".to_owned(),
        value: (read + more).to_string(),
        pass: pass(),
    })
}

/// After client B's deposit of 20, and one of 10 by client A, which does not hold any more and knows only of 100: whether
/// the fence refused it.
pub(super) fn judge_late_deposit(
    account: &Redis,
    late: &Answer,
    what_happened: &str,
) -> Result<Outcome> {
    let balance = account.ask(&["GET", "account"])?.text();
    Ok(match late {
        Answer::Refused { offered, highest } if balance == "120" => Outcome::Refused(format!(
            "{what_happened} The fence refused client A's write: it came with token {offered}, and {highest} had been \
             seen, so the 120 of client B stand."
        )),
        other => Outcome::Harm(format!(
            "{what_happened} The late write was {}, and the account has {balance} instead of 120.",
            other.words()
        )),
    })
}

/// Asks for the lock; when the engine did not answer in time, again: a loaded machine is no part of the story.
pub(super) fn insist(client: &mut Client, ask: &Ask) -> Result<Answer> {
    let mut answer = Answer::Nothing;
    wait_until("the engine answers", || {
        answer = client.acquire(ask)?;
        Ok(!matches!(answer, Answer::Unknown(_)))
    })?;
    Ok(answer)
}

/// Acquires, or the story cannot be told; gives the token.
pub(super) fn granted(client: &mut Client, ask: &Ask) -> Result<u64> {
    let answer = insist(client, ask)?;
    let refused = || format!("{} was not let in: {}", client.name(), answer.words());
    answer.token().ok_or_else(|| refused().into())
}

/// [`granted`], and the picture has seen it.
pub(super) fn held(stage: &Stage, client: &mut Client, ask: &Ask) -> Result<u64> {
    let token = granted(client, ask)?;
    stage.show_holder(client.name());
    Ok(token)
}

/// `SETNX` and death: whether client B is ever let in.
pub(super) fn dies_after_setnx(stage: &Stage, how: &str) -> Result<Outcome> {
    let redis = Redis::start()?;
    let _truth = stage.watch_key(&redis, "redis", "lock");
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    a.redis(&redis, &["SETNX", "lock", "client A"])?;
    a.believes("lock", None);
    stage.show_holder("client A");
    a.kill()?;

    let (began, patience) = (Instant::now(), Duration::from_secs(3));
    let mut tries = 0;
    while began.elapsed() < patience {
        tries += 1;
        if b.redis(&redis, &["SETNX", "lock", "client B"])?.as_deref() == Some("1") {
            let words = format!("Client B got the lock at try {tries}.");
            return Ok(Outcome::Prevented(words));
        }
        sleep(Duration::from_millis(200));
    }
    let ttl = b.redis(&redis, &["PTTL", "lock"])?.unwrap_or_default();
    if ttl != "-1" {
        let words = format!("The key has {ttl} ms to live.");
        return Ok(Outcome::Prevented(words));
    }
    Ok(Outcome::Harm(format!(
        "Client A died {how}, and client B asked {tries} times in {patience:?} in vain; the key's time to live is {ttl}, \
         which means for ever."
    )))
}
