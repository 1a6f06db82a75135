//! Permits: k of n, each with a lease of its own.

use std::sync::Arc;

use crate::Mode;
use crate::lifecycle::core::Core;
use crate::primitives::Lock;

/// `of` permits under one name. Every process must name the same number: it travels with each claim,
/// and each claim is judged by its own.
#[derive(Debug, Clone)]
pub struct Semaphore {
    core: Arc<Core>,
    name: String,
    of: u32,
}

impl Semaphore {
    pub(crate) fn new(core: Arc<Core>, name: &str, of: u32) -> Self {
        Self {
            core,
            name: name.into(),
            of,
        }
    }

    /// This many permits at once.
    pub fn permits(&self, take: u32) -> Lock {
        let mode = Mode::permits(take, self.of).map_err(Into::into);
        Lock::new(self.core.clone(), &self.name, mode)
    }
}
