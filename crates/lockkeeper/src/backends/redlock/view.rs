//! Who holds and who waits, put together from what every node has: a claim holds when a majority says so,
//! and waits when a majority lists it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::member::Trouble;
use super::quorum::Quorum;
use super::set::{Message, Set, Wait};
use super::wire::{bytes, items, number, party_from};
use crate::backend::{ClaimView, LockView, Query};
use crate::backends::redis::packed::Packed;
use crate::claim::Party;
use crate::error::Error;
use crate::{Mode, Name, Token};

/// How long looking may take, and how much longer once a majority has answered.
const LIMIT: Duration = Duration::from_secs(1);
const SLOWER_ONES: Duration = Duration::from_millis(50);
/// So many names are asked about at once.
const PAGE: usize = 200;
const DURING: &str = "looking at locks";

type Id = [u8; 16];

/// A claim on one node.
#[derive(Debug, Clone)]
struct Entry {
    order: u64,
    since: Duration,
    left: Duration,
    party: Party,
}

/// What all nodes have of one name.
#[derive(Debug, Default)]
struct Piece {
    holds: HashMap<Id, Vec<Entry>>,
    waits: HashMap<Id, Vec<Entry>>,
}

/// A claim that a majority has.
struct Known {
    id: Id,
    view: ClaimView,
}

/// The locks that the query asks for.
pub(super) async fn locks(set: &Set, query: &Query) -> Result<Vec<LockView>, Error> {
    let names = match query {
        Query::One(name) => vec![name.clone()],
        Query::All => names(set).await?,
    };
    let mut views = Vec::new();
    for page in names.chunks(PAGE) {
        for (name, piece) in pieces(set, page).await? {
            let (holders, waiters) = piece.known(set.quorum);
            if !holders.is_empty() || !waiters.is_empty() {
                let only_views =
                    |all: Vec<Known>| all.into_iter().map(|known| known.view).collect();
                views.push(LockView {
                    name,
                    holders: only_views(holders),
                    waiters: only_views(waiters),
                });
            }
        }
    }
    Ok(views)
}

/// The id of the claim with this number.
pub(super) async fn claim_with(set: &Set, name: &Name, order: u64) -> Result<Option<Id>, Error> {
    for (_, piece) in pieces(set, std::slice::from_ref(name)).await? {
        let (holders, waiters) = piece.known(set.quorum);
        let mut all = holders.into_iter().chain(waiters);
        if let Some(known) = all.find(|known| known.view.token.order() == order) {
            return Ok(Some(known.id));
        }
    }
    Ok(None)
}

/// The names that any node has.
async fn names(set: &Set) -> Result<Vec<Name>, Error> {
    let mut names = BTreeSet::new();
    for pattern in set.keys.patterns() {
        let scan = |cursor: Vec<u8>| {
            let pattern = pattern.as_bytes();
            let scan: [&[u8]; 6] = [b"SCAN", &cursor, b"MATCH", pattern, b"COUNT", b"1000"];
            Arc::new(Packed::words(&scan))
        };
        let mut answered = 0;
        for member in &*set.members {
            let mut cursor = b"0".to_vec();
            loop {
                let page = tokio::time::timeout(LIMIT, member.ask_anyway(scan(cursor))).await;
                let Some((next, keys)) = page.ok().and_then(Result::ok).and_then(scanned) else {
                    break;
                };
                names.extend(keys.iter().filter_map(|key| set.keys.name(key)));
                if next == b"0" {
                    answered += 1;
                    break;
                }
                cursor = next;
            }
        }
        if !set.quorum.reached(answered) {
            return Err(set.trouble(DURING));
        }
    }
    Ok(names.into_iter().collect())
}

fn scanned(value: Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let [cursor, keys] = items(&value)? else {
        return None;
    };
    let keys = items(keys)?
        .iter()
        .map(|key| bytes(key).map(<[u8]>::to_vec));
    Some((bytes(cursor)?.to_vec(), keys.collect::<Option<_>>()?))
}

/// What all nodes have of these names.
async fn pieces(set: &Set, names: &[Name]) -> Result<BTreeMap<Name, Piece>, Error> {
    let mut pieces: BTreeMap<Name, Piece> = BTreeMap::new();
    let mut answered = 0;
    set.ask(
        Message::Look(set.keys.inspect(names)),
        LIMIT,
        |_, told: Result<Value, Trouble>| {
            let read = told
                .ok()
                .and_then(|told| read_node(&told, names, &mut pieces));
            answered += usize::from(read.is_some());
            if answered == set.quorum.size() {
                Wait::ALittle(SLOWER_ONES)
            } else {
                Wait::More
            }
        },
    )
    .await;
    if set.quorum.reached(answered) {
        Ok(pieces)
    } else {
        Err(set.trouble(DURING))
    }
}

/// Adds what one node has.
fn read_node(told: &Value, names: &[Name], pieces: &mut BTreeMap<Name, Piece>) -> Option<()> {
    let (now, rest) = items(told)?.split_first()?;
    let now = number(now)?;
    for (name, of_name) in names.iter().zip(rest.chunks(3)) {
        let [held, left, waiting] = of_name else {
            return None;
        };
        let piece = pieces.entry(name.clone()).or_default();
        if let Some((id, entry)) = holder(bytes(held)?, left, now) {
            piece.holds.entry(id).or_default().push(entry);
        }
        for (id, entry) in pairs(waiting)? {
            let id: Id = bytes(id)?.try_into().ok()?;
            let entry = waiter(bytes(entry)?, now)?;
            if !entry.left.is_zero() {
                piece.waits.entry(id).or_default().push(entry);
            }
        }
    }
    Some(())
}

/// Field and value by turns, whichever shape the protocol gives them.
fn pairs(value: &Value) -> Option<Vec<(&Value, &Value)>> {
    match value {
        Value::Map(pairs) => Some(pairs.iter().map(|(id, entry)| (id, entry)).collect()),
        Value::Array(items) => Some(
            items
                .chunks_exact(2)
                .map(|both| (&both[0], &both[1]))
                .collect(),
        ),
        _ => None,
    }
}

/// `id, order, since, party` of `claims.lua`.
fn holder(record: &[u8], left: &Value, now: u64) -> Option<(Id, Entry)> {
    let id: Id = record.get(..16)?.try_into().ok()?;
    let since: i64 = digits(record.get(32..48)?)?;
    let entry = Entry {
        order: digits(record.get(16..32)?)?,
        since: Duration::from_millis(now.saturating_sub(since.unsigned_abs())),
        left: Duration::from_millis(number(left)?),
        party: party_from(record.get(48..)?)?,
    };
    Some((id, entry))
}

/// `end, number, since, keeper, party` of `claims.lua`.
fn waiter(record: &[u8], now: u64) -> Option<Entry> {
    Some(Entry {
        order: digits(record.get(16..32)?)?,
        since: Duration::from_millis(now.saturating_sub(digits(record.get(32..48)?)?)),
        left: Duration::from_millis(digits::<u64>(record.get(..16)?)?.saturating_sub(now)),
        party: party_from(record.get(64..)?)?,
    })
}

fn digits<N: FromStr>(bytes: &[u8]) -> Option<N> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

impl Piece {
    /// The holders and the waiters, both in the order of their numbers. A claim that has no number yet is not granted
    /// yet, and is left out.
    fn known(self, quorum: Quorum) -> (Vec<Known>, Vec<Known>) {
        let mut holders = Vec::new();
        for (id, entries) in self.holds {
            if quorum.reached(entries.len()) {
                // Numbers that were given up on the way to a grant are lower.
                let order = entries.iter().map(|entry| entry.order).max();
                holders.extend(known(id, entries, order.unwrap_or(0), quorum));
            }
        }
        let mut waiters = Vec::new();
        for (id, entries) in self.waits {
            let holds = holders.iter().any(|holder| holder.id == id);
            if quorum.reached(entries.len()) && !holds {
                // Nodes that heard two claims the other way round from most are outvoted.
                let mut numbers: Vec<u64> = entries.iter().map(|entry| entry.order).collect();
                numbers.sort_unstable();
                let number = numbers[quorum.size() - 1];
                waiters.extend(known(id, entries, number, quorum));
            }
        }
        waiters.sort_by_key(|known| (known.view.token, std::cmp::Reverse(known.view.since)));
        (holders, waiters)
    }
}

/// `None` for a claim that is still being numbered.
fn known(id: Id, mut entries: Vec<Entry>, order: u64, quorum: Quorum) -> Option<Known> {
    let token = Token::new(order, 0).ok()?;
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.left));
    // So long a majority has it.
    let left = entries[quorum.size() - 1].left;
    let since = entries.iter().map(|entry| entry.since).max();
    let view = ClaimView {
        token,
        mode: Mode::Exclusive,
        party: entries.swap_remove(0).party,
        since: since.unwrap_or_default(),
        lease_left: left,
    };
    Some(Known { id, view })
}
