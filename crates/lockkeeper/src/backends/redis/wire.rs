//! What goes over the wire: claims as the scripts take them, and the scripts' answers.

use std::time::Duration;

use redis::Value;

use crate::backend::{ClaimView, LockView, Released, Standing, Wake};
use crate::claim::{Claim, ClaimId, Party};
use crate::{Mode, Name, Token, rule};

/// A longer lease would overflow the server's clock: thirty years serve as for ever.
const LONGEST_LEASE_MS: u64 = 30 * 365 * 24 * 3600 * 1000;

/// A lease in milliseconds: never zero or less, which would delete the key, and never shorter than
/// the lease that the caller counts on.
pub(super) fn lease_ms(lease: Duration) -> String {
    let whole = lease.as_secs().saturating_mul(1000);
    let ms = whole.saturating_add(lease.subsec_nanos().div_ceil(1_000_000).into());
    ms.clamp(1, LONGEST_LEASE_MS).to_string()
}

/// What a claim that enters says.
pub(super) struct Asking<'a> {
    /// The claims of the name, and the last order number given in its bucket.
    pub(super) keys: [&'a [u8]; 2],
    pub(super) bucket: u32,
    pub(super) id: &'a ClaimId,
    /// Its record but for the order.
    pub(super) rest: &'a str,
    pub(super) lease_ms: &'a str,
    /// It does not wait.
    pub(super) tries: bool,
}

impl Asking<'_> {
    /// The claim: its id, room for its order number, the rest of its record.
    pub(super) fn claim(&self) -> Vec<u8> {
        [self.id.as_bytes(), UNNUMBERED, self.rest.as_bytes()].concat()
    }

    /// What the script gets besides its keys. To wait in line is the rule, and every argument costs the server time.
    pub(super) fn args<'a>(&'a self, claim: &'a [u8]) -> ([&'a [u8]; 3], usize) {
        let args = [claim, self.lease_ms.as_bytes(), b"try"];
        (args, if self.tries { 3 } else { 2 })
    }
}

/// Stands for an order number, which has as many digits as the microseconds since 1970.
const UNNUMBERED: &[u8] = b"0000000000000000";

/// The record of a claim but for its order: what it wants, where to ring, who is behind it.
pub(super) fn rest(claim: &Claim, channel: &str) -> String {
    let Party { label, host, pid } = &*claim.party;
    let mode = claim.mode;
    format!(" {mode} {channel} {pid} {} {label}{host}", label.len())
}

/// The standings in an answer: three numbers each.
pub(super) fn standings(answer: &Value) -> Option<Vec<Standing>> {
    let numbers = items(answer)?
        .iter()
        .map(number)
        .collect::<Option<Vec<u64>>>()?;
    let (triples, rest) = numbers.as_chunks::<3>();
    if !rest.is_empty() {
        return None;
    }
    let standing = |[kind, number, ms]: &[u64; 3]| match kind {
        0 => Some(Standing::Gone),
        1 => Some(Standing::Holds {
            order: *number,
            lease_left: Duration::from_millis(*ms),
        }),
        2 => Some(Standing::Waits {
            ahead: usize::try_from(*number).ok()?,
            look_again_in: Duration::from_millis(*ms),
        }),
        _ => None,
    };
    triples.iter().map(standing).collect()
}

/// The one standing in an answer.
pub(super) fn standing(answer: &Value) -> Option<Standing> {
    standings(answer).filter(|all| all.len() == 1)?.pop()
}

/// Where a claim stands that has just entered: a mere number is the order of one that holds, for its whole lease.
pub(super) fn entered(answer: &Value, lease: Duration) -> Option<Standing> {
    match answer {
        Value::Array(_) => standing(answer),
        order => Some(Standing::Holds {
            order: number(order)?,
            lease_left: lease,
        }),
    }
}

pub(super) fn released(answer: &Value) -> Option<Released> {
    match number(answer)? {
        0 => Some(Released::Gone),
        1 => Some(Released::Freed),
        _ => None,
    }
}

/// News for a claim: its id, and its order number if it holds.
pub(super) fn wake(payload: &[u8]) -> Option<Wake> {
    let (id, order) = payload.split_at_checked(16)?;
    let claim = ClaimId::from_bytes(id.try_into().ok()?);
    if order.is_empty() {
        return Some(Wake::Look(claim));
    }
    let order = std::str::from_utf8(order).ok()?.parse().ok()?;
    Some(Wake::Holds { claim, order })
}

/// The arguments of one claim in a renewal.
pub(super) fn renewal(claim: &Claim) -> [Vec<u8>; 2] {
    [
        claim.id.as_bytes().to_vec(),
        lease_ms(claim.lease).into_bytes(),
    ]
}

/// The views in an answer, one per name; names without a living claim have none.
pub(super) fn views(names: Vec<Name>, answer: &Value) -> Option<Vec<LockView>> {
    let answers = items(answer)?;
    if answers.len() != names.len() {
        return None;
    }
    let views = names.into_iter().zip(answers);
    let views = views.map(|(name, answer)| view(name, items(answer)?));
    let views: Option<Vec<LockView>> = views.collect();
    Some(
        views?
            .into_iter()
            .filter(|view| !view.holders.is_empty())
            .collect(),
    )
}

fn view(name: Name, answer: &[Value]) -> Option<LockView> {
    let (now, claims) = answer.split_first()?;
    let now_us = number(now)?;
    let (pairs, _) = claims.as_chunks::<2>();
    let mut all = Vec::with_capacity(pairs.len());
    for [record, ends] in pairs {
        let left = number(ends)?.saturating_mul(1000).saturating_sub(now_us);
        if left > 0 {
            all.push(claim(bytes(record)?, now_us, Duration::from_micros(left))?);
        }
    }
    all.sort_by_key(|claim| claim.token);
    let holders = rule::holders(all.iter().map(|claim| claim.mode));
    let waiters = all.split_off(holders);
    Some(LockView {
        name,
        holders: all,
        waiters,
    })
}

/// A record: order, mode, channel, pid, length of the label, label, host.
fn claim(record: &[u8], now_us: u64, lease_left: Duration) -> Option<ClaimView> {
    let record = std::str::from_utf8(record).ok()?;
    let mut parts = record.splitn(6, ' ');
    let order: u64 = parts.next()?.parse().ok()?;
    let mode: Mode = parts.next()?.parse().ok()?;
    let (_channel, pid) = (parts.next()?, parts.next()?);
    let label: usize = parts.next()?.parse().ok()?;
    let (label, host) = parts.next()?.split_at_checked(label)?;
    Some(ClaimView {
        token: Token::new(order, 0).ok()?,
        mode,
        party: Party {
            label: label.to_owned(),
            host: host.to_owned(),
            pid: pid.parse().ok()?,
        },
        // Order numbers are moments, unless the clock was set back since.
        since: Duration::from_micros(now_us.saturating_sub(order)),
        lease_left,
    })
}

pub(super) fn items(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

pub(super) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// Numbers come as numbers or, from sorted sets, as text. A lease that ended meanwhile has none left.
pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => Some(u64::try_from(*number).unwrap_or(0)),
        other => std::str::from_utf8(bytes(other)?).ok()?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    // bug 35: a non-positive expiry deletes the key and says that it worked.
    #[test]
    fn no_lease_is_zero_or_overflows() {
        assert_eq!(lease_ms(Duration::ZERO), "1");
        assert_eq!(lease_ms(Duration::from_nanos(1)), "1");
        assert_eq!(lease_ms(Duration::from_micros(1500)), "2");
        assert_eq!(lease_ms(Duration::from_secs(30)), "30000");
        assert_eq!(lease_ms(Duration::MAX), LONGEST_LEASE_MS.to_string());
    }

    #[test]
    fn wakes_are_read_and_nonsense_is_not() {
        let id = [7; 16];
        let claim = ClaimId::from_bytes(id);
        assert_eq!(wake(&id), Some(Wake::Look(claim)));
        let holds = [&id[..], b"1790000000000000"].concat();
        let order = 1_790_000_000_000_000;
        assert_eq!(wake(&holds), Some(Wake::Holds { claim, order }));
        for bad in [&b""[..], b"short", &[&id[..], b"1e+15"].concat()] {
            assert_eq!(wake(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn records_with_any_label_come_back() {
        for label in ["", "a b", "x 3 y", "ü\0\n"] {
            let entering = Claim {
                id: ClaimId::from_bytes([7; 16]),
                name: Name::new("n").unwrap(),
                mode: Mode::Permits { take: 2, of: 5 },
                lease: Duration::from_secs(1),
                party: Arc::new(Party {
                    label: label.into(),
                    host: "h o".into(),
                    pid: 7,
                }),
            };
            let record = format!("12{}", rest(&entering, "lk:wake:1"));
            let view = claim(record.as_bytes(), 20, Duration::ZERO).unwrap();
            assert_eq!(view.party, *entering.party);
            assert_eq!(view.mode, Mode::Permits { take: 2, of: 5 });
            assert_eq!(view.since, Duration::from_micros(8));
        }
    }
}
