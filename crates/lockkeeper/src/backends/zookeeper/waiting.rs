//! Waiting: one task per waiting claim listens to those few ahead whose leaving can let it in, and rings
//! when it holds. Nothing is sent while nothing changes.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{join_all, select_all};

use super::claims::{Ears, Key, Node, Place};
use super::holding;
use super::line::next_after;
use super::looking::Judged;
use super::names::Contender;
use super::shared::Shared;
use super::wire as zk;
use crate::Mode;
use crate::backend::Wake;
use crate::rule::Verdict;

/// Who has held for so long is likely to hold on for as long as it takes to tell the next one.
const HOLDS_ON: Duration = Duration::from_millis(1);
/// Before asking again after a lost connection; the client reconnects meanwhile.
const PAUSE: Duration = Duration::from_millis(20);

/// Starts to listen for a claim, in place of any task that did.
pub(super) fn listen(shared: &Arc<Shared>, key: Key) {
    let task = tokio::spawn(stand(Arc::downgrade(shared), key.clone()));
    shared.claims.watched_by(&key, task.abort_handle());
}

/// What happened ahead of a claim.
enum Change {
    /// These left.
    Left(Vec<String>),
    /// One is no longer what it was when it had this version.
    Changed(String, i32),
    /// One was not what it was when it was last looked at.
    Other,
    /// The claim's own node is gone.
    OwnGone,
    /// The connection was lost before that was known.
    Unknown,
}

async fn stand(shared: Weak<Shared>, key: Key) {
    loop {
        let Some(place) = shared
            .upgrade()
            .and_then(|shared| shared.claims.place(&key))
        else {
            return;
        };
        if place.line.is_none() || place.over || place.session.is_over() {
            return;
        }
        // Its watch is given up when this round is over: to tell the servers so before whoever waits is told would
        // keep it waiting.
        let (change, _own) = change_ahead(&shared, &key, &place).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        let (left, changed) = match change {
            Change::Left(left) => (left, None),
            Change::Changed(child, version) => (Vec::new(), Some((child, version + 1))),
            Change::Other => (Vec::new(), None),
            Change::OwnGone => {
                shared.claims.forget(&key);
                shared.bell.ring(Wake::Look(key.1));
                return;
            }
            Change::Unknown => {
                shared.clock.sleep_until(shared.clock.now() + PAUSE).await;
                continue;
            }
        };
        match shared.reconsider(&key, &left).await {
            Waits::NoLonger => return,
            Waits::Unknown => {}
            Waits::Still => {
                // The line was looked at after that change.
                if let Some((child, version)) = changed {
                    shared.claims.saw(&key, &child, version);
                }
            }
        }
    }
}

/// Waits for the first change among those that are watched. There is no gap: a watch is set by a question
/// whose answer tells what was true when it was set.
async fn change_ahead(
    shared: &Weak<Shared>,
    key: &Key,
    place: &Place,
) -> (Change, Option<OwnEvent>) {
    let watched = place.watched();
    let Some((own, paths)) = paths(shared, key, place) else {
        return (Change::Unknown, None);
    };
    let client = &place.session.client;
    // A session hears of changes in their order. So if the claim was broken before the one ahead left, its own watch
    // does not stand any more by then, and the claim is not taken for a holder.
    let own = client.stat_and_watch(&own);
    let set = join_all(paths.iter().map(|path| client.stat_and_watch(path))).await;
    let own = match own.await {
        Ok(Some((_, watcher))) => watcher,
        Ok(None) => return (Change::OwnGone, None),
        Err(_) => return (Change::Unknown, None),
    };
    let own_ear = own.ear();
    let mut ears = Ears {
        own: own_ear.clone(),
        ahead: Vec::new(),
    };
    let (mut left, mut changed, mut events) = (Vec::new(), false, Vec::new());
    for (ahead, answer) in watched.iter().zip(set) {
        match answer {
            Ok(None) => left.push(ahead.child.clone()),
            Ok(Some((stat, _))) if stat.version != ahead.version => {
                changed = true;
                if let Some(shared) = shared.upgrade() {
                    shared.claims.saw(key, &ahead.child, stat.version);
                }
            }
            Ok(Some((_, watcher))) => {
                ears.ahead.push((ahead.child.clone(), watcher.ear()));
                events.push(Box::pin(next_event(ahead, watcher)));
            }
            Err(_) => return (Change::Unknown, None),
        }
    }
    if let Some(shared) = shared.upgrade() {
        shared.claims.hears(key, ears);
    }
    let mut own: OwnEvent = Box::pin(own_event(own));
    let change = match (left.is_empty(), changed || events.is_empty()) {
        (false, _) => Change::Left(left),
        (true, true) => Change::Other,
        (true, false) => tokio::select! {
            change = &mut own => change,
            (change, ..) = select_all(events) => change,
        },
    };
    let change = match change {
        Change::Left(_) if !own_ear.stands() => Change::Other,
        change => change,
    };
    (change, Some(own))
}

/// What happens to the claim's own node.
type OwnEvent = Pin<Box<dyn Future<Output = Change> + Send>>;

/// Of the claim's own node, and of those that are watched.
fn paths(shared: &Weak<Shared>, key: &Key, place: &Place) -> Option<(String, Vec<String>)> {
    let (shared, node) = (shared.upgrade()?, place.node.as_ref()?);
    let path = |child: &str| shared.path(&key.0, child);
    let watched = place.watched();
    let ahead = watched.iter().map(|ahead| path(&ahead.child));
    Some((path(&node.child), ahead.collect()))
}

async fn own_event(watcher: zk::Watcher) -> Change {
    match watcher.await {
        zk::Event::Deleted => Change::OwnGone,
        zk::Event::Lost => Change::Unknown,
        zk::Event::Changed => Change::Other,
    }
}

async fn next_event(ahead: &Contender, watcher: zk::Watcher) -> Change {
    match watcher.await {
        zk::Event::Deleted => Change::Left(vec![ahead.child.clone()]),
        zk::Event::Lost => Change::Unknown,
        zk::Event::Changed => Change::Changed(ahead.child.clone(), ahead.version),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Waits {
    Still,
    NoLonger,
    /// It could not be looked at.
    Unknown,
}

impl Shared {
    /// Something changed ahead of a claim: does it hold now?
    async fn reconsider(self: &Arc<Self>, key: &Key, left: &[String]) -> Waits {
        let Some(place) = self.claims.place(key) else {
            return Waits::NoLonger;
        };
        let (Some(node), Some(line)) = (&place.node, &place.line) else {
            return Waits::NoLonger;
        };
        // Those ahead when we last looked, less those who left, are more than are there now.
        let holds = line.without(left).verdict(place.mode()) == Verdict::Holds;
        if !left.is_empty() && holds {
            self.claims.holds(key, None);
            self.ring(key, node);
            holding::mind(self, key);
            return Waits::NoLonger;
        }
        let Ok(listed) = self.list_here(&place.session, &key.0).await else {
            self.clock.sleep_until(self.clock.now() + PAUSE).await;
            return Waits::Unknown;
        };
        match self.judge(key, (&place.session, node), listed).await {
            Ok(Judged::Holds) => {
                self.ring(key, node);
                holding::mind(self, key);
                Waits::NoLonger
            }
            Ok(Judged::Gone) => {
                self.bell.ring(Wake::Look(key.1));
                Waits::NoLonger
            }
            Ok(Judged::Waits(_)) => Waits::Still,
            Err(_) => Waits::Unknown,
        }
    }

    fn ring(self: &Arc<Self>, key: &Key, node: &Node) {
        self.bell.ring(Wake::Holds {
            claim: key.1,
            order: node.order,
        });
        tell_those_behind(self, key.clone());
    }
}

/// A claim that had to wait and has come to hold says so, by a change of its node. Whoever waits behind it for permits
/// listens to it alone, and may be let in along with it.
pub(super) fn tell_those_behind(shared: &Arc<Shared>, key: Key) {
    let Some(place) = shared.claims.place(&key) else {
        return;
    };
    match (place.mode(), place.node.as_ref()) {
        (Mode::Permits { .. }, Some(node)) => {
            let path = shared.path(&key.0, &node.child);
            let note = place.note.text();
            let said = place.session.client.set_data(&path, note.as_bytes());
            // If it is lost, their next renewal tells.
            tokio::spawn(async move { drop(said.await) });
        }
        (Mode::Exclusive, Some(_)) => {
            tokio::spawn(tell_the_next(Arc::downgrade(shared), key));
        }
        _ => {}
    }
}

/// Somebody who waits for a claim that waits does not know, when that one leaves, whether it held by then, and looks at
/// the line. Told before that it holds, whoever is next looks at once, while there is time, and knows when it leaves. Only
/// one is told: behind an exclusive claim nobody listens to the one before it.
async fn tell_the_next(shared: Weak<Shared>, key: Key) {
    let clock = shared.upgrade().map(|shared| shared.clock.clone());
    let Some(clock) = clock else { return };
    clock.sleep_until(clock.now() + HOLDS_ON).await;
    let Some(shared) = shared.upgrade() else {
        return;
    };
    let Some(place) = shared.claims.place(&key) else {
        return;
    };
    let (Some(node), None, false) = (&place.node, &place.line, place.over) else {
        return;
    };
    let Ok(listed) = shared.list_here(&place.session, &key.0).await else {
        return;
    };
    let next = next_after(&listed, &node.child);
    if next.is_some_and(|next| next.mode == Mode::Exclusive) {
        let path = shared.path(&key.0, &node.child);
        let note = place.note.text();
        let client = &place.session.client;
        // Unless it was changed: what it has become since must not be taken back.
        let _whoever_is_next_looks_later = client.set_data_of(0, &path, note.as_bytes()).await;
    }
}
