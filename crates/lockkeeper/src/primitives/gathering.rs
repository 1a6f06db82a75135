//! Waiting until enough others have come: what latch and barrier share.
//!
//! Whoever arrives holds a shared claim on one name; counting is looking at its holders. The push comes
//! from a gate: a claim on a second name that all participants own together, because its id is made
//! from the name. Who waits stands behind the gate; who completes the number takes the gate out, and
//! the rule promotes all who wait. A gate that ends for another reason (its maker died) only makes the
//! waiters count again and shut it anew.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Entry, Query};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::guard::Guard;
use crate::lifecycle::core::Core;
use crate::lifecycle::deadline::Moment;
use crate::primitives::Lock;
use crate::{Mode, Name};

/// A place where participants gather.
#[derive(Debug, Clone)]
pub(crate) struct Gathering {
    core: Arc<Core>,
    arrivals: Name,
    gate: Name,
}

impl Gathering {
    /// `what` keeps gatherings of different kinds apart.
    pub(crate) fn new(core: &Arc<Core>, what: &str, name: &str) -> Result<Self, Error> {
        Name::new(name)?;
        let part = |part: &str| {
            Name::new(format!("lockkeeper:{what}:{part}:{name}")).map_err(|_| {
                Error::invalid(format!(
                    "the name of a {what} has at most 220 bytes, this one has {}",
                    name.len()
                ))
            })
        };
        Ok(Self {
            core: core.clone(),
            arrivals: part("arrived")?,
            gate: part("gate")?,
        })
    }

    /// Comes in, and is counted until the guard ends. Opens the gate once `enough` have come.
    pub(crate) async fn arrive(&self, enough: u32) -> Result<Guard, Error> {
        let lock = Lock::new(self.core.clone(), self.arrivals.as_str(), Ok(Mode::Shared));
        let guard = lock.acquire().await?;
        if self.count().await? >= enough {
            self.open().await?;
        }
        Ok(guard)
    }

    /// How many are here.
    pub(crate) async fn count(&self) -> Result<u32, Error> {
        let query = Query::One(self.arrivals.clone());
        let (core, during) = (&self.core, "counting arrivals");
        let views = core.insist(LONG, during, || core.backend.inspect(&query));
        let views = views.await?;
        let holders = views.first().map_or(0, |view| view.holders.len());
        Ok(u32::try_from(holders).unwrap_or(u32::MAX))
    }

    /// Waits until the gathering is complete; it is counted anew whenever the gate opens.
    pub(crate) async fn wait_until(
        &self,
        complete: Complete<'_>,
        until: Moment,
    ) -> Result<(), Error> {
        let started = self.core.clock.now();
        loop {
            if complete.is_met(self).await? {
                return Ok(());
            }
            self.shut().await?;
            // Somebody may have completed the number just before the gate was shut.
            if complete.is_met(self).await? {
                return self.open().await;
            }
            let now = self.core.clock.now();
            if now >= until {
                let (name, backend) = (self.gate.clone(), self.core.name());
                return Err(Error::Timeout {
                    name,
                    backend,
                    waited: now - started,
                    holder: None,
                });
            }
            // The gate lives on a lease too: before it ends, it is shut anew.
            let turn = until.min(now + self.core.default_lease / 3);
            let behind = Lock::new(self.core.clone(), self.gate.as_str(), Ok(Mode::Shared));
            match behind.acquire_until(turn).await {
                Ok(guard) => leave(guard).await?,
                Err(Error::Timeout { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn shut(&self) -> Result<(), Error> {
        self.core.open()?;
        let claim = self.gate_claim();
        let (core, during) = (&self.core, "shutting the gate");
        let shut = || core.backend.enter(&claim, Entry::Queue);
        core.insist(claim.lease, during, shut).await.map(drop)
    }

    /// Lets everybody behind the gate look again.
    pub(crate) async fn open(&self) -> Result<(), Error> {
        let claim = self.gate_claim();
        let (core, during) = (&self.core, "opening the gate");
        let open = || core.backend.release(&claim);
        core.insist(claim.lease, during, open).await.map(drop)
    }

    fn gate_claim(&self) -> Claim {
        Claim {
            id: ClaimId::common(fingerprint(self.gate.as_str())),
            name: self.gate.clone(),
            mode: Mode::Exclusive,
            lease: self.core.default_lease,
            party: self.core.party.clone(),
        }
    }
}

/// Leaves a place. Without an answer the keeper goes on releasing by itself: nothing to fail for.
pub(crate) async fn leave(guard: Guard) -> Result<(), Error> {
    match guard.release().await {
        Err(error) if error.is_unknown() => Ok(()),
        told => told,
    }
}

/// When a gathering is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Complete<'a> {
    /// So many are here.
    pub(crate) enough: u32,
    /// Or fewer than that are still at this other place.
    pub(crate) or_left: Option<&'a Gathering>,
}

impl Complete<'_> {
    async fn is_met(&self, here: &Gathering) -> Result<bool, Error> {
        if here.count().await? >= self.enough {
            return Ok(true);
        }
        match self.or_left {
            Some(other) => Ok(other.count().await? < self.enough),
            None => Ok(false),
        }
    }
}

/// Calls that are not about one claim's lease.
const LONG: Duration = Duration::from_secs(15);

/// The same 128 bits for the same text in every process (FNV-1a).
fn fingerprint(text: &str) -> [u8; 16] {
    let hash = text.bytes().fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
        |hash, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        },
    );
    hash.to_be_bytes()
}
