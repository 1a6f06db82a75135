//! A barrier lets its parties pass together, round after round.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::gathering::{Complete, Gathering, leave};
use crate::error::Error;
use crate::lifecycle::core::Core;
use crate::lifecycle::deadline::Moment;

/// A barrier that lets `parties` pass together: nobody passes before all have come.
///
/// Each call of [`Barrier::wait`] on one value is the next round, so all parties must take part in every
/// round. A party that dies before it passed is missed by the others, who then wait until their patience
/// ends.
#[derive(Debug)]
pub struct Barrier {
    core: Arc<Core>,
    name: String,
    parties: u32,
    round: AtomicU64,
}

impl Barrier {
    pub(crate) fn new(core: Arc<Core>, name: &str, parties: u32) -> Self {
        Self {
            core,
            name: name.into(),
            parties,
            round: AtomicU64::new(0),
        }
    }

    /// Waits without limit for the other parties of this round.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// A dropped call has used up the round: this party is out of step with the others.
    pub async fn wait(&self) -> Result<(), Error> {
        self.wait_until(Moment::NEVER).await
    }

    /// Waits for the other parties of this round, for at most this long.
    ///
    /// # Errors
    /// [`Error::Timeout`], and as [`Barrier::wait`].
    ///
    /// # Cancel safety
    /// A dropped call has used up the round: this party is out of step with the others.
    pub async fn wait_within(&self, patience: Duration) -> Result<(), Error> {
        self.wait_until(self.core.clock.now() + patience).await
    }

    async fn wait_until(&self, until: Moment) -> Result<(), Error> {
        let round = self.round.fetch_add(1, Ordering::Relaxed);
        let place = |what| Gathering::new(&self.core, what, &format!("{}#{round}", self.name));
        let (coming, passing) = (place("barrier")?, place("barrier-passed")?);
        let arrived = coming.arrive(self.parties).await?;
        let enough = self.parties;
        coming
            .wait_until(
                Complete {
                    enough,
                    or_left: None,
                },
                until,
            )
            .await?;
        // Nobody leaves before all know that all have come: who left earlier would be missed by those
        // who have yet to count. Fewer than all at the first place means that somebody knew it and left.
        let passed = passing.arrive(self.parties).await?;
        passing
            .wait_until(
                Complete {
                    enough,
                    or_left: Some(&coming),
                },
                until,
            )
            .await?;
        leave(arrived).await?;
        // Those who still wait for the second number are told to look at the first one again.
        passing.open().await?;
        leave(passed).await
    }
}
