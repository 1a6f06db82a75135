//! The identity that may enter again what it holds: a value that is passed along, never a thread.

use std::sync::Arc;

use crate::lifecycle::core::Core;

/// An identity that may enter a lock again while it holds it. Clones are the same owner.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::connect("memory:").await?;
/// let owner = keeper.owner();
/// let outer = keeper.lock("a").owner(&owner).acquire().await?;
/// let inner = keeper.lock("a").owner(&owner).acquire().await?;
/// assert_eq!(outer.token(), inner.token());
/// assert!(keeper.lock("a").try_acquire().await?.is_none(), "others wait for both");
/// # drop(inner); outer.release().await }
/// ```
#[derive(Debug, Clone)]
pub struct Owner {
    core: Arc<Core>,
    number: u64,
}

impl Owner {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self {
            core: core.clone(),
            number: core.lines.new_number(),
        }
    }

    /// The number within its keeper; none for another keeper's lock, where it has no meaning.
    pub(crate) fn number_in(&self, core: &Arc<Core>) -> Option<u64> {
        Arc::ptr_eq(&self.core, core).then_some(self.number)
    }
}
