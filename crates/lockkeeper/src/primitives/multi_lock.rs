//! Several names, also on different engines: all or none, in an order that cannot deadlock.

use std::time::Duration;

use crate::error::{Error, LostReason};
use crate::guard::Guard;
use crate::keeper::Keeper;
use crate::lifecycle::deadline::Moment;
use crate::primitives::Lock;

/// Several names, all or none.
///
/// They are acquired by name and then by place, in every process alike, so that two multi-locks never
/// wait for each other in a circle. All names share the time that the caller is ready to wait.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lockkeeper::Error> {
/// use lockkeeper::{Keeper, MultiLock};
///
/// let keeper = Keeper::connect("memory:").await?;
/// let both = MultiLock::new().and(&keeper, "account/1").and(&keeper, "account/2").acquire().await?;
/// assert_eq!(both.guards().len(), 2);
/// both.release().await
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct MultiLock {
    names: Vec<(String, Keeper)>,
    lease: Option<Duration>,
}

/// Several locks that are held together.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once protects nothing"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiLock {
    /// No names yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more name.
    pub fn and(mut self, keeper: &Keeper, name: impl AsRef<str>) -> Self {
        self.names.push((name.as_ref().into(), keeper.clone()));
        self
    }

    /// The lease of each of them.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Waits for all of them without limit.
    ///
    /// # Errors
    /// As [`Lock::acquire`], and [`Error::Invalid`] for no names or one name twice. None is held then.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn acquire(self) -> Result<MultiGuard, Error> {
        self.acquire_until(Moment::NEVER).await
    }

    /// Waits for all of them for at most this long in all.
    ///
    /// # Errors
    /// As [`MultiLock::acquire`], and [`Error::Timeout`].
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn acquire_within(self, patience: Duration) -> Result<MultiGuard, Error> {
        let until = self
            .names
            .first()
            .map(|(_, keeper)| keeper.core().clock.now() + patience);
        self.acquire_until(until.unwrap_or(Moment::NEVER)).await
    }

    /// Takes all of them if all are free.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`], and [`Error::Invalid`] for no names or one name twice.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn try_acquire(self) -> Result<Option<MultiGuard>, Error> {
        let mut guards = Vec::new();
        for lock in self.in_order()? {
            match lock.try_acquire().await? {
                Some(guard) => guards.push(guard),
                None => return Ok(None),
            }
        }
        Ok(Some(MultiGuard { guards }))
    }

    async fn acquire_until(self, until: Moment) -> Result<MultiGuard, Error> {
        let mut guards = Vec::new();
        for lock in self.in_order()? {
            guards.push(lock.acquire_until(until).await?);
        }
        let all = MultiGuard { guards };
        // The first ones may have been lost while the last ones were waited for.
        all.check()?;
        Ok(all)
    }

    fn in_order(self) -> Result<Vec<Lock>, Error> {
        let mut names: Vec<_> = self
            .names
            .into_iter()
            .map(|(name, keeper)| (name, keeper.place(), keeper))
            .collect();
        names.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
        if names.is_empty() {
            return Err(Error::invalid("a multi-lock needs at least one name"));
        }
        // Two keepers of one engine may share a place, and then one waits for the other.
        if let Some(twice) = names
            .windows(2)
            .find(|two| (&two[0].0, &two[0].1) == (&two[1].0, &two[1].1))
        {
            let (name, place) = (&twice[0].0, &twice[0].1);
            return Err(Error::invalid(format!(
                "{name:?} on {place} stands twice in a multi-lock"
            )));
        }
        let lock = |(name, _, keeper): (String, String, Keeper)| {
            let lock = keeper.lock(name);
            match self.lease {
                Some(lease) => lock.lease(lease),
                None => lock,
            }
        };
        Ok(names.into_iter().map(lock).collect())
    }
}

impl MultiGuard {
    /// The single holds, in the order in which they were acquired.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// An error as soon as one of them is lost.
    ///
    /// # Errors
    /// [`Error::Lost`] of the first that is.
    pub fn check(&self) -> Result<(), Error> {
        self.guards.iter().try_for_each(Guard::check)
    }

    /// Ends when the first of them is lost.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LostReason {
        let mut losses: Vec<_> = self
            .guards
            .iter()
            .map(|guard| Box::pin(guard.lost()))
            .collect();
        std::future::poll_fn(|cx| {
            let ready = losses
                .iter_mut()
                .find_map(|loss| match loss.as_mut().poll(cx) {
                    std::task::Poll::Ready(reason) => Some(reason),
                    std::task::Poll::Pending => None,
                });
            ready.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }

    /// Gives all of them back, the last one first.
    ///
    /// # Errors
    /// The first error; the others are released all the same.
    ///
    /// # Cancel safety
    /// The releases go on in the background if the call is dropped.
    pub async fn release(self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for guard in self.guards.into_iter().rev() {
            let told = guard.release().await;
            outcome = outcome.and(told);
        }
        outcome
    }
}
