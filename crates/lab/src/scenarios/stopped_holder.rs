//! What the stories of a pause share: a holder that is stopped until somebody else was let in, and then goes on.

use crate::Result;
use crate::actor::{Answer, Ask};
use crate::scenario::Outcome;
use crate::stage::Stage;

use super::props::{
    account, deposit, deposit_fenced, held, judge_deposits, judge_late_deposit, read_account,
};

/// With a lock of lockkeeper: the one who was stopped looks at its guard before it writes, and the account has no
/// fence.
pub(super) fn looks_first(stage: &Stage, ask: &Ask, lane: &str) -> Result<Outcome> {
    let account = account(stage)?;
    let _truth = stage.watch_lock(&ask.url, lane, &ask.name)?;
    let (mut a, mut b) = (stage.client("client A")?, stage.client("client B")?);
    held(stage, &mut a, ask)?;
    let read = read_account(&mut a, &account)?;
    a.pause()?;
    held(stage, &mut b, ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit(&mut b, &account, read_by_b, 20, None)?;
    b.release(&ask.name)?;
    a.resume()?;
    let seen = a.check(&ask.name)?;
    let read = match seen {
        Answer::Lost(_) => {
            held(stage, &mut a, ask)?;
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
    held(stage, &mut a, ask)?;
    let read = read_account(&mut a, &account)?;
    a.pause()?;
    held(stage, &mut b, ask)?;
    let read_by_b = read_account(&mut b, &account)?;
    deposit_fenced(&mut b, &account, read_by_b, 20)?;
    a.resume()?;
    let late = deposit_fenced(&mut a, &account, read, 10)?;
    let what = "Client A stood still until client B had been let in, and wrote without looking.";
    judge_late_deposit(&account, &late, what)
}
