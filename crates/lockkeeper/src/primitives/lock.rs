//! The lock, and the four ways to acquire one. All other primitives come down to this.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::claim::Party;
use crate::error::Error;
use crate::guard::Guard;
use crate::lifecycle::acquire::{self, Patience};
use crate::lifecycle::core::Core;
use crate::lifecycle::deadline::Moment;
use crate::lifecycle::local_line::Ask;
use crate::lifecycle::tracked::Term;
use crate::primitives::Owner;
use crate::{Mode, Name};

/// A lock that is not held yet: settings, then one of the ways to acquire it.
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    core: Arc<Core>,
    name: Result<Name, Error>,
    mode: Result<Mode, Error>,
    term: Term,
    kept: bool,
    fair: bool,
    owner: Result<Option<u64>, Error>,
    min_validity: Option<Duration>,
    party: Option<Arc<Party>>,
}

impl Lock {
    pub(crate) fn new(core: Arc<Core>, name: &str, mode: Result<Mode, Error>) -> Self {
        Self {
            term: Term {
                lease: core.default_lease,
                delay: Duration::ZERO,
            },
            core,
            name: Name::new(name).map_err(Error::from),
            mode,
            kept: true,
            fair: false,
            owner: Ok(None),
            min_validity: None,
            party: None,
        }
    }

    /// How long the claim lives unless it is renewed.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.term.lease = lease;
        self
    }

    /// For so long others are kept out when the lock is lost: its holder died, was cut off or slept past
    /// its lease. What such a holder has under way has this long to arrive. A lock that is given back is
    /// free at once. Engines that free a dead process's locks at once refuse it.
    pub fn lock_delay(mut self, delay: Duration) -> Self {
        self.term.delay = delay;
        self
    }

    /// No renewal: the hold ends with its lease, whether or not the work is done.
    pub fn fixed(mut self) -> Self {
        self.kept = false;
        self
    }

    /// Strict order of arrival over all processes, at the price of a round trip for each grant.
    pub fn fair(mut self) -> Self {
        self.fair = true;
        self
    }

    /// The identity that may enter again while it holds.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = match owner.number_in(&self.core) {
            Some(number) => Ok(Some(number)),
            None => Err(Error::invalid("this owner belongs to another keeper")),
        };
        self
    }

    /// A grant with less than this left when it arrives is given back and asked for anew; a tenth of
    /// the lease unless it is set.
    pub fn min_validity(mut self, validity: Duration) -> Self {
        self.min_validity = Some(validity);
        self
    }

    /// Takes the lock if it is free. Busy is no error.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the engine does not answer within a third of the lease (at most 5
    /// seconds), and the definite errors.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn try_acquire(self) -> Result<Option<Guard>, Error> {
        self.acquire_with(Patience::None).await
    }

    /// Waits for the lock without limit.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the engine did not answer for a whole lease, and the definite errors.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn acquire(self) -> Result<Guard, Error> {
        self.acquire_until(Moment::NEVER).await
    }

    /// Waits for the lock for at most this long.
    ///
    /// # Errors
    /// [`Error::Timeout`], which names the holder, and as [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn acquire_within(self, patience: Duration) -> Result<Guard, Error> {
        let until = self.core.clock.now() + patience;
        self.acquire_until(until).await
    }

    /// Tries so many times, with a pause in between, and never waits in line.
    ///
    /// # Errors
    /// [`Error::Timeout`] after the last try, and as [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn acquire_attempts(self, times: u32, pause: Duration) -> Result<Guard, Error> {
        let started = self.core.clock.now();
        for attempt in 1..=times {
            if let Some(guard) = self.clone().try_acquire().await? {
                return Ok(guard);
            }
            if attempt < times {
                self.core
                    .clock
                    .sleep_until(self.core.clock.now() + pause)
                    .await;
            }
        }
        let name = self.name?;
        let holder = self.core.holder_of(&name).await;
        let waited = self.core.clock.now() - started;
        Err(Error::Timeout {
            name,
            backend: self.core.name(),
            waited,
            holder,
        })
    }

    /// Waits for the lock, runs the body under it, and gives it back. When the lock is lost, the body is
    /// dropped at its next await.
    ///
    /// # Errors
    /// As [`Lock::acquire`], and [`Error::Lost`] when the lock was lost before the body had ended.
    ///
    /// # Cancel safety
    /// A dropped call drops the body and gives the lock back.
    pub async fn hold<T>(self, body: impl AsyncFnOnce(&Guard) -> T) -> Result<T, Error> {
        let guard = self.acquire().await?;
        let value = tokio::select! {
            biased;
            _ = guard.lost() => None,
            value = body(&guard) => Some(value),
        };
        let Some(value) = value else {
            return Err(guard.check().err().unwrap_or(Error::Closed));
        };
        match guard.release().await {
            // The work is done, and was protected; the lease ends what the release could not.
            Ok(()) | Err(Error::Unreachable { .. }) => Ok(value),
            Err(error) => Err(error),
        }
    }

    /// Under another label than the keeper's.
    pub(crate) fn labelled(mut self, label: String) -> Self {
        self.party = Some(Arc::new(Party {
            label,
            ..(*self.core.party).clone()
        }));
        self
    }

    /// For the same owner, and renewed or not, as a hold that is being exchanged for this one.
    pub(crate) fn in_place_of(mut self, kept: bool, owner: Option<u64>) -> Self {
        (self.kept, self.owner) = (kept, Ok(owner));
        self
    }

    pub(crate) async fn acquire_until(self, until: Moment) -> Result<Guard, Error> {
        let guard = self.acquire_with(Patience::Until(until)).await?;
        // Only a caller without patience is told that it is busy.
        guard.ok_or(Error::Closed)
    }

    /// Not an `async fn`: the settings become what is asked for before the future is made, which is
    /// passed on by value and need not carry both.
    fn acquire_with(
        self,
        patience: Patience,
    ) -> impl Future<Output = Result<Option<Guard>, Error>> + Send {
        let core = self.core.clone();
        let ask = self.ask();
        async move {
            let grant = acquire::acquire(&core, ask?, patience).await?;
            grant.map(Guard::new).transpose()
        }
    }

    fn ask(self) -> Result<Ask, Error> {
        let believed = self.term.believed(self.core.backend.guarantees());
        Ok(Ask {
            name: self.name?,
            mode: self.mode?,
            term: self.term,
            kept: self.kept,
            fair: self.fair,
            owner: self.owner?,
            // Not even zero means: over already.
            min_validity: self
                .min_validity
                .unwrap_or(believed / 10)
                .max(Duration::from_nanos(1)),
            party: self.party,
        })
    }
}
