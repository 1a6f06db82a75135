//! Rows as people see them.

use std::time::Duration;

use super::list::Row;
use crate::backend::{ClaimView, LockView};
use crate::claim::Party;
use crate::error::Error;
use crate::{Name, Token, rule};

/// A row with everything that is shown of it.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) name: Name,
    pub(crate) row: Row,
    pub(crate) party: Party,
    /// Since it entered or, of a holder, was made one.
    pub(crate) since_us: i64,
}

/// Views of rows that come in the order of their names and numbers; the dead are left out.
pub(crate) fn views(rows: Vec<Shown>) -> Result<Vec<LockView>, Error> {
    let mut lists: Vec<Vec<Shown>> = Vec::new();
    for shown in rows.into_iter().filter(|shown| shown.row.left_us > 0) {
        match lists.last_mut() {
            Some(list) if list[0].name == shown.name => list.push(shown),
            _ => lists.push(vec![shown]),
        }
    }
    lists.into_iter().map(view).collect()
}

fn view(list: Vec<Shown>) -> Result<LockView, Error> {
    let holders = rule::holders(list.iter().map(|shown| shown.row.mode));
    let name = list[0].name.clone();
    let views: Result<Vec<ClaimView>, Error> = list.into_iter().map(claim_view).collect();
    let mut holding = views?;
    let waiters = holding.split_off(holders);
    Ok(LockView {
        name,
        holders: holding,
        waiters,
    })
}

fn claim_view(shown: Shown) -> Result<ClaimView, Error> {
    Ok(ClaimView {
        token: Token::new(shown.row.order, 0).map_err(Error::invalid)?,
        mode: shown.row.mode,
        party: shown.party,
        since: Duration::from_micros(u64::try_from(shown.since_us).unwrap_or_default()),
        lease_left: shown.row.left(),
    })
}
