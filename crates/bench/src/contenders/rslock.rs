//! The peer rslock, with its own settings, except that it does not give up.

use std::time::Duration;

use rslock::{Lock, LockManager};

use super::{Client, Contender, LEASE_MS};
use crate::Result;

/// Its own pause between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) fn connect(hosts: &str) -> Manager {
    let urls = hosts.split(',').map(|host| format!("redis://{host}"));
    let mut manager = LockManager::new(urls.collect());
    manager.set_retry(u32::MAX, RETRY_PAUSE);
    Manager(manager)
}

pub(crate) struct Manager(LockManager);

impl Client for Manager {
    type Contender = Resource;

    async fn contender(&self, name: &str) -> Result<Resource> {
        Ok(Resource {
            manager: self.0.clone(),
            name: name.to_owned(),
            lock: None,
        })
    }
}

pub(crate) struct Resource {
    manager: LockManager,
    name: String,
    lock: Option<Lock>,
}

impl Contender for Resource {
    async fn acquire(&mut self) -> Result<()> {
        let lease = Duration::from_millis(LEASE_MS.into());
        self.lock = Some(self.manager.lock(self.name.as_bytes(), lease).await?);
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let lock = self.lock.take().ok_or("nothing is held")?;
        self.manager.unlock(&lock).await;
        Ok(())
    }
}
