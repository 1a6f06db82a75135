//! A latch opens once enough participants have counted down.

use std::sync::Arc;
use std::time::Duration;

use super::gathering::{Complete, Gathering};
use crate::error::Error;
use crate::guard::Guard;
use crate::lifecycle::core::Core;
use crate::lifecycle::deadline::Moment;

/// A latch that opens once `count` participants have counted down.
///
/// A count is a claim like any other: it stands while its [`Guard`] lives, and a participant that dies
/// is not counted any more. What must be remembered beyond the life of those who did it belongs in the
/// resource, not in a lock.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::connect("memory:").await?;
/// let latch = keeper.latch("warmed-up", 2);
/// let _one = latch.count_down().await?;
/// let _two = latch.count_down().await?;
/// latch.wait().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Latch {
    core: Arc<Core>,
    name: String,
    count: u32,
}

impl Latch {
    pub(crate) fn new(core: Arc<Core>, name: &str, count: u32) -> Self {
        Self {
            core,
            name: name.into(),
            count,
        }
    }

    /// Counts down by one, for as long as the guard lives.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call counts nothing.
    pub async fn count_down(&self) -> Result<Guard, Error> {
        self.gathering()?.arrive(self.count).await
    }

    /// Waits without limit until the latch is open.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait(&self) -> Result<(), Error> {
        self.wait_until(Moment::NEVER).await
    }

    /// Waits until the latch is open, for at most this long.
    ///
    /// # Errors
    /// [`Error::Timeout`], and as [`Latch::wait`].
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn wait_within(&self, patience: Duration) -> Result<(), Error> {
        self.wait_until(self.core.clock.now() + patience).await
    }

    async fn wait_until(&self, until: Moment) -> Result<(), Error> {
        let open = Complete {
            enough: self.count,
            or_left: None,
        };
        self.gathering()?.wait_until(open, until).await
    }

    fn gathering(&self) -> Result<Gathering, Error> {
        Gathering::new(&self.core, "latch", &self.name)
    }
}
