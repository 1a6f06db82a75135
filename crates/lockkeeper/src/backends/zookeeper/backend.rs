//! The verbs.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::task::AbortHandle;

use super::shared::Shared;
use crate::Name;
use crate::backend::{Backend, Entry, LockView, Query, Released, Standing, Wakes};
use crate::claim::Claim;
use crate::error::Error;
use crate::guarantees::Guarantees;

#[derive(Debug)]
pub(super) struct ZooKeeperBackend {
    pub(super) shared: Arc<Shared>,
    pub(super) tasks: [AbortHandle; 3],
}

impl Drop for ZooKeeperBackend {
    /// When the tasks are gone so is the last user of the session, which the client then closes; with it
    /// goes every node.
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.shared.close();
    }
}

#[async_trait]
impl Backend for ZooKeeperBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        self.shared.enter(claim, entry).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        self.shared.renew(claims).await
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        self.shared.downgrade(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.shared.release(claim).await
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        self.shared.inspect(query).await
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        self.shared.evict(name, order, why).await
    }

    fn wakes(&self) -> Wakes {
        self.shared.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.shared.guarantees
    }

    fn place(&self) -> String {
        self.shared.config.place()
    }
}
