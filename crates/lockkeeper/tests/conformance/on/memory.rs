//! The reference: an engine in this process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::backend::{Backend, Query};
use lockkeeper::backends::memory::Memory;
use lockkeeper::conformance::Engine;

pub(crate) struct MemoryEngine(Memory);

#[async_trait]
impl Engine for MemoryEngine {
    async fn start() -> Self {
        Self(Memory::default())
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        self.0.backend()
    }

    async fn residue(&self) -> usize {
        let swept = self.0.backend().inspect(&Query::All).await;
        swept.expect("memory answers").len().max(self.0.claims())
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(600)
    }
}
