//! The one trait between the lifecycle and an engine. Few verbs; everything else is written once
//! above it.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::{Mode, Name, Token};

/// One keeper's connection to one engine.
///
/// [`Error::Unreachable`] always means *outcome unknown*: the lifecycle asks again with the same
/// claim id, so every verb is idempotent. All other errors are definite: nothing was changed.
///
/// There are no default methods and no capability flags. What a backend cannot promise stands in its
/// [`Guarantees`], and the conformance suite asserts that it refuses it.
#[async_trait]
pub trait Backend: std::fmt::Debug + Send + Sync + 'static {
    /// Puts the claim at the end of the name's list and tells its standing. A claim id that is in the
    /// list already keeps its place, and its lease starts anew.
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error>;

    /// These claims, holding or waiting, are alive: their leases start anew. One batch, one answer
    /// each, in the same order. Never creates a claim. Where only some could be asked about, the others
    /// are [`Standing::Unknown`]: a part of the engine that is down costs nobody else their lease.
    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error>;

    /// Turns an exclusive claim into a shared one, in its place and under its token; wakes whom the
    /// rule promotes. Permits cannot be downgraded: [`Error::Invalid`].
    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error>;

    /// Takes the claim out, whatever its state; wakes whom the rule promotes.
    async fn release(&self, claim: &Claim) -> Result<Released, Error>;

    /// Who holds, who waits. Claims of the dead are left out, as far as the engine can tell.
    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error>;

    /// An operator breaks the claim with this order number; it is recorded with the reason, and the
    /// token still rises.
    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error>;

    /// Pushes: claims of this keeper whose standing may have changed. Losing one is allowed: a renewal
    /// tells the standing too, and the first waiter looks again when the lease ahead of it ends.
    fn wakes(&self) -> Wakes;

    /// What this backend promises.
    fn guarantees(&self) -> &Guarantees;

    /// Where the locks live, without secrets: for people, and to order several engines.
    fn place(&self) -> String;
}

/// Whether a claim may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Enter only if the claim would hold at once; otherwise its standing is [`Standing::Gone`].
    Try,
    /// Enter and wait in line.
    Queue,
}

/// Where a claim stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It holds.
    Holds {
        /// Its order number: the fencing token without the step.
        order: u64,
        /// How much of its lease was left when the engine answered.
        lease_left: Duration,
    },
    /// It waits in line.
    Waits {
        /// How many claims are ahead of it, as far as the engine counted.
        ahead: usize,
        /// When a lease ahead may end, so that it is worth asking again without a push.
        look_again_in: Duration,
    },
    /// It is not in the list: never was, left, expired, or was broken.
    Gone,
    /// Only from a renewal, and only of some of its claims: these could not be asked about.
    Unknown,
}

/// What releasing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Released {
    /// The claim was in the list and is out now.
    Freed,
    /// The claim was not in the list any more.
    Gone,
}

/// Which names to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// One name.
    One(Name),
    /// All names that anybody holds or waits for.
    All,
}

/// A name, who holds it and who waits for it, both in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockView {
    /// The name.
    pub name: Name,
    /// Who holds it.
    pub holders: Vec<ClaimView>,
    /// Who waits for it.
    pub waiters: Vec<ClaimView>,
}

/// A claim as others may see it: without its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimView {
    /// Its token (of a holder), or the one it will hold with.
    pub token: Token,
    /// How it holds or wants to hold.
    pub mode: Mode,
    /// Who it belongs to.
    pub party: Party,
    /// Since when it has been in the line or, of a holder, has known that it holds.
    pub since: Duration,
    /// How much of its lease is left.
    pub lease_left: Duration,
}

/// News for a claim of this keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// Its standing may have changed: ask.
    Look(ClaimId),
    /// It holds now, on the lease of its last renewal: no need to ask.
    Holds {
        /// Which claim.
        claim: ClaimId,
        /// Its order number.
        order: u64,
    },
    /// Pushes may have been lost: ask for every waiting claim.
    LookAll,
}

/// The stream of a backend's pushes.
#[derive(Debug)]
pub struct Wakes {
    queue: broadcast::Receiver<Wake>,
    bell: Weak<Ringing>,
}

impl Wakes {
    /// The next push; `None` once the backend is gone.
    ///
    /// # Cancel safety
    /// Cancel safe: no push is taken by a dropped call.
    pub async fn next(&mut self) -> Option<Wake> {
        match self.queue.recv().await {
            Ok(wake) => Some(wake),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Wake::LookAll),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Has every push told to `ear` from here on, on the spot and by whoever pushes: a claim that holds is then not
    /// kept waiting for a task whose turn it is first. The ear must be quick, and must not wait for anything.
    pub(crate) fn heard_by(self, ear: impl Fn(Wake) + Send + Sync + 'static) -> Hearing {
        let ear: Arc<Ear> = Arc::new(ear);
        if let Some(bell) = self.bell.upgrade() {
            let mut ears = bell.ears.write().unwrap_or_else(PoisonError::into_inner);
            ears.push(ear.clone());
        }
        let bell = self.bell;
        Hearing { bell, ear }
    }
}

type Ear = dyn Fn(Wake) + Send + Sync;

/// Made by [`Wakes::heard_by`]. Dropping it ends the hearing.
pub(crate) struct Hearing {
    bell: Weak<Ringing>,
    ear: Arc<Ear>,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        if let Some(bell) = self.bell.upgrade() {
            let mut ears = bell.ears.write().unwrap_or_else(PoisonError::into_inner);
            ears.retain(|ear| !Arc::ptr_eq(ear, &self.ear));
        }
    }
}

impl fmt::Debug for Hearing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hearing")
    }
}

/// The backend's end of [`Wakes`].
#[derive(Debug, Clone)]
pub struct Bell(Arc<Ringing>);

struct Ringing {
    queue: broadcast::Sender<Wake>,
    ears: RwLock<Vec<Arc<Ear>>>,
}

impl Default for Bell {
    fn default() -> Self {
        Self(Arc::new(Ringing {
            // Whoever falls this far behind asks for everything instead.
            queue: broadcast::channel(1024).0,
            ears: RwLock::default(),
        }))
    }
}

impl Bell {
    /// Tells the keeper; nobody listening is fine.
    pub fn ring(&self, wake: Wake) {
        let ears = self.0.ears.read().unwrap_or_else(PoisonError::into_inner);
        for ear in &*ears {
            ear(wake);
        }
        drop(ears);
        let _nobody_listens = self.0.queue.send(wake);
    }

    /// A new stream of what rings from now on.
    pub fn wakes(&self) -> Wakes {
        Wakes {
            queue: self.0.queue.subscribe(),
            bell: Arc::downgrade(&self.0),
        }
    }
}

impl fmt::Debug for Ringing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ringing")
    }
}
