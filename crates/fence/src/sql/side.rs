//! The side table: one row per lock name, raised inside the caller's own transaction.

use super::session::{Dialect, Session, SqlValue};
use super::text::{RAISE, RAISE_MYSQL, SEEN};
use crate::{FenceError, Name, Pass, Token};

/// Compares the pass with the highest one seen under this name, and raises it: call it first in a
/// transaction, then write what you like, then commit.
///
/// The row stays locked until the transaction ends, so whoever comes with another token waits, and then
/// sees this one: comparison and writes are one atomic step. Outside of a transaction it protects nothing.
/// In SQLite begin the transaction with `IMMEDIATE`.
///
/// # Errors
/// [`FenceError::Refused`] with both numbers: roll back. [`FenceError::Store`] when the database failed:
/// roll back and repeat the whole transaction.
///
/// # Cancel safety
/// Dropping it leaves the transaction in an unknown state: roll back.
pub async fn raise<S: Session>(
    session: &mut S,
    name: &Name,
    pass: &Pass,
) -> Result<(), FenceError<S::Error>> {
    let text = match session.dialect() {
        Dialect::MySql => RAISE_MYSQL,
        Dialect::Postgres | Dialect::Sqlite => RAISE,
    };
    let values = [key(name), token(pass), claim(pass)];
    let changed = session.change(text, &values).await;
    let changed = changed.map_err(FenceError::Store)?;
    // MySQL's statement always matches; its row tells.
    if changed == 1 && session.dialect() != Dialect::MySql {
        return Ok(());
    }
    match highest(session, name).await? {
        Some(seen) if seen == *pass && session.dialect() == Dialect::MySql => Ok(()),
        // Tokens only rise, so what was refused a moment ago still is.
        Some(seen) => pass.after(Some(&seen)).map_err(FenceError::Refused),
        None => Err(FenceError::unreadable("a row that is not there")),
    }
}

/// The highest pass seen under this name; in MySQL the row stays locked until the transaction ends.
///
/// # Errors
/// When the database fails, or when the row is not of the fence's own writing.
///
/// # Cancel safety
/// Nothing is changed.
pub async fn highest<S: Session>(
    session: &mut S,
    name: &Name,
) -> Result<Option<Pass>, FenceError<S::Error>> {
    let text = format!("{SEEN}{}", session.dialect().newest());
    let row = session.row(&text, &[key(name)]).await;
    match row.map_err(FenceError::Store)? {
        Some(row) => pass_in(&row),
        None => Ok(None),
    }
}

/// The pass in the first two columns of a row; `None` if there was none yet.
pub(super) fn pass_in<E>(row: &[SqlValue]) -> Result<Option<Pass>, FenceError<E>> {
    let unreadable = || FenceError::unreadable(format_args!("{row:?}"));
    let [token, claim, ..] = row else {
        return Err(unreadable());
    };
    let (token, claim) = (token.as_int(), claim.as_text());
    if token == Some(0) {
        return Ok(None);
    }
    let token = token.and_then(|token| Token::try_from(u64::try_from(token).ok()?).ok());
    let claim = claim.and_then(|claim| claim.parse().ok());
    match (token, claim) {
        (Some(token), Some(claim)) => Ok(Some(Pass::new(token, claim))),
        _ => Err(unreadable()),
    }
}

fn key(name: &Name) -> SqlValue {
    SqlValue::Bytes(name.as_str().as_bytes().to_vec())
}

pub(super) fn token(pass: &Pass) -> SqlValue {
    // Every token fits a signed column.
    SqlValue::Int(pass.token().get().cast_signed())
}

pub(super) fn claim(pass: &Pass) -> SqlValue {
    SqlValue::Text(pass.claim().to_string())
}
