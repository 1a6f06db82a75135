//! The claims of this keeper, as far as it knows them: their keys, their leases, where they stood when that
//! was last read. Pure state.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::keys::{Directory, Keys};
use super::list::{List, Note, Place, says_held};
use super::proto::KeyValue;
use super::watch::Heed;
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;
use crate::{Mode, Name};

/// One claim of this keeper.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) name: Name,
    pub(super) directory: Directory,
    pub(super) key: Vec<u8>,
    /// As etcd has it, or as it was last asked for.
    pub(super) note: Note,
    /// The lease that the key is bound to; another keeper's, if that one knows the claim's id too.
    pub(super) lease_id: i64,
    /// The lease of this keeper's that it was last bound to.
    pub(super) own_lease: i64,
    /// The length of that lease.
    pub(super) lease: Duration,
    /// Known once etcd has told.
    pub(super) order: Option<u64>,
    /// The revision at which its standing was read.
    pub(super) seen: i64,
    /// Its own key may be gone since this revision; certain again when it is seen there at a later one.
    doubtful_since: i64,
    pub(super) stands: Stands,
    /// The keys that it waits for as of `seen`, each with its create revision; empty unless it waits.
    blockers: Vec<(Vec<u8>, i64)>,
    /// The leases on which its key was asked for without an answer: each question may still be carried out.
    pub(super) under_way: Vec<i64>,
    /// How often it was asked to delete its key: each question may still be carried out.
    pub(super) leaving: u32,
    ends: Moment,
    serial: u64,
}

/// Where it stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    Unknown,
    Holds,
    Waits {
        ahead: usize,
        lease: Option<Duration>,
    },
}

/// What a list that was read says about a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It holds, and never waited or did not wait any more.
    Holds,
    /// It waited, and has come to hold.
    Promoted { order: u64 },
    /// It waits until one of these leaves or, if it heeds that, becomes a reader.
    Waits { blockers: Vec<Vec<u8>>, heed: Heed },
    /// Its key is gone.
    Gone,
    /// More is known already, or the claim is not ours any more.
    Old,
}

/// Whether a claim is one of this keeper's.
#[derive(Debug)]
pub(super) enum Known {
    Alive(Box<Entry>),
    /// It has ended.
    Over,
    Not,
}

/// All claims of one keeper.
#[derive(Debug)]
pub(super) struct Claims {
    entries: HashMap<ClaimId, Entry>,
    /// When each ends, unless it is renewed.
    agenda: BTreeMap<(Moment, u64), ClaimId>,
    /// When the reaper looks. What comes and goes meanwhile does not wake it, unless it ends sooner.
    looks_at: Moment,
    serials: u64,
    /// Keys that are over here, and are being deleted there.
    doomed: HashSet<Vec<u8>>,
    /// Keys whose last claim has left no question open, in that order. Later claims take them, for etcd remembers every
    /// key that there ever was until it is compacted, and passes by all of a name's when it reads the list.
    spare: HashMap<Name, VecDeque<Vec<u8>>>,
    /// Names in whose list there was somebody else when a claim of this keeper last entered.
    crowded: HashSet<Name>,
}

/// More names than this are not remembered, be it that they are crowded or for their spare keys.
const NAMES: usize = 10_000;
/// More spare keys of one name neither.
const SPARE_KEYS: usize = 64;

impl Default for Claims {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            agenda: BTreeMap::new(),
            looks_at: Moment::NEVER,
            serials: 0,
            doomed: HashSet::new(),
            spare: HashMap::new(),
            crowded: HashSet::new(),
        }
    }
}

impl Claims {
    /// The claim's entry as it was, or a new one. From now on its key may be made on this lease.
    pub(super) fn admit(
        &mut self,
        keys: &Keys,
        claim: &Claim,
        (lease_id, ends, since): (i64, Moment, u64),
    ) -> Result<Entry, Error> {
        if let Some(entry) = self.entries.get_mut(&claim.id) {
            if entry.name != claim.name {
                return Err(Error::invalid("a claim id is for one name only"));
            }
            let before = entry.clone();
            entry.ask_on(lease_id);
            return Ok(before);
        }
        self.serials += 1;
        let key = if claim.id.is_common() {
            keys.common(&claim.name, &claim.id)
        } else {
            let spare = self.take_spare(&claim.name);
            spare.unwrap_or_else(|| keys.seat(&claim.name, &claim.id, self.serials))
        };
        let entry = Entry {
            name: claim.name.clone(),
            directory: keys.directory(&claim.name),
            key,
            note: Note::of(claim, since),
            lease_id,
            own_lease: lease_id,
            lease: claim.lease,
            order: None,
            seen: 0,
            doubtful_since: 0,
            stands: Stands::Unknown,
            blockers: Vec::new(),
            under_way: Vec::new(),
            leaving: 0,
            ends,
            serial: self.serials,
        };
        let mut kept = entry.clone();
        kept.ask_on(lease_id);
        self.agenda.insert((ends, entry.serial), claim.id);
        self.entries.insert(claim.id, kept);
        Ok(entry)
    }

    /// The claim's entry, if it is not over by now.
    pub(super) fn alive(&self, claim: &Claim, now: Moment) -> Option<Entry> {
        let entry = self.entries.get(&claim.id)?;
        (entry.name == claim.name && now < entry.ends).then(|| entry.clone())
    }

    /// What is known of the claim.
    pub(super) fn known(&self, claim: &Claim, now: Moment) -> Known {
        match self.entries.get(&claim.id) {
            Some(entry) if entry.name == claim.name && now < entry.ends => {
                Known::Alive(Box::new(entry.clone()))
            }
            Some(entry) if entry.name == claim.name => Known::Over,
            _ => Known::Not,
        }
    }

    pub(super) fn get(&self, id: ClaimId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(super) fn change(&mut self, id: ClaimId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(&id) {
            change(entry);
        }
    }

    /// It lives until then.
    pub(super) fn prolong(&mut self, id: ClaimId, ends: Moment) {
        if let Some(entry) = self.entries.get_mut(&id) {
            self.agenda.remove(&(entry.ends, entry.serial));
            entry.ends = ends;
            self.agenda.insert((ends, entry.serial), id);
        }
    }

    pub(super) fn remove(&mut self, id: ClaimId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.agenda.remove(&(entry.ends, entry.serial));
        Some(entry)
    }

    /// The key of a claim that was released is free for a later one on this name.
    pub(super) fn set_aside(&mut self, released: Entry) {
        if self.spare.len() >= NAMES && !self.spare.contains_key(&released.name) {
            self.spare.clear();
        }
        let keys = self.spare.entry(released.name).or_default();
        if keys.len() < SPARE_KEYS {
            keys.push_back(released.key);
        }
    }

    /// Not the one that was set aside last: who waited for that one may still be watching it.
    fn take_spare(&mut self, name: &Name) -> Option<Vec<u8>> {
        let keys = self.spare.get_mut(name)?;
        if keys.len() < 2 {
            return None;
        }
        keys.pop_front()
    }

    /// Whether a claim on this name has to expect others ahead of it.
    pub(super) fn is_crowded(&self, name: &Name) -> bool {
        self.crowded.contains(name)
    }

    /// Others were in the list of this name, or nobody.
    pub(super) fn crowd(&mut self, name: &Name, crowded: bool) {
        match (crowded, self.crowded.contains(name)) {
            (true, false) => {
                if self.crowded.len() >= NAMES {
                    self.crowded.clear();
                }
                self.crowded.insert(name.clone());
            }
            (false, true) => {
                self.crowded.remove(name);
            }
            _ => {}
        }
    }

    /// Takes in what a list says about the claim.
    pub(super) fn judge(&mut self, id: ClaimId, list: &List) -> Judged {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Judged::Old;
        };
        if list.revision < entry.seen {
            return Judged::Old;
        }
        entry.seen = list.revision;
        entry.blockers.clear();
        if let Some(listed) = list.find(&entry.key) {
            entry.note = listed.note.clone();
            entry.lease_id = listed.lease;
        }
        match list.place_of(&entry.key) {
            Place::Gone => {
                // Nothing that is told from now on makes it a holder again.
                entry.stands = Stands::Unknown;
                Judged::Gone
            }
            Place::Holds { order } => {
                entry.order = Some(order);
                let before = std::mem::replace(&mut entry.stands, Stands::Holds);
                match before {
                    Stands::Waits { .. } => Judged::Promoted { order },
                    Stands::Holds | Stands::Unknown => Judged::Holds,
                }
            }
            Place::Waits {
                order,
                ahead,
                lease,
                mut blockers,
            } => {
                entry.order = Some(order);
                entry.stands = Stands::Waits { ahead, lease };
                let with_revision = |key: &Vec<u8>| {
                    let order = list.find(key)?.order;
                    Some((key.clone(), i64::try_from(order).ok()?))
                };
                entry.blockers = blockers.iter().filter_map(with_revision).collect();
                // And its own, so that it learns at once when it is broken.
                blockers.push(entry.key.clone());
                let heed = match entry.mode() {
                    // A reader ahead of it is in its way as much as a writer.
                    Mode::Exclusive => Heed::End,
                    _ => Heed::Changes,
                };
                Judged::Waits { blockers, heed }
            }
        }
    }

    /// It stands at this revision as it did before.
    pub(super) fn seen_at(&mut self, id: ClaimId, revision: i64) {
        self.change(id, |entry| entry.seen = entry.seen.max(revision));
    }

    /// Something may have happened to the claim's own key up to this revision.
    pub(super) fn doubt(&mut self, id: ClaimId, revision: i64) {
        self.change(id, |entry| {
            entry.doubtful_since = entry.doubtful_since.max(revision);
        });
    }

    /// A watched key was deleted at this revision, and was `before` until then. Promotes the claim and returns its
    /// sequence number if the event proves that the queue ahead of it is empty; otherwise the queue has to be read.
    ///
    /// The deleted key must be a current blocker, created at the revision that the queue showed. A key can be deleted and
    /// created again, and then it stands behind the claim; a watch that is being replaced still reports its end.
    pub(super) fn left_alone(
        &mut self,
        id: ClaimId,
        (key, before): (&[u8], Option<&KeyValue>),
        revision: i64,
    ) -> Option<u64> {
        let entry = self.entries.get_mut(&id)?;
        if entry.key == key {
            entry.doubtful_since = entry.doubtful_since.max(revision);
            return None;
        }
        let (before, order) = (before?, entry.order?);
        let created = before.create_revision;
        let is_blocker = entry.blockers.iter().any(|b| b.0 == key && b.1 == created);
        let is_ahead = u64::try_from(created).is_ok_and(|created| created < order);
        if !is_blocker || !is_ahead {
            return None;
        }
        // Breaking a claim touches its predecessor: if that was not touched, the claim was not broken.
        let was_first = match entry.stands {
            Stands::Waits { ahead: 1, .. } => {
                before.mod_revision <= entry.seen || says_held(before)
            }
            // An exclusive claim has one blocker, its predecessor.
            Stands::Waits { .. } => entry.mode() == Mode::Exclusive && says_held(before),
            _ => false,
        };
        if !was_first || entry.doubtful_since > entry.seen || entry.seen >= revision {
            return None;
        }
        entry.stands = Stands::Holds;
        entry.blockers.clear();
        entry.seen = revision;
        Some(order)
    }

    /// Whether this end is sooner than the next one that the reaper waits for; if so, it is what it waits for.
    pub(super) fn is_next_end(&mut self, ends: Moment) -> bool {
        let sooner = ends < self.looks_at;
        self.looks_at = self.looks_at.min(ends);
        sooner
    }

    /// When the reaper has to look next.
    pub(super) fn plan(&mut self) -> Moment {
        self.looks_at = self.next_end();
        self.looks_at
    }

    /// When the next one ends.
    fn next_end(&self) -> Moment {
        self.agenda
            .first_key_value()
            .map_or(Moment::NEVER, |((ends, _), _)| *ends)
    }

    /// Takes out what is over by now.
    pub(super) fn expired(&mut self, now: Moment) -> Vec<(ClaimId, Entry)> {
        let mut over = Vec::new();
        while let Some(((ends, _), id)) = self.agenda.first_key_value() {
            if *ends > now {
                break;
            }
            let id = *id;
            match self.remove(id) {
                Some(entry) => over.push((id, entry)),
                None => break,
            }
        }
        over
    }

    /// The claims that are bound to this lease.
    pub(super) fn on_lease(&self, lease_id: i64) -> Vec<ClaimId> {
        let on_it = self.entries.iter();
        let on_it = on_it.filter(|(_, entry)| entry.lease_id == lease_id);
        on_it.map(|(id, _)| *id).collect()
    }

    pub(super) fn doom(&mut self, key: &[u8]) {
        self.doomed.insert(key.to_vec());
    }

    pub(super) fn deleted(&mut self, key: &[u8]) {
        self.doomed.remove(key);
    }

    /// Whether the key is there only because its deletion is under way.
    pub(super) fn is_doomed(&self, key: &[u8]) -> bool {
        self.doomed.contains(key)
    }
}

impl Entry {
    pub(super) fn ends(&self) -> Moment {
        self.ends
    }

    pub(super) fn bind_to(&mut self, lease_id: i64, lease: Duration) {
        self.lease_id = lease_id;
        self.own_lease = lease_id;
        self.lease = lease;
    }

    fn ask_on(&mut self, lease: i64) {
        if !self.under_way.contains(&lease) {
            self.under_way.push(lease);
        }
    }

    /// The leases of this keeper's that its key may be bound to, now or later.
    pub(super) fn own_leases(&self) -> Vec<i64> {
        let mut leases = self.under_way.clone();
        if !leases.contains(&self.own_lease) {
            leases.push(self.own_lease);
        }
        leases
    }

    /// Nothing that was asked about its key is still under way, now that its release was answered.
    pub(super) fn is_certain(&self) -> bool {
        self.under_way.is_empty() && self.leaving == 1
    }

    pub(super) fn mode(&self) -> Mode {
        self.note.mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Party;
    use std::sync::Arc;

    const AHEAD: &[u8] = b"ahead";

    fn listed(key: &[u8], created: i64) -> KeyValue {
        KeyValue {
            key: key.to_vec(),
            create_revision: created,
            ..KeyValue::default()
        }
    }

    fn claim(name: &str, id: ClaimId) -> Claim {
        Claim {
            id,
            name: name.parse().unwrap(),
            mode: Mode::Exclusive,
            lease: Duration::from_secs(9),
            party: Arc::new(Party::here("test")),
        }
    }

    /// A claim enters; its key.
    fn admitted(claims: &mut Claims, name: &str, id: ClaimId) -> Vec<u8> {
        let claim = claim(name, id);
        let entry = claims.admit(&Keys::under("/locks"), &claim, (1, Moment::NEVER, 0));
        entry.unwrap().key
    }

    /// A claim that waits for one other, as of revision 2.
    fn waiting() -> (Claims, ClaimId, Vec<u8>) {
        let (mut claims, id) = (Claims::default(), ClaimId::random().unwrap());
        let key = admitted(&mut claims, "a", id);
        let list = List::new(2, vec![listed(AHEAD, 1), listed(&key, 2)]);
        let judged = claims.judge(id, &list);
        assert!(matches!(judged, Judged::Waits { .. }), "{judged:?}");
        (claims, id, key)
    }

    #[test]
    fn a_key_set_aside_is_for_a_later_claim_of_its_name_and_keeper() {
        let (mut claims, id, key) = waiting();
        let released = claims.remove(id).unwrap();
        let later = Entry {
            key: b"later".to_vec(),
            ..released.clone()
        };
        claims.set_aside(released);
        claims.set_aside(later);
        let mut next = |name: &str, id: ClaimId| admitted(&mut claims, name, id);
        let own = || ClaimId::random().unwrap();
        assert_ne!(next("b", own()), key);
        assert_ne!(next("a", ClaimId::common([9; 16])), key);
        assert_eq!(next("a", own()), key);
        assert_ne!(next("a", own()), key);
    }

    #[test]
    fn a_name_is_crowded_until_somebody_enters_alone() {
        let (mut claims, a) = (Claims::default(), "a".parse().unwrap());
        assert!(!claims.is_crowded(&a));
        claims.crowd(&a, true);
        assert!(claims.is_crowded(&a) && !claims.is_crowded(&"b".parse().unwrap()));
        claims.crowd(&a, false);
        assert!(!claims.is_crowded(&a));
    }

    #[test]
    fn who_waits_for_one_holds_when_that_one_leaves() {
        let (mut claims, id, _) = waiting();
        assert_eq!(
            claims.left_alone(id, (AHEAD, Some(&listed(AHEAD, 1))), 3),
            Some(2)
        );
    }

    /// The same key, created again behind the waiter; and a key that was never ahead.
    // proves: L1
    #[test]
    fn the_end_of_a_key_that_is_not_a_blocker_is_no_grant() {
        for (key, created) in [(AHEAD, 3), (&b"old"[..], 1), (&b"old"[..], 3)] {
            let (mut claims, id, _) = waiting();
            // The queue was read again after that key was created; `judge` saw the holder only.
            claims.seen_at(id, 4);
            let gone = listed(key, created);
            let promoted = claims.left_alone(id, (key, Some(&gone)), 5);
            assert_eq!(promoted, None, "{gone:?}");
        }
        let (mut claims, id, _) = waiting();
        claims.seen_at(id, 4);
        let gone = listed(AHEAD, 1);
        assert_eq!(claims.left_alone(id, (AHEAD, Some(&gone)), 5), Some(2));
    }

    /// The same where several are ahead, and the key says that it was held.
    // proves: L1
    #[test]
    fn a_held_key_that_was_created_again_is_no_grant() {
        let (mut claims, id, key) = waiting();
        let three = vec![listed(b"first", 0), listed(AHEAD, 1), listed(&key, 2)];
        claims.judge(id, &List::new(2, three));
        let again = KeyValue {
            create_revision: 3,
            mod_revision: 4,
            ..written(2, true)
        };
        assert_eq!(claims.left_alone(id, (AHEAD, Some(&again)), 9), None);
    }

    /// What the one ahead was when it left, and whether it said that it held.
    fn written(version: i64, held: bool) -> KeyValue {
        let note = Note {
            held,
            ..Note::of(&claim("a", ClaimId::common([1; 16])), 0)
        };
        KeyValue {
            version,
            mod_revision: 1 + version,
            value: note.written(),
            ..listed(AHEAD, 1)
        }
    }

    #[test]
    fn who_may_have_been_broken_does_not_come_to_hold() {
        // Touched after the list was read.
        for touched in [Some(written(3, false)), Some(written(3, true)), None] {
            let (mut claims, id, _) = waiting();
            let left = (AHEAD, touched.as_ref());
            assert_eq!(claims.left_alone(id, left, 9), None, "{touched:?}");
        }
        let (mut claims, id, _) = waiting();
        let said = written(2, true);
        assert_eq!(claims.left_alone(id, (AHEAD, Some(&said)), 9), Some(2));
    }

    #[test]
    fn who_waits_for_several_holds_when_one_that_held_leaves() {
        let behind_two = || {
            let (mut claims, id, key) = waiting();
            let three = vec![listed(b"first", 0), listed(AHEAD, 1), listed(&key, 2)];
            claims.judge(id, &List::new(2, three));
            (claims, id)
        };
        for (left, holds) in [
            (written(2, true), Some(2)),
            (written(1, false), None),
            (written(3, true), None),
        ] {
            let (mut claims, id) = behind_two();
            let told = claims.left_alone(id, (AHEAD, Some(&left)), 9);
            assert_eq!(told, holds, "{left:?}");
        }
    }

    #[test]
    fn who_is_gone_does_not_come_to_hold() {
        let (mut claims, id, _) = waiting();
        let list = List::new(3, vec![listed(AHEAD, 1)]);
        assert_eq!(claims.judge(id, &list), Judged::Gone);
        assert_eq!(
            claims.left_alone(id, (AHEAD, Some(&listed(AHEAD, 1))), 4),
            None
        );
    }

    #[test]
    fn who_may_be_gone_does_not_come_to_hold_until_it_was_seen_again() {
        let (mut claims, id, key) = waiting();
        claims.doubt(id, 3);
        assert_eq!(
            claims.left_alone(id, (AHEAD, Some(&listed(AHEAD, 1))), 4),
            None
        );
        let list = List::new(3, vec![listed(AHEAD, 1), listed(&key, 2)]);
        claims.judge(id, &list);
        assert_eq!(
            claims.left_alone(id, (AHEAD, Some(&listed(AHEAD, 1))), 4),
            Some(2)
        );
    }
}
