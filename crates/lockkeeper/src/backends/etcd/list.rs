//! A name's list as it was read: who is in it, and what the rule says about one of them.
//!
//! A claim's value is one line for people and for the rule:
//! `lockkeeper1 x lease=30000 since=1763265600000 pid=4711 host=db1 label=billing`, and `held` at its end once it is
//! known to be the first.
//! A key with any other value belongs to somebody else (Go's `concurrency.Mutex`, `etcdctl lock`) and counts as
//! an exclusive claim.

use std::time::Duration;

use super::keys::{decoded, encoded};
use super::proto::{KeyValue, Range};
use crate::Mode;
use crate::claim::{Claim, Party};
use crate::rule::{self, Verdict};

const MARK: &str = "lockkeeper1";
const HELD: &str = " held";

/// What a claim says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) mode: Mode,
    /// `None`: nobody knows.
    pub(super) lease: Option<Duration>,
    /// Milliseconds since 1970 by the claimant's wall clock, for people only.
    pub(super) since: u64,
    pub(super) party: Party,
    /// Somebody was ahead of it, and nobody is any more. It is not said of all of which it is true.
    pub(super) held: bool,
}

impl Note {
    pub(super) fn of(claim: &Claim, since: u64) -> Self {
        Self {
            mode: claim.mode,
            lease: Some(claim.lease),
            since,
            party: (*claim.party).clone(),
            held: false,
        }
    }

    pub(super) fn written(&self) -> Vec<u8> {
        let Party { label, host, pid } = &self.party;
        let lease = self.lease.unwrap_or_default().as_millis();
        format!(
            "{MARK} {} lease={lease} since={} pid={pid} host={} label={}{}",
            self.mode,
            self.since,
            encoded(host),
            encoded(label),
            if self.held { HELD } else { "" },
        )
        .into_bytes()
    }

    /// What is not written as above is somebody else's.
    fn read(value: &[u8]) -> Self {
        Self::parsed(value).unwrap_or_else(|| Self {
            mode: Mode::Exclusive,
            lease: None,
            since: 0,
            party: Party {
                label: "another client of etcd".into(),
                host: "unknown".into(),
                pid: 0,
            },
            held: false,
        })
    }

    fn parsed(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (text, held) = match text.strip_suffix(HELD) {
            Some(text) => (text, true),
            None => (text, false),
        };
        let mut words = text.strip_prefix(MARK)?.strip_prefix(' ')?.split(' ');
        let mode = words.next()?.parse().ok()?;
        let mut field = |name: &str| words.next()?.strip_prefix(name);
        let lease = field("lease=")?.parse().ok()?;
        Some(Self {
            mode,
            lease: Some(Duration::from_millis(lease)),
            since: field("since=")?.parse().ok()?,
            party: Party {
                pid: field("pid=")?.parse().ok()?,
                host: decoded(field("host=")?)?,
                label: decoded(field("label=")?)?,
            },
            held,
        })
    }
}

/// Whether all that has happened to this key since it was made is that its claim has said: it holds, alone.
pub(super) fn says_held(kv: &KeyValue) -> bool {
    let note = Note::read(&kv.value);
    kv.version == 2 && note.held && note.mode == Mode::Exclusive
}

/// One key of a directory.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) key: Vec<u8>,
    pub(super) order: u64,
    pub(super) lease: i64,
    pub(super) note: Note,
}

impl From<KeyValue> for Listed {
    fn from(kv: KeyValue) -> Self {
        Self {
            note: Note::read(&kv.value),
            order: u64::try_from(kv.create_revision).unwrap_or_default(),
            lease: kv.lease,
            key: kv.key,
        }
    }
}

/// A list in its order, as of one revision.
#[derive(Debug)]
pub(super) struct List {
    pub(super) revision: i64,
    pub(super) claims: Vec<Listed>,
    /// How many claims ahead of those shown were left out.
    skipped: usize,
}

/// Where a claim stands in a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    Holds {
        order: u64,
    },
    Waits {
        order: u64,
        ahead: usize,
        /// When the nearest of those in its way may end, if that is known.
        lease: Option<Duration>,
        /// As long as all of these stay as they are, it waits.
        blockers: Vec<Vec<u8>>,
    },
    Gone,
}

impl List {
    pub(super) fn new(revision: i64, kvs: Vec<KeyValue>) -> Self {
        let mut claims: Vec<Listed> = kvs.into_iter().map(Listed::from).collect();
        claims.sort_by_key(|listed| listed.order);
        Self {
            revision,
            claims,
            skipped: 0,
        }
    }

    /// Only the end of a list that has `count` claims.
    pub(super) fn end_of(revision: i64, kvs: Vec<KeyValue>, count: i64) -> Self {
        let count = usize::try_from(count).unwrap_or_default();
        let skipped = count.saturating_sub(kvs.len());
        Self {
            skipped,
            ..Self::new(revision, kvs)
        }
    }

    /// A claim that has just entered and is known to hold.
    pub(super) fn alone(revision: i64, key: &[u8], note: &Note, lease: i64) -> Self {
        let own = Listed {
            key: key.to_vec(),
            order: u64::try_from(revision).unwrap_or_default(),
            lease,
            note: note.clone(),
        };
        Self {
            revision,
            claims: vec![own],
            skipped: 0,
        }
    }

    /// Whether there is one claim at most.
    pub(super) fn is_alone(&self) -> bool {
        self.skipped + self.claims.len() <= 1
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&Listed> {
        self.claims.iter().find(|listed| listed.key == key)
    }

    /// Whether a claim that entered now would hold.
    pub(super) fn has_room_for(&self, mode: Mode) -> bool {
        let modes = self.claims.iter().map(|listed| listed.note.mode);
        rule::holders(modes.chain([mode])) > self.claims.len()
    }

    pub(super) fn place_of(&self, key: &[u8]) -> Place {
        let Some(at) = self.claims.iter().position(|listed| listed.key == key) else {
            return Place::Gone;
        };
        let (ahead, own) = (&self.claims[..at], &self.claims[at]);
        let modes = ahead.iter().map(|listed| listed.note.mode);
        let holds = self.skipped == 0 && rule::holders(modes.chain([own.note.mode])) > at;
        if holds {
            return Place::Holds { order: own.order };
        }
        let blockers = blockers(ahead, own.note.mode);
        let lease = blockers.iter().filter_map(|listed| listed.note.lease).min();
        Place::Waits {
            order: own.order,
            ahead: self.skipped + at,
            lease,
            blockers: blockers.iter().map(|listed| listed.key.clone()).collect(),
        }
    }
}

/// The nearest of those ahead that together suffice to make the claim wait: usually one. Whatever else
/// happens ahead, it goes on waiting until one of them leaves or becomes a reader.
fn blockers(ahead: &[Listed], own: Mode) -> Vec<&Listed> {
    let waits_behind = |some: &[&Listed]| {
        let mut walk = rule::Walk::default();
        for listed in some.iter().rev() {
            walk.next(listed.note.mode);
        }
        walk.next(own) == Verdict::Waits
    };
    // From the nearest outwards, until they suffice.
    let mut some: Vec<&Listed> = Vec::new();
    for listed in ahead.iter().rev() {
        some.push(listed);
        if waits_behind(&some) {
            break;
        }
    }
    // Readers before the writer that blocks a reader do not matter.
    let mut at = 0;
    while at < some.len() && some.len() > 1 {
        let one = some.remove(at);
        if !waits_behind(&some) {
            some.insert(at, one);
            at += 1;
        }
    }
    some
}

/// The whole list of a directory.
pub(super) fn whole(directory: &super::keys::Directory) -> Range {
    Range {
        key: directory.start.clone(),
        range_end: directory.end.clone(),
        ..Range::default()
    }
}

/// The list up to and with the claim of this order number.
pub(super) fn up_to(directory: &super::keys::Directory, order: u64) -> Range {
    Range {
        max_create_revision: i64::try_from(order).unwrap_or(i64::MAX),
        ..whole(directory)
    }
}

/// The last two: a claim that has just entered, and the one before it.
pub(super) fn last_two(directory: &super::keys::Directory) -> Range {
    Range {
        limit: 2,
        sort_order: 2,
        sort_target: 2,
        ..whole(directory)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn note(mode: Mode) -> Note {
        Note {
            mode,
            lease: Some(Duration::from_millis(1500)),
            since: 12,
            party: Party {
                label: "a b\n\0%é=".into(),
                host: "h st".into(),
                pid: 4_000_000_000,
            },
            held: false,
        }
    }

    fn kv(order: i64, mode: Mode) -> KeyValue {
        KeyValue {
            key: order.to_string().into_bytes(),
            create_revision: order,
            value: note(mode).written(),
            ..KeyValue::default()
        }
    }

    fn list(modes: &[Mode]) -> List {
        let kvs = modes.iter().zip(1..).map(|(mode, order)| kv(order, *mode));
        List::new(99, kvs.collect())
    }

    fn blockers_of(modes: &[Mode]) -> Vec<usize> {
        let list = list(modes);
        match list.place_of(modes.len().to_string().as_bytes()) {
            Place::Waits { blockers, .. } => blockers
                .iter()
                .map(|key| String::from_utf8_lossy(key).parse().unwrap())
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_note_comes_back_and_junk_is_exclusive() {
        for mode in [
            Mode::Exclusive,
            Mode::Shared,
            Mode::Permits { take: 2, of: 5 },
        ] {
            let mut note = note(mode);
            assert_eq!(Note::read(&note.written()), note);
            note.held = true;
            assert_eq!(Note::read(&note.written()), note);
        }
        for junk in [
            &b""[..],
            b"x",
            b"lockkeeper1",
            b"lockkeeper1 s",
            b"lockkeeper2 s lease=1 since=1 pid=1 host=a label=b",
            b"lockkeeper1 s lease=-1 since=1 pid=1 host=a label=b",
            b"\xff\xfe",
        ] {
            assert_eq!(Note::read(junk).mode, Mode::Exclusive, "{junk:?}");
        }
    }

    #[test]
    fn only_an_exclusive_claim_that_nobody_touched_says_that_it_is_held() {
        let held = |mode, version, held| {
            let note = Note { held, ..note(mode) };
            says_held(&KeyValue {
                version,
                value: note.written(),
                ..KeyValue::default()
            })
        };
        assert!(held(Mode::Exclusive, 2, true));
        assert!(!held(Mode::Exclusive, 2, false));
        assert!(!held(Mode::Exclusive, 3, true), "touched since");
        assert!(
            !held(Mode::Shared, 2, true),
            "others may hold along with it"
        );
        assert!(!says_held(&KeyValue::default()));
    }

    #[test]
    fn who_is_watched() {
        use Mode::{Exclusive as X, Shared as S};
        let p = |take| Mode::Permits { take, of: 3 };
        assert_eq!(blockers_of(&[X, X, X]), [2], "the one before");
        assert_eq!(blockers_of(&[S, S, X]), [2], "the last reader");
        assert_eq!(blockers_of(&[X, S, S]), [1], "the writer");
        assert_eq!(blockers_of(&[X, X, S, S]), [2], "the nearest writer");
        assert_eq!(blockers_of(&[p(1), p(1), p(1), p(1)]), [3, 2, 1]);
        assert_eq!(blockers_of(&[p(1), p(2), p(3), p(1)]), [3]);
        assert_eq!(blockers_of(&[p(1), p(1), p(2)]), [2, 1]);
        assert_eq!(blockers_of(&[S, p(1)]), [1]);
    }

    #[test]
    fn the_end_of_a_list_never_holds() {
        let kvs = vec![kv(9, Mode::Exclusive), kv(7, Mode::Exclusive)];
        let place = List::end_of(9, kvs, 5).place_of(b"9");
        assert!(matches!(place, Place::Waits { ahead: 4, .. }), "{place:?}");
        let alone = List::end_of(9, vec![kv(9, Mode::Exclusive)], 1).place_of(b"9");
        assert_eq!(alone, Place::Holds { order: 9 });
        assert_eq!(List::new(9, Vec::new()).place_of(b"9"), Place::Gone);
    }

    fn any_mode() -> impl Strategy<Value = Mode> {
        prop_oneof![
            Just(Mode::Exclusive),
            Just(Mode::Shared),
            (1..4_u32).prop_map(|take| Mode::Permits { take, of: 3 }),
        ]
    }

    proptest! {
        // bug 37: whoever watches its blockers misses no promotion.
        #[test]
        fn as_long_as_its_blockers_stay_it_waits(
            modes in prop::collection::vec(any_mode(), 1..9),
            stays in prop::collection::vec(any::<bool>(), 9),
        ) {
            let whole = list(&modes);
            let own = modes.len().to_string().into_bytes();
            if let Place::Waits { blockers, .. } = whole.place_of(&own) {
                prop_assert!(!blockers.is_empty());
                let left = whole.claims.iter().enumerate().filter(|(at, listed)| {
                    stays[*at] || listed.key == own || blockers.contains(&listed.key)
                });
                let left: Vec<Mode> = left.map(|(_, listed)| listed.note.mode).collect();
                prop_assert!(rule::holders(left.iter().copied()) < left.len());
            }
        }
    }
}
