//! Renewing many claims by few statements: those who are alone in their names' rows, the others in the list.

use std::time::Duration;

use super::client::read;
use super::decide::{id_of, lease_us};
use super::faults::Fault;
use super::text::{Value, fill};
use crate::claim::{Claim, ClaimId};

/// A claim to renew with its place in the batch, its number, and whether it was alone.
pub(super) type Known<'a> = (usize, &'a Claim, (u64, bool));

/// The statements that renew these claims, one for each length of lease, and look which of them are alive.
pub(super) fn renewing(claims: Vec<Known<'_>>, alone: bool) -> String {
    if claims.is_empty() {
        return String::new();
    }
    let (table, granted) = if alone {
        ("@names", "1")
    } else {
        ("@claims", "granted_at IS NOT NULL")
    };
    let which = |claims: &[&Known<'_>]| {
        let keys: Vec<String> = claims.iter().map(|known| key(known)).collect();
        let keys = format!("(name, order_no, id) IN ({})", keys.join(","));
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
    };
    let mut leases: Vec<u64> = claims.iter().map(|(_, claim, _)| lease_us(claim)).collect();
    leases.sort_unstable();
    leases.dedup();
    let mut packet = String::new();
    for lease in leases {
        let of_this = claims
            .iter()
            .filter(|(_, claim, _)| lease_us(claim) == lease);
        packet.push_str(&format!(
            "UPDATE {table} SET lease_us = {lease}, ends_at = UTC_TIMESTAMP(6) + INTERVAL {lease} MICROSECOND \
             WHERE {} AND ends_at > UTC_TIMESTAMP(6);\n",
            which(&of_this.collect::<Vec<_>>())
        ));
    }
    packet.push_str(&format!(
        "SELECT id, order_no, {granted}, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ends_at) \
         FROM {table} WHERE {} AND ends_at > UTC_TIMESTAMP(6);\n",
        which(&claims.iter().collect::<Vec<_>>())
    ));
    packet
}

/// A claim that is alive after a renewal.
#[derive(Debug)]
pub(super) struct Renewed {
    pub(super) id: ClaimId,
    pub(super) order: u64,
    pub(super) granted: bool,
    pub(super) left: Duration,
}

pub(super) fn renewed(row: mysql_async::Row) -> Result<Renewed, Fault> {
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
