//! The handle on one claim of session mode: where it stands, until when, and what its task is asked to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::session::Shared;
use super::task::Task;
use crate::backend::{Entry, Released};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;

/// How long a task may take to learn what the server has seen.
const LEARNS_WITHIN: Duration = Duration::from_secs(4);

/// Where a claim stands, as its task knows.
#[derive(Debug, Clone)]
pub(super) enum Stands {
    /// Not known yet.
    Asking,
    Waits,
    Holds(u64),
    /// Over; an error if it never came to anything.
    Over(Result<(), Error>),
}

/// The handle on a claim's task.
#[derive(Debug)]
pub(super) struct Pinned {
    pub(super) claim: Claim,
    /// The lock that the claim's connection holds for as long as it waits: by it others see that it lives.
    pub(super) wait_lock: String,
    /// The number under which others see it wait, or 0.
    waited: AtomicU64,
    /// When the claim ends unless it is renewed.
    ends: Mutex<(Moment, Duration)>,
    pub(super) stands: watch::Receiver<Stands>,
    orders: mpsc::Sender<Order>,
}

/// What a claim's task is asked to do.
#[derive(Debug)]
pub(super) enum Order {
    /// Show that the server still has the lock.
    Prove(oneshot::Sender<bool>),
    /// Give it back.
    Leave(oneshot::Sender<Result<Released, Error>>),
}

impl Pinned {
    /// Starts the claim's task.
    pub(super) fn start(
        shared: &Arc<Shared>,
        claim: Claim,
        entry: Entry,
    ) -> Result<Arc<Self>, Error> {
        let digits = ClaimId::random()?
            .as_bytes()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        let (told, stands) = watch::channel(Stands::Asking);
        let (orders, inbox) = mpsc::channel(16);
        let ends = (shared.clock.now() + claim.lease, claim.lease);
        let pinned = Arc::new(Self {
            claim,
            wait_lock: format!("lockkeeper.wait.{digits}"),
            waited: AtomicU64::new(0),
            ends: Mutex::new(ends),
            stands,
            orders,
        });
        let task = Task::new(shared.clone(), pinned.clone(), told, inbox);
        tokio::spawn(task.run(entry));
        Ok(pinned)
    }

    pub(super) fn waited(&self) -> u64 {
        self.waited.load(Ordering::Acquire)
    }

    pub(super) fn waits_as(&self, number: u64) {
        self.waited.store(number, Ordering::Release);
    }

    /// The lease starts anew, unless it has ended.
    pub(super) fn renewed(&self, now: Moment, lease: Duration) -> bool {
        let mut ends = self.ends();
        let lives = now < ends.0;
        if lives {
            *ends = (now + lease, lease);
        }
        lives
    }

    /// Whether the server still has the lock on the claim's connection.
    pub(super) async fn proves(&self) -> bool {
        let (tell, told) = oneshot::channel();
        self.orders.send(Order::Prove(tell)).await.is_ok() && told.await.unwrap_or(false)
    }

    /// Waits until its task has learnt that it was granted the lock.
    pub(super) async fn no_longer_waits(&self) {
        let mut stands = self.stands.clone();
        let learns = stands.wait_for(|stands| !matches!(stands, Stands::Waits));
        let _or_it_waits_on = timeout(LEARNS_WITHIN, learns).await;
    }

    /// The server knows nothing of its wait: whatever has become of it, the wait is over.
    pub(super) async fn leaves_if_it_waits(&self) {
        let waits = matches!(*self.stands.borrow(), Stands::Waits);
        if waits {
            let _whatever_it_was = self.leaves().await;
        }
    }

    /// Gives the claim back.
    pub(super) async fn leaves(&self) -> Result<Released, Error> {
        let (tell, told) = oneshot::channel();
        if self.orders.send(Order::Leave(tell)).await.is_err() {
            return Ok(Released::Gone);
        }
        told.await.unwrap_or(Ok(Released::Gone))
    }

    /// When the claim ends, and how long its lease is.
    pub(super) fn ends(&self) -> MutexGuard<'_, (Moment, Duration)> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
