//! What many stories need: the lock as it is asked for, and an account that two clients pay into.

use std::time::Duration;

use lockkeeper_testbed::Redis;

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

/// Acquires, and gives the token. An engine that did not answer in time is asked again: a loaded machine is no part of the
/// story.
pub(super) fn get_in(client: &mut Client, ask: &Ask) -> Result<u64> {
    let mut token = None;
    wait_until("the engine lets a client in", || {
        let answer = client.acquire(ask)?;
        token = answer.token();
        match answer {
            Answer::Granted { .. } => Ok(true),
            Answer::Unknown(_) => Ok(false),
            other => Err(format!("{} was not let in: {}", client.name(), other.words()).into()),
        }
    })?;
    token.ok_or_else(|| "a grant without a token".into())
}
