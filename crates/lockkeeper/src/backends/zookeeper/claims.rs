//! The claims of this keeper: which node stands for each, how it stands, and when its lease ends. A
//! claim is in here before the first byte about it is sent, so that none can be forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

use super::client::Session;
use super::line::Line;
use super::names::Contender;
use super::note::Note;
use super::wire::Ear;
use crate::claim::{Claim, ClaimId};
use crate::lifecycle::deadline::Moment;
use crate::{Mode, Name};

/// A claim's id counts for its own name only.
pub(super) type Key = (Name, ClaimId);

pub(super) fn key(claim: &Claim) -> Key {
    (claim.name.clone(), claim.id)
}

/// The node that stands for a claim.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) child: String,
    /// The transaction that made it.
    pub(super) order: u64,
}

/// A claim as it was last seen.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) session: Arc<Session>,
    /// `None` as long as it is not known whether its node was made.
    pub(super) node: Option<Node>,
    pub(super) note: Note,
    /// Who is ahead of it; `None` once it holds.
    pub(super) line: Option<Line>,
    /// Its number, if nobody was there when it came to hold.
    pub(super) alone: Option<i32>,
    /// Its lease has ended: whatever the servers say, it is gone.
    pub(super) over: bool,
    /// What is listened to on its behalf.
    pub(super) ears: Ears,
}

/// The watches of a claim: as long as they stand, nothing has happened to it.
#[derive(Debug, Clone, Default)]
pub(super) struct Ears {
    pub(super) own: Ear,
    /// On those ahead of it, by the names of their nodes.
    pub(super) ahead: Vec<(String, Ear)>,
}

impl Place {
    pub(super) fn mode(&self) -> Mode {
        self.note.mode
    }

    /// Whether its own node is there, and nothing has changed for it, by all that was told so far.
    pub(super) fn is_as_it_was(&self) -> bool {
        let listened_to = |one: &Contender| {
            let mut ears = self.ears.ahead.iter();
            ears.any(|(child, ear)| *child == one.child && ear.stands())
        };
        let nothing_new = match &self.line {
            None => true,
            // Whoever watches nobody has not looked at the line yet.
            Some(line) => {
                let mut watched = line.watched(self.mode()).into_iter().peekable();
                line.is_told_of_all(self.mode())
                    && watched.peek().is_some()
                    && watched.all(listened_to)
            }
        };
        nothing_new && self.ears.own.stands()
    }

    /// Those ahead whose change it has to hear of.
    pub(super) fn watched(&self) -> Vec<Contender> {
        let watched = self.line.iter().flat_map(|line| line.watched(self.mode()));
        watched.cloned().collect()
    }
}

struct Entry {
    place: Place,
    /// Since when it is known to hold.
    held: Moment,
    ends: Moment,
    watch: Option<AbortHandle>,
}

impl Entry {
    fn stop_watching(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }
}

/// What is known of a claim that enters.
#[derive(Debug)]
pub(super) enum Begun {
    /// Nothing: it is in the book from now on.
    New,
    /// It entered before.
    Known(Place),
    /// Nothing was recorded: the session has ended.
    Ended,
}

#[derive(Default)]
pub(super) struct Claims(Mutex<HashMap<Key, Entry>>);

impl Claims {
    /// Puts a claim in the book, or finds it there; its lease starts anew.
    pub(super) fn begin(&self, claim: &Claim, session: &Arc<Session>, now: Moment) -> Begun {
        let mut claims = self.lock();
        if let Some(entry) = claims.get_mut(&key(claim)) {
            entry.renew(claim, now);
            return Begun::Known(entry.place.clone());
        }
        // Under the lock, because `end` removes the entries of a session once, after it is over.
        if session.is_over() {
            return Begun::Ended;
        }
        let place = Place {
            session: session.clone(),
            node: None,
            note: Note {
                mode: claim.mode,
                lease: claim.lease,
                party: claim.party.clone(),
            },
            line: Some(Line::default()),
            alone: None,
            over: false,
            ears: Ears::default(),
        };
        let entry = Entry {
            place,
            held: Moment::NEVER,
            ends: now + claim.lease,
            watch: None,
        };
        claims.insert(key(claim), entry);
        Begun::New
    }

    /// Starts the lease anew, unless it has ended.
    pub(super) fn renew(&self, claim: &Claim, now: Moment) -> Option<Place> {
        let mut claims = self.lock();
        let entry = claims.get_mut(&key(claim))?;
        entry.renew(claim, now);
        Some(entry.place.clone())
    }

    pub(super) fn knows(&self, key: &Key) -> bool {
        self.lock().contains_key(key)
    }

    pub(super) fn place(&self, key: &Key) -> Option<Place> {
        self.lock().get(key).map(|entry| entry.place.clone())
    }

    /// The claim has its node.
    pub(super) fn settle(&self, key: &Key, node: Node) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.place.node = Some(node);
        }
    }

    /// It waits behind this line. What is known of the versions of nodes stays known.
    pub(super) fn waits(&self, key: &Key, mut line: Line) {
        if let Some(entry) = self.lock().get_mut(key) {
            let Some(known) = &entry.place.line else {
                // It holds: an older listing takes nothing back.
                return;
            };
            for contender in line.iter_mut() {
                let before = known.iter().find(|before| before.child == contender.child);
                let version = before.map_or(0, |before| before.version);
                contender.version = contender.version.max(version);
            }
            entry.place.line = Some(line);
        }
    }

    /// A node ahead of it was found in this version, or has had it.
    pub(super) fn saw(&self, key: &Key, child: &str, version: i32) {
        if let Some(line) = self
            .lock()
            .get_mut(key)
            .and_then(|entry| entry.place.line.as_mut())
        {
            let seen = line.iter_mut().find(|contender| contender.child == child);
            if let Some(contender) = seen {
                contender.version = contender.version.max(version);
            }
        }
    }

    /// It holds, and goes on holding until it is gone; `alone` is its number if nobody was ahead of it.
    pub(super) fn holds(&self, key: &Key, alone: Option<i32>) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.place.line = None;
            entry.place.alone = alone;
        }
    }

    /// It is listened to by these.
    pub(super) fn hears(&self, key: &Key, ears: Ears) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.place.ears = ears;
        }
    }

    /// From this moment on it is to be minded as a hold.
    pub(super) fn minded_from(&self, key: &Key, now: Moment) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.held = entry.held.min(now);
        }
    }

    /// Holds since this moment or longer whose end nobody listens for; and whether there are younger ones.
    pub(super) fn unheard(&self, since: Moment) -> (Vec<(Key, Place)>, bool) {
        let (mut lasting, mut more) = (Vec::new(), false);
        for (key, entry) in self.lock().iter() {
            let place = &entry.place;
            let minded = place.line.is_some() || place.over || place.ears.own.stands();
            if minded || place.node.is_none() || entry.held == Moment::NEVER {
                continue;
            }
            if entry.held <= since {
                lasting.push((key.clone(), place.clone()));
            } else {
                more = true;
            }
        }
        (lasting, more)
    }

    pub(super) fn becomes_shared(&self, key: &Key) {
        if let Some(entry) = self.lock().get_mut(key) {
            entry.place.note.mode = Mode::Shared;
        }
    }

    /// This task listens for it from now on, and no other.
    pub(super) fn watched_by(&self, key: &Key, task: AbortHandle) {
        match self.lock().get_mut(key) {
            Some(entry) => {
                entry.stop_watching();
                entry.watch = Some(task);
            }
            None => task.abort(),
        }
    }

    /// It is about to leave: nobody listens for it any more.
    pub(super) fn leaves(&self, key: &Key) -> Option<Place> {
        let mut claims = self.lock();
        let entry = claims.get_mut(key)?;
        entry.stop_watching();
        Some(entry.place.clone())
    }

    /// It is gone.
    pub(super) fn forget(&self, key: &Key) {
        if let Some(mut entry) = self.lock().remove(key) {
            entry.stop_watching();
        }
    }

    /// The session is over, and with it every claim that lived by it.
    pub(super) fn end(&self, session: &Arc<Session>) {
        self.lock().retain(|_, entry| {
            let lives = !Arc::ptr_eq(&entry.place.session, session);
            if !lives {
                entry.stop_watching();
            }
            lives
        });
    }

    /// The claims whose leases have just ended, and when the next one may.
    pub(super) fn expire(&self, now: Moment, at_the_latest: Duration) -> (Vec<Key>, Moment) {
        let (mut ended, mut next) = (Vec::new(), now + at_the_latest);
        for (key, entry) in self.lock().iter_mut() {
            if entry.place.over {
                continue;
            }
            if entry.ends <= now {
                entry.place.over = true;
                entry.stop_watching();
                ended.push(key.clone());
            } else {
                next = next.min(entry.ends);
            }
        }
        (ended, next)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    pub(super) fn clear(&self) {
        for (_, mut entry) in self.lock().drain() {
            entry.stop_watching();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        // Every change above is made of steps that cannot panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn renew(&mut self, claim: &Claim, now: Moment) {
        self.place.over |= self.ends <= now;
        if !self.place.over {
            self.ends = now + claim.lease;
            self.place.note.lease = claim.lease;
        }
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_testbed::ZooKeeper;

    use super::*;
    use crate::backends::zookeeper::Config;
    use crate::claim::Party;
    use crate::lifecycle::deadline::Clock;

    // A caller fetches the session, then the session ends and its claims are removed, then the caller goes on. An entry
    // that is recorded then is removed by nothing: each later request for it goes to the ended session.
    // proves: L4
    #[tokio::test]
    async fn no_entry_begins_on_a_session_that_has_ended() {
        let server = ZooKeeper::start().unwrap();
        let url = format!("zookeeper://{}/locks?session=2s", server.address());
        let clock = Clock::system();
        let config = Config::from_url(&url).unwrap();
        let session = Session::open(&config, &clock).await.unwrap();
        let claim = Claim {
            id: ClaimId::random().unwrap(),
            name: Name::new("m").unwrap(),
            mode: Mode::Exclusive,
            lease: Duration::from_secs(30),
            party: Arc::new(Party::here("test")),
        };
        let claims = Claims::default();
        let begun = claims.begin(&claim, &session, clock.now());
        assert!(matches!(begun, Begun::New), "{begun:?}");
        server.server().kill().unwrap();
        let mut states = session.client.states();
        while !session.is_over() {
            let changed = states.changed();
            let changed = tokio::time::timeout(Duration::from_secs(30), changed).await;
            changed.expect("the session ends").unwrap();
        }
        claims.end(&session);
        let begun = claims.begin(&claim, &session, clock.now());
        assert_eq!(claims.len(), 0, "{begun:?}");
        assert!(matches!(begun, Begun::Ended), "{begun:?}");
    }
}
