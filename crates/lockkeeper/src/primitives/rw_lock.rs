//! Many readers or one writer, in order of arrival: no reader overtakes a waiting writer.

use std::sync::Arc;

use crate::Mode;
use crate::lifecycle::core::Core;
use crate::primitives::Lock;

/// Many readers or one writer.
///
/// A write hold can be turned into a read hold without a gap ([`Guard::downgrade`](crate::Guard::downgrade)).
/// The other way round gives the read hold up first ([`Guard::upgrade_within`](crate::Guard::upgrade_within)).
#[derive(Debug, Clone)]
pub struct RwLock {
    core: Arc<Core>,
    name: String,
}

impl RwLock {
    pub(crate) fn new(core: Arc<Core>, name: &str) -> Self {
        Self {
            core,
            name: name.into(),
        }
    }

    /// Together with other readers.
    pub fn read(&self) -> Lock {
        Lock::new(self.core.clone(), &self.name, Ok(Mode::Shared))
    }

    /// Alone.
    pub fn write(&self) -> Lock {
        Lock::new(self.core.clone(), &self.name, Ok(Mode::Exclusive))
    }
}
