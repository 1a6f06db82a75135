//! Renewing many claims by few statements: those who are alone in their names' rows, the others in the list.

use std::time::Duration;

use super::client::{Told, read};
use super::decide::{id_of, lease_us};
use super::faults::Fault;
use super::text::{Value, fill};
use crate::claim::{Claim, ClaimId};

/// A claim to renew with its place in the batch, its number, and whether it was alone.
pub(super) type Known<'a> = (usize, &'a Claim, (u64, bool));

/// The statements that renew these claims, one for each length of lease. Each claim is one row, and no two are the same: so the
/// number of rows that are reached says whether all are. (Rows that stay as they are might not be counted; but the end of a lease moves.)
pub(super) fn renewing(claims: &[&Known<'_>], alone: bool) -> Vec<String> {
    let mut leases: Vec<u64> = claims.iter().map(|(_, claim, _)| lease_us(claim)).collect();
    leases.sort_unstable();
    leases.dedup();
    let renew = |lease: u64| {
        let of_this = claims.iter().copied();
        let of_this: Vec<_> = of_this
            .filter(|(_, claim, _)| lease_us(claim) == lease)
            .collect();
        format!(
            "UPDATE {} SET lease_us = {lease}, ends_at = UTC_TIMESTAMP(6) + INTERVAL {lease} MICROSECOND WHERE {}",
            table(alone),
            living(&of_this, alone)
        )
    };
    leases.into_iter().map(renew).collect()
}

/// The statement that looks which of these claims are alive, if there are any.
pub(super) fn looking(claims: &[&Known<'_>], alone: bool) -> Option<String> {
    let granted = if alone { "1" } else { "granted_at IS NOT NULL" };
    (!claims.is_empty()).then(|| {
        format!(
            "SELECT id, order_no, {granted}, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ends_at) FROM {} WHERE {}",
            table(alone),
            living(claims, alone)
        )
    })
}

fn table(alone: bool) -> &'static str {
    if alone { "@names" } else { "@claims" }
}

/// The rows of those of these claims whose leases have not ended.
fn living(claims: &[&Known<'_>], alone: bool) -> String {
    let keys: Vec<String> = claims.iter().map(|known| key(known)).collect();
    let keys = format!(
        "(name, order_no, id) IN ({}) AND ends_at > UTC_TIMESTAMP(6)",
        keys.join(",")
    );
    if !alone {
        return keys;
    }
    let names = claims.iter().map(|(_, claim, _)| name_text(claim));
    let names: Vec<String> = names.collect();
    // The key is the name alone: without a list of them the whole table would be gone through.
    format!(
        "name IN ({}) AND state = 'alone' AND {keys}",
        names.join(",")
    )
}

/// A claim that is alive after a renewal.
#[derive(Debug)]
pub(super) struct Renewed {
    pub(super) id: ClaimId,
    pub(super) order: u64,
    pub(super) granted: bool,
    pub(super) left: Duration,
}

impl Renewed {
    /// Just now, for as long as was asked; who is alone holds.
    pub(super) fn anew((_, claim, (order, _)): &Known<'_>) -> Self {
        Self {
            id: claim.id,
            order: *order,
            granted: true,
            left: claim.lease,
        }
    }
}

/// The claims that were found alive.
pub(super) fn found(told: impl IntoIterator<Item = Told>) -> Result<Vec<Renewed>, Fault> {
    let rows = told.into_iter().flat_map(|told| told.rows);
    rows.map(renewed).collect()
}

fn renewed(row: mysql_async::Row) -> Result<Renewed, Fault> {
    let (id, order, granted, left): (Vec<u8>, u64, i64, i64) = read(row)?;
    Ok(Renewed {
        id: id_of(id)?,
        order,
        granted: granted != 0,
        left: Duration::from_micros(u64::try_from(left).unwrap_or_default()),
    })
}

fn key((_, claim, (order, _)): &Known<'_>) -> String {
    let values = [
        Value::Bytes(claim.name.as_str().as_bytes()),
        Value::Number(*order),
        Value::Bytes(claim.id.as_bytes()),
    ];
    fill("(?,?,?)", &values)
}

fn name_text(claim: &Claim) -> String {
    fill("?", &[Value::Bytes(claim.name.as_str().as_bytes())])
}
