//! What goes over the wire: keys, scripts, claims as the scripts take them, and the nodes' answers.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::Value;

use super::quorum::Vote;
use crate::Name;
use crate::backend::Entry;
use crate::backends::redis::link::Script;
use crate::backends::redis::packed::Packed;
use crate::claim::{Claim, Party};

/// How many counters a node has: names that share one may cost each other a second round.
pub(super) const BUCKETS: usize = 256;

/// One script per verb, each with what they share in front of it, and before that whatever does without.
pub(super) struct Scripts {
    pub(super) enter: Script,
    pub(super) renew: Script,
    pub(super) number: Script,
    pub(super) stand_back: Script,
    pub(super) restore: Script,
    pub(super) release: Script,
    pub(super) evict: Script,
    pub(super) inspect: Script,
    pub(super) greet: Script,
    pub(super) seed: Script,
}

pub(super) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| {
    let behind =
        |quick: &str, verb: &str| Script::new([quick, include_str!("claims.lua"), verb].concat());
    let script = |verb: &str| behind("", verb);
    Scripts {
        enter: behind(include_str!("enter_free.lua"), include_str!("enter.lua")),
        renew: script(include_str!("renew.lua")),
        number: script(include_str!("number.lua")),
        stand_back: script(include_str!("stand_back.lua")),
        restore: script(include_str!("restore.lua")),
        release: behind(
            include_str!("release_alone.lua"),
            include_str!("release.lua"),
        ),
        evict: script(include_str!("evict.lua")),
        inspect: script(include_str!("inspect.lua")),
        greet: script(include_str!("greet.lua")),
        seed: script(include_str!("seed.lua")),
    }
});

impl Scripts {
    /// Those that a node must know before it is asked to vote.
    pub(super) fn verbs(&self) -> [&Script; 8] {
        [
            &self.enter,
            &self.renew,
            &self.number,
            &self.stand_back,
            &self.restore,
            &self.release,
            &self.evict,
            &self.inspect,
        ]
    }
}

/// The keys of a set, and what all its questions carry.
#[derive(Debug)]
pub(super) struct Keys {
    prefix: String,
    node: Vec<u8>,
    digest: String,
    /// This keeper's name, 16 letters: the end of its channel.
    pub(super) keeper: String,
}

impl Keys {
    pub(super) fn new(prefix: &str, digest: String, keeper: String) -> Self {
        Self {
            prefix: prefix.to_owned(),
            node: format!("{prefix}:node").into_bytes(),
            digest,
            keeper,
        }
    }

    /// The marker and the counters of a node.
    pub(super) fn node(&self) -> &[u8] {
        &self.node
    }

    pub(super) fn digest(&self) -> &[u8] {
        self.digest.as_bytes()
    }

    /// Where this keeper listens.
    pub(super) fn channel(&self) -> Vec<u8> {
        format!("{}:wake:{}", self.prefix, self.keeper).into_bytes()
    }

    fn of(&self, kind: &str, name: &Name) -> Vec<u8> {
        [&self.prefix, kind, name.as_str()].concat().into_bytes()
    }

    fn lock(&self, name: &Name) -> Vec<u8> {
        self.of(":lock:", name)
    }

    /// Where a node that votes for this set counts the numbers of a name.
    fn counter(&self, name: &Name) -> Vec<u8> {
        format!("{}:{}", bucket(name), self.digest).into_bytes()
    }

    /// Patterns that together find every name in use.
    pub(super) fn patterns(&self) -> [String; 2] {
        [":lock:*", ":wait:*"].map(|kind| format!("{}{kind}", self.prefix))
    }

    /// The name that a key found by these patterns belongs to.
    pub(super) fn name(&self, key: &[u8]) -> Option<Name> {
        let rest = key.strip_prefix(self.prefix.as_bytes())?;
        let kinds: [&[u8]; 2] = [b":lock:", b":wait:"];
        let name = kinds.iter().find_map(|kind| rest.strip_prefix(*kind))?;
        Name::new(std::str::from_utf8(name).ok()?).ok()
    }

    /// Asks for the lock, with the record that the claim is to have.
    pub(super) fn enter(&self, claim: &Claim, record: &Record, entry: Entry) -> Arc<Packed> {
        let lease = lease_ms(claim.lease);
        let counter = self.counter(&claim.name);
        let args = [
            &record.0,
            lease.as_bytes(),
            &counter,
            record.order(),
            self.keeper.as_bytes(),
        ];
        let args = match entry {
            Entry::Try => &args[..4],
            Entry::Queue => &args,
        };
        let keys = [&self.lock(&claim.name), self.node()];
        Arc::new(SCRIPTS.enter.by_hash(&keys, args))
    }

    /// Claims with the number that each is offered if it comes to hold.
    pub(super) fn renew(&self, claims: &[Claim], offers: &[u64]) -> Arc<Packed> {
        let mut keys = vec![self.node.clone()];
        let mut args: Vec<Vec<u8>> = vec![self.digest().to_vec()];
        for (claim, offer) in claims.iter().zip(offers) {
            keys.push(self.lock(&claim.name));
            args.push(claim.id.as_bytes().to_vec());
            args.push(self.counter(&claim.name));
            args.push(lease_ms(claim.lease).into_bytes());
            args.push(offer.to_string().into_bytes());
        }
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        Arc::new(SCRIPTS.renew.by_hash(&keys, &args))
    }

    pub(super) fn number(&self, claim: &Claim, number: u64) -> Arc<Packed> {
        Arc::new(SCRIPTS.number.by_hash(
            &[&self.lock(&claim.name), self.node()],
            &[
                &claim.id.as_bytes()[..],
                &self.counter(&claim.name),
                number.to_string().as_bytes(),
            ],
        ))
    }

    pub(super) fn stand_back(&self, claim: &Claim) -> Arc<Packed> {
        Arc::new(SCRIPTS.stand_back.by_hash(
            &[&self.lock(&claim.name), self.node()],
            &[
                &claim.id.as_bytes()[..],
                &self.counter(&claim.name),
                lease_ms(claim.lease).as_bytes(),
                self.keeper.as_bytes(),
                party(&claim.party).as_bytes(),
            ],
        ))
    }

    pub(super) fn restore(&self, claim: &Claim, order: u64) -> Arc<Packed> {
        Arc::new(SCRIPTS.restore.by_hash(
            &[&self.lock(&claim.name), self.node()],
            &[
                &claim.id.as_bytes()[..],
                &self.counter(&claim.name),
                lease_ms(claim.lease).as_bytes(),
                order.to_string().as_bytes(),
                party(&claim.party).as_bytes(),
            ],
        ))
    }

    /// Takes a claim out, wherever it is.
    pub(super) fn release(&self, claim: &Claim) -> Arc<Packed> {
        self.take_out(&claim.name, claim.id.as_bytes())
    }

    /// The same, and quicker where it has the lock under this record.
    pub(super) fn release_held(&self, claim: &Claim, record: &Record) -> Arc<Packed> {
        self.take_out(&claim.name, &record.0)
    }

    fn take_out(&self, name: &Name, who: &[u8]) -> Arc<Packed> {
        let keys = [":lock:", ":flag:"].map(|kind| self.of(kind, name));
        Arc::new(
            SCRIPTS
                .release
                .by_hash(&keys, &[who, self.prefix.as_bytes()]),
        )
    }

    pub(super) fn evict(&self, name: &Name, id: &[u8], why: &str) -> Arc<Packed> {
        let broken = format!("{}:broken", self.prefix).into_bytes();
        Arc::new(SCRIPTS.evict.by_hash(
            &[self.lock(name), broken],
            &[id, self.prefix.as_bytes(), why.as_bytes()],
        ))
    }

    pub(super) fn inspect(&self, names: &[Name]) -> Arc<Packed> {
        let keys = |name| [":lock:", ":wait:"].map(|kind| self.of(kind, name));
        let keys: Vec<Vec<u8>> = names.iter().flat_map(keys).collect();
        Arc::new(SCRIPTS.inspect.by_hash(&keys, &[]))
    }
}

/// Which counter the names's numbers come from.
pub(super) fn bucket(name: &Name) -> usize {
    let hash = name.as_str().bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    (hash ^ (hash >> 16)) as usize % BUCKETS
}

/// What a node has of a claim that asked and was given the lock on the spot.
#[derive(Debug)]
pub(super) struct Record(Vec<u8>);

impl Record {
    /// `since` is the asker's own time, which nodes do not count on: it is below zero.
    pub(super) fn new(claim: &Claim, order: u64, since: Duration) -> Self {
        let since = -i64::try_from(since.as_millis()).unwrap_or(0);
        let rest = format!("{order:016}{since:016}{}", party(&claim.party));
        Self([claim.id.as_bytes(), rest.as_bytes()].concat())
    }

    fn order(&self) -> &[u8] {
        &self.0[16..32]
    }
}

/// In whole milliseconds, never zero, which would delete the key, and never less than the caller counts on.
fn lease_ms(lease: Duration) -> String {
    lease.as_nanos().div_ceil(1_000_000).max(1).to_string()
}

/// Who stands behind a claim: the end of its record.
fn party(party: &Party) -> String {
    let Party { label, host, pid } = party;
    format!("{pid} {} {label}{host}", label.len())
}

pub(super) fn party_from(bytes: &[u8]) -> Option<Party> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (pid, rest) = text.split_once(' ')?;
    let (length, rest) = rest.split_once(' ')?;
    let (label, host) = rest.split_at_checked(length.parse().ok()?)?;
    Some(Party {
        label: label.to_owned(),
        host: host.to_owned(),
        pid: pid.parse().ok()?,
    })
}

/// What a node said about one claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) vote: Vote,
    /// Whether the claim waits or holds here.
    pub(super) listed: bool,
    /// Whether the node lacks its marker, or has one of other members.
    pub(super) stranger: bool,
    /// Whether nobody has the node.
    pub(super) free: bool,
    pub(super) seen: u64,
    /// How long whoever has the node may keep it.
    pub(super) left: Duration,
}

impl Said {
    /// From the four numbers of a script's answer.
    fn from_numbers([says, order, seen, left]: [u64; 4]) -> Option<Self> {
        let (vote, listed) = match says {
            1 => (Vote::Mine { order }, true),
            2 => (Vote::Taken { order }, true),
            3 => (Vote::Unknown, false),
            4 => (Vote::Abstains, false),
            5 => (Vote::Taken { order }, false),
            6 | 7 => (Vote::Failed, false),
            _ => return None,
        };
        Some(Self {
            vote,
            listed,
            stranger: says >= 6,
            free: says == 3 || (says == 4 && order == 0),
            seen,
            left: Duration::from_millis(left),
        })
    }

    /// Of one claim that asked for the lock: a mere number says that it has it, under what it offered.
    pub(super) fn one(answer: &Value, offer: u64) -> Option<Self> {
        match number(answer) {
            Some(says) => Self::from_numbers([says, offer, offer, 0]),
            None => Self::all(answer)?.pop(),
        }
    }

    /// Of each claim of a batch.
    pub(super) fn all(answer: &Value) -> Option<Vec<Self>> {
        let numbers: Option<Vec<u64>> = items(answer)?.iter().map(number).collect();
        let numbers = numbers?;
        let (fours, rest) = numbers.as_chunks::<4>();
        if !rest.is_empty() {
            return None;
        }
        fours.iter().map(|four| Self::from_numbers(*four)).collect()
    }
}

pub(super) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_comes_back_as_it_went_in() {
        for (label, host) in [("a b", "h"), ("", ""), ("\n\0 7", "é 1")] {
            let here = Party {
                label: label.into(),
                host: host.into(),
                pid: 4_000_000_000,
            };
            assert_eq!(party_from(party(&here).as_bytes()), Some(here));
        }
        assert_eq!(party_from(b"7 90 x"), None);
    }

    // bug 35
    #[test]
    fn no_lease_is_nothing() {
        assert_eq!(lease_ms(Duration::ZERO), "1");
        assert_eq!(lease_ms(Duration::from_nanos(1_000_001)), "2");
    }

    #[test]
    fn a_key_gives_its_name_back() {
        let keys = Keys::new("p", "d".into(), "k".into());
        for text in ["a", ":lock:", "*", "a\0b", "é"] {
            let name = Name::new(text).unwrap();
            for kind in [":lock:", ":wait:"] {
                assert_eq!(keys.name(&keys.of(kind, &name)), Some(name.clone()));
            }
        }
        assert_eq!(keys.name(b"p:node"), None);
    }
}
