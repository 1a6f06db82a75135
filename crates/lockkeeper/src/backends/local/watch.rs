//! Who is told what: rings from other processes are passed on, and the death of a keeper that a claim
//! waits behind becomes a ring. Nothing of it runs before a claim first waits.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::unix::pipe;
use tokio::task::{AbortHandle, JoinHandle};

use super::backend::Shared;
use super::presence::{self, KeeperId, Presence, RING_BYTES, Ring};
use crate::Name;
use crate::backend::{Standing, Wake};
use crate::claim::ClaimId;

/// What this keeper listens to.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<Listening>);

#[derive(Debug, Default)]
struct Listening {
    doorbell: Option<JoinHandle<()>>,
    keepers: HashMap<KeeperId, Watch>,
    claims: HashMap<ClaimId, (Name, Vec<KeeperId>)>,
}

/// One keeper that own claims wait behind.
#[derive(Debug)]
struct Watch {
    task: AbortHandle,
    claims: HashSet<ClaimId>,
}

impl Watches {
    /// The claim waits behind these keepers and no others.
    pub(super) fn wait(&self, shared: &Arc<Shared>, (claim, name, keepers): Waiting) {
        let mut listening = self.lock();
        listening.listen(shared);
        let old = listening.claims.insert(claim, (name, keepers.clone()));
        for keeper in old.into_iter().flat_map(|(_, keepers)| keepers) {
            if !keepers.contains(&keeper) {
                listening.unwatch(claim, keeper);
            }
        }
        for keeper in keepers {
            listening.watch(shared, claim, keeper);
        }
    }

    /// The claim waits no longer.
    pub(super) fn settle(&self, claim: ClaimId) {
        let mut listening = self.lock();
        let old = listening.claims.remove(&claim);
        for keeper in old.into_iter().flat_map(|(_, keepers)| keepers) {
            listening.unwatch(claim, keeper);
        }
    }

    /// The name that a waiting claim waits for.
    fn name_of(&self, claim: ClaimId) -> Option<Name> {
        self.lock().claims.get(&claim).map(|(name, _)| name.clone())
    }

    /// The claims that waited behind a keeper that is dead now.
    fn mourners(&self, keeper: KeeperId) -> HashSet<ClaimId> {
        let watch = self.lock().keepers.remove(&keeper);
        watch.map(|watch| watch.claims).unwrap_or_default()
    }

    /// Listens to the new pipe of this keeper, if it listened to the old one.
    pub(super) fn restart(&self, shared: &Arc<Shared>) {
        let mut listening = self.lock();
        if let Some(task) = listening.doorbell.take() {
            task.abort();
            listening.listen(shared);
        }
    }

    /// Ends all listening.
    pub(super) fn close(&self) {
        let mut listening = self.lock();
        listening.doorbell.take().inspect(JoinHandle::abort);
        listening.claims.clear();
        for watch in std::mem::take(&mut listening.keepers).into_values() {
            watch.task.abort();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Listening> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim, its name, and the keepers that it waits behind.
pub(super) type Waiting = (ClaimId, Name, Vec<KeeperId>);

impl Listening {
    /// Starts to listen to the doorbell, unless it is listened to.
    fn listen(&mut self, shared: &Arc<Shared>) {
        let listens = |task: &JoinHandle<()>| !task.is_finished();
        if self.doorbell.as_ref().is_some_and(listens) {
            return;
        }
        let descriptor = shared.presence.get().map(Presence::descriptor);
        // Without a descriptor to spare the claims look again by themselves.
        if let Some(Ok(descriptor)) = descriptor {
            let task = listen(Arc::downgrade(shared), descriptor);
            self.doorbell = Some(tokio::spawn(task));
        }
    }

    fn watch(&mut self, shared: &Arc<Shared>, claim: ClaimId, keeper: KeeperId) {
        if let Some(watch) = self.keepers.get_mut(&keeper)
            && !watch.task.is_finished()
        {
            watch.claims.insert(claim);
            return;
        }
        let pipe = match presence::open_to_watch(&shared.directory, &keeper) {
            Ok(pipe) => Some(pipe),
            Err(Errno::NXIO) => None,
            // It cannot be watched: the claim looks again when the lease ahead of it ends.
            Err(_) => return,
        };
        let task = tokio::spawn(mourn(Arc::downgrade(shared), keeper, pipe));
        let watch = Watch {
            task: task.abort_handle(),
            claims: HashSet::from([claim]),
        };
        self.keepers.insert(keeper, watch);
    }

    fn unwatch(&mut self, claim: ClaimId, keeper: KeeperId) {
        let Some(watch) = self.keepers.get_mut(&keeper) else {
            return;
        };
        watch.claims.remove(&claim);
        if watch.claims.is_empty() {
            watch.task.abort();
            self.keepers.remove(&keeper);
        }
    }
}

/// Waits for the end of a keeper's process and tells the claims that wait behind it. Without a pipe it
/// has ended already.
async fn mourn(shared: Weak<Shared>, keeper: KeeperId, pipe: Option<OwnedFd>) {
    if let Some(Ok(pipe)) = pipe.map(pipe::Sender::from_owned_fd_unchecked) {
        // The kernel reports an error to writers when the last reader is gone.
        let _ended_or_not_watchable = pipe.ready(Interest::ERROR).await;
    }
    if let Some(shared) = shared.upgrade() {
        for claim in shared.watches.mourners(keeper) {
            shared.bell.ring(Wake::Look(claim));
        }
    }
}

/// Passes on what other processes ring.
async fn listen(shared: Weak<Shared>, descriptor: OwnedFd) {
    let Ok(pipe) = pipe::Receiver::from_owned_fd_unchecked(descriptor) else {
        return;
    };
    let mut bytes = [0; RING_BYTES * 64];
    while pipe.readable().await.is_ok() {
        let length = match pipe.try_read(&mut bytes) {
            Ok(0) => return,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        for bytes in bytes[..length].chunks(RING_BYTES) {
            answer(&shared, bytes).await;
        }
    }
}

async fn answer(shared: &Arc<Shared>, bytes: &[u8]) {
    match presence::parse_ring(bytes) {
        Some((Ring::Look, claim)) => shared.bell.ring(Wake::Look(claim)),
        Some((Ring::Watch, claim)) => rewatch(shared, claim).await,
        // Somebody else's scribble: what it hides, all must find out.
        None => shared.bell.ring(Wake::LookAll),
    }
}

/// The claim waits behind others than before: finds out behind whom.
async fn rewatch(shared: &Arc<Shared>, claim: ClaimId) {
    let Some(name) = shared.watches.name_of(claim) else {
        return;
    };
    let standing = shared.write(move |list| list.look(&name, claim)).await;
    if !matches!(standing, Ok(Standing::Waits { .. })) {
        shared.bell.ring(Wake::Look(claim));
    }
}
