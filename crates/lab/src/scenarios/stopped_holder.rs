//! What the stories of a pause share: a holder that is stopped until somebody else was let in, and then goes on.

use lockkeeper_testbed::Redis;

use crate::Result;
use crate::actor::{Answer, Ask, Client, Deed};
use crate::scenario::Outcome;
use crate::stage::{Stage, wait_until};

use super::props::{account, deposit, judge_deposits, pass, read_account};

/// With a lock of lockkeeper: the one who was stopped looks at its guard before it writes, and the account has no
/// fence.
pub(super) fn looks_first(stage: &Stage, ask: &Ask, lane: &str) -> Result<Outcome> {
    let account = account(stage)?;
    let _truth = stage.watch_lock(&ask.url, lane, &ask.name)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    granted(stage, &mut a, ask)?;
    let read = read_account(&mut a, &account)?;
    a.pause()?;
    granted(stage, &mut b, ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    b.release(&ask.name)?;
    a.resume()?;
    let seen = a.check(&ask.name)?;
    let read = match seen {
        Answer::Lost(_) => {
            granted(stage, &mut a, ask)?;
            read_account(&mut a, &account)?
        }
        _ => read,
    };
    deposit(&mut a, &account, read, 10, None)?;
    let what = match seen {
        Answer::Lost(_) => {
            "The guard said that it was lost at the first look after the pause, and client A began anew."
        }
        _ => "The guard said that it still held after the pause.",
    };
    judge_deposits(&account, what)
}

/// With a lock of lockkeeper: the one who was stopped writes without looking, and the account has a fence.
pub(super) fn writes_blindly(stage: &Stage, ask: &Ask, lane: &str) -> Result<Outcome> {
    let account = account(stage)?;
    let _truth = stage.watch_lock(&ask.url, lane, &ask.name)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    granted(stage, &mut a, ask)?;
    let read = read_account(&mut a, &account)?;
    a.pause()?;
    granted(stage, &mut b, ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, pass())?;
    a.resume()?;
    let late = a.ask(Deed::Write {
        address: account.address().to_string(),
        key: "account".to_owned(),
        value: (read + 10).to_string(),
        pass: pass(),
    })?;
    judge_late_write(&account, &late)
}

/// After a deposit of 20 by client B, and this answer to the late one of client A.
fn judge_late_write(account: &Redis, late: &Answer) -> Result<Outcome> {
    let balance = account.ask(&["GET", "account"])?.text();
    Ok(match late {
        Answer::Refused { offered, highest } if balance == "120" => Outcome::Refused(format!(
            "Client A wrote with token {offered} after the pause, and the fence had seen {highest}: refused, and the \
             deposit of client B is still there, 100 + 20 = {balance}."
        )),
        other => Outcome::Harm(format!(
            "Client A wrote after the pause ({}), and of client B's 120 there is {balance}.",
            other.words()
        )),
    })
}

/// Acquires, or the story cannot be told.
pub(super) fn granted(stage: &Stage, client: &mut Client, ask: &Ask) -> Result<u64> {
    let answer = insist(client, ask)?;
    if answer.is_granted() {
        stage.show_holder(client.name());
    }
    let refused = || format!("{} was not let in: {}", client.name(), answer.words());
    answer.token().ok_or_else(|| refused().into())
}

/// Asks for the lock; when the engine did not answer in time, again.
pub(super) fn insist(client: &mut Client, ask: &Ask) -> Result<Answer> {
    let mut answer = Answer::Nothing;
    wait_until("the engine answers", || {
        answer = client.acquire(ask)?;
        Ok(!matches!(answer, Answer::Unknown(_)))
    })?;
    Ok(answer)
}
