//! Holding: a task for each hold that lasts listens to its own node, so that its keeper learns at once when somebody
//! breaks it. Nothing waits for that, and a renewal would tell too.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::claims::Key;
use super::shared::Shared;
use super::wire as zk;
use crate::backend::Wake;

/// Shorter holds are not worth a question to the servers.
const LASTING: Duration = Duration::from_millis(250);
/// A keeper with more claims than this is told by its renewals, as one answer tells of all of them.
const FEW: usize = 64;
/// Before asking again after a lost connection; the client reconnects meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// The claim holds: from soon on somebody listens for its end.
pub(super) fn mind(shared: &Arc<Shared>, key: Key) {
    if shared.claims.len() <= FEW {
        let task = tokio::spawn(listen(Arc::downgrade(shared), key.clone()));
        shared.claims.watched_by(&key, task.abort_handle());
    }
}

async fn listen(shared: Weak<Shared>, key: Key) {
    let Some(clock) = shared.upgrade().map(|shared| shared.clock.clone()) else {
        return;
    };
    let mut pause = LASTING;
    loop {
        clock.sleep_until(clock.now() + pause).await;
        pause = match next_change(&shared, &key).await {
            Change::Gone => break,
            Change::NotOurs => return,
            Change::Unknown => PAUSE,
            Change::Other => Duration::ZERO,
        };
    }
    if let Some(shared) = shared.upgrade() {
        shared.claims.forget(&key);
        shared.bell.ring(Wake::Look(key.1));
    }
}

enum Change {
    /// Its node is gone.
    Gone,
    /// It is no longer this keeper's to look after.
    NotOurs,
    /// Its node has other data: it was downgraded, or tells those behind it that it holds.
    Other,
    /// The connection was lost before that was known.
    Unknown,
}

/// Waits for a change of the claim's own node. There is no gap: the question that sets the watch tells what was true
/// then.
async fn next_change(shared: &Weak<Shared>, key: &Key) -> Change {
    let Some(keeper) = shared.upgrade() else {
        return Change::NotOurs;
    };
    let Some(place) = keeper.claims.place(key) else {
        return Change::NotOurs;
    };
    let Some(node) = place.node.filter(|_| !place.over) else {
        return Change::NotOurs;
    };
    if place.session.is_over() {
        return Change::NotOurs;
    }
    let path = keeper.path(&key.0, &node.child);
    drop(keeper);
    match place.session.client.stat_and_watch(&path).await {
        Ok(None) => Change::Gone,
        Ok(Some((_, watcher))) => match watcher.await {
            zk::Event::Deleted => Change::Gone,
            zk::Event::Lost => Change::Unknown,
            zk::Event::Changed => Change::Other,
        },
        Err(_) => Change::Unknown,
    }
}
