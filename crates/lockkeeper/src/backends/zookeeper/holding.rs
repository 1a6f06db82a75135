//! Holding: one task per keeper sets a watch on the node of each hold that lasts, for all that have come to last
//! meanwhile by one request. So a keeper learns at once when somebody breaks a hold, and a renewal need not ask.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::claims::{Ears, Key, Place};
use super::client::Session;
use super::shared::Shared;
use super::wire as zk;
use crate::backend::Wake;
use crate::lifecycle::deadline::Clock;

/// Shorter holds are not worth a question to the servers.
const LASTING: Duration = Duration::from_millis(250);
/// So many paths fit into one request.
const TOGETHER: usize = 500;

/// The claim holds: from soon on somebody listens for its end.
pub(super) fn mind(shared: &Arc<Shared>, key: &Key) {
    shared.claims.minded_from(key, shared.clock.now());
    shared.held.notify_one();
}

/// Listens for the ends of all holds that last, as long as the keeper lives.
pub(super) async fn mind_all(shared: Weak<Shared>, clock: Clock) {
    loop {
        let Some(held) = shared.upgrade().map(|keeper| keeper.held.clone()) else {
            return;
        };
        held.notified().await;
        loop {
            let begun = clock.now();
            clock.sleep_until(begun + LASTING).await;
            let Some(keeper) = shared.upgrade() else {
                return;
            };
            let (lasting, more) = keeper.claims.unheard(begun);
            let all = keeper.listen_to(lasting).await;
            if all && !more {
                break;
            }
        }
    }
}

impl Shared {
    /// Sets watches on the nodes of these holds; false if some could not be set.
    async fn listen_to(self: &Arc<Self>, mut lasting: Vec<(Key, Place)>) -> bool {
        lasting.retain(|(_, place)| !place.session.is_over());
        let mut all = true;
        for some in lasting.chunks(TOGETHER) {
            let Some(session) = some.first().map(|(_, place)| place.session.clone()) else {
                continue;
            };
            let of_session = |(_, place): &&(Key, Place)| Arc::ptr_eq(&place.session, &session);
            let same: Vec<&(Key, Place)> = some.iter().filter(of_session).collect();
            all &= same.len() == some.len() && self.listen_together(&session, &same).await;
        }
        all
    }

    async fn listen_together(self: &Arc<Self>, session: &Session, some: &[&(Key, Place)]) -> bool {
        let path = |(key, place): &&(Key, Place)| {
            let child = place.node.as_ref().map_or("", |node| node.child.as_str());
            self.path(&key.0, child)
        };
        let paths: Vec<String> = some.iter().map(path).collect();
        let Ok(watchers) = session.client.watch_all(&paths).await else {
            return false;
        };
        for ((key, _), watcher) in some.iter().zip(watchers) {
            let own = watcher.ear();
            let ahead = Vec::new();
            let task = tokio::spawn(listen(Arc::downgrade(self), key.clone(), watcher));
            self.claims.watched_by(key, task.abort_handle());
            self.claims.hears(key, Ears { own, ahead });
        }
        true
    }
}

async fn listen(shared: Weak<Shared>, key: Key, watcher: zk::Watcher) {
    let event = watcher.await;
    let Some(shared) = shared.upgrade() else {
        return;
    };
    match event {
        zk::Event::Deleted => {
            shared.claims.forget(&key);
            shared.bell.ring(Wake::Look(key.1));
        }
        // Downgraded, or it tells those behind it that it holds. It is listened to anew.
        zk::Event::Changed | zk::Event::Lost => shared.held.notify_one(),
    }
}
