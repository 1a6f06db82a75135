//! What one keeper does while nobody asks: it hears the watches, reads a waiter's list again when something ahead of it
//! has changed, says that a claim is held, and takes out what is over.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};

use super::claims::Entry;
use super::proto::Range;
use super::shared::{IN_BACKGROUND, Shared};
use super::watch::{How, Notice, Target};
use crate::claim::ClaimId;
use crate::lifecycle::deadline::Clock;

/// How long it waits before it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(200);
/// Who has held for so long is likely to hold on for as long as one more question takes.
const HOLDS_ON: Duration = Duration::from_millis(4);
/// Deletions in a row; more than that go side by side.
const DELETIONS: usize = 100;

/// Takes in what the watches tell, until the keeper is gone.
pub(super) async fn listen(shared: Weak<Shared>, mut told: mpsc::UnboundedReceiver<Notice>) {
    while let Some(notice) = told.recv().await {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match notice {
            Notice::Changed {
                target: Target::Claim(id),
                key,
                revision,
                how,
            } => {
                match how {
                    How::Deleted { before } => {
                        if shared.one_left(id, (&key, before.as_ref()), revision) {
                            continue;
                        }
                    }
                    // Who breaks a claim touches the one ahead of it.
                    How::Else => shared.claims().doubt(id, revision),
                }
                review_surely(&shared, id, revision);
            }
            Notice::Begun {
                target: Target::Claim(id),
                revision,
            } => {
                let mut claims = shared.claims();
                claims.doubt(id, revision);
                let missed = claims.get(id).is_some_and(|e| e.seen < revision);
                drop(claims);
                if missed {
                    review_surely(&shared, id, revision);
                }
            }
            Notice::Changed {
                target: Target::Lease(lease),
                how: How::Deleted { .. },
                ..
            } => shared.lease_gone(lease),
            Notice::Begun {
                target: Target::Lease(lease),
                revision,
            } => {
                // While the stream was down its end would not have been told.
                if shared.leases.may_have_ended(lease, revision) {
                    look_at_lease(&shared, lease);
                }
            }
            Notice::Changed { .. } => {}
        }
    }
}

/// Reviews until it is done, or until the keeper is gone.
fn review_surely(shared: &Arc<Shared>, id: ClaimId, revision: i64) {
    let weak = Arc::downgrade(shared);
    shared.runtime.spawn(async move {
        loop {
            let Some(shared) = weak.upgrade() else { return };
            if shared.review(id, revision).await.is_ok() {
                return;
            }
            drop(shared);
            tokio::time::sleep(ASK_AGAIN).await;
        }
    });
}

/// A claim that had to wait and has come to hold says so, if it holds for longer than that takes: whoever waits behind
/// it is told what its key said last, and then knows without reading the list that nobody else is ahead. If it is lost,
/// the list is read.
pub(super) fn tell_the_next(shared: &Arc<Shared>, id: ClaimId) {
    let weak = Arc::downgrade(shared);
    shared.runtime.spawn(async move {
        tokio::time::sleep(HOLDS_ON).await;
        if let Some(shared) = weak.upgrade() {
            shared.say_held(id).await;
        }
    });
}

/// Asks whether the lease is still there, by its session key; if there is no answer, the next keep-alive tells.
fn look_at_lease(shared: &Arc<Shared>, lease: i64) {
    let shared = shared.clone();
    let runtime = shared.runtime.clone();
    runtime.spawn(async move {
        let session = Range {
            key: shared.keys.session(lease),
            ..Range::default()
        };
        let told = shared.client.range(&session, IN_BACKGROUND).await;
        if told.is_ok_and(|answer| answer.kvs.is_empty()) {
            shared.lease_gone(lease);
        }
    });
}

/// Takes out what is over: claims that nobody renews any more, although their lease is kept alive for others.
pub(super) async fn reap(shared: Weak<Shared>, sooner: Arc<Notify>, clock: Clock) {
    loop {
        let next = {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let over = shared.claims().expired(clock.now());
            for (id, _) in &over {
                shared.watcher.forget(Target::Claim(*id));
            }
            let over: Vec<Entry> = over.into_iter().map(|(_, entry)| entry).collect();
            for some in over.chunks(DELETIONS) {
                shared.delete_in_background(some.to_vec());
            }
            shared.claims().plan()
        };
        tokio::select! {
            () = clock.sleep_until(next) => {}
            () = sooner.notified() => {}
        }
    }
}

/// Deletes until it is done, or until the keeper is gone, whose leases are then revoked or end.
pub(super) async fn delete_surely(shared: Weak<Shared>, mut entries: Vec<Entry>) {
    loop {
        let mut left = Vec::new();
        for entry in entries {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            match shared.strike_out_own(&entry).await {
                Ok(struck) if !struck.not_called_off => shared.claims().deleted(&entry.key),
                _ => left.push(entry),
            }
        }
        if left.is_empty() {
            return;
        }
        entries = left;
        tokio::time::sleep(ASK_AGAIN).await;
    }
}
