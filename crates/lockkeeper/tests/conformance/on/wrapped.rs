//! Wrappers around `memory:` that lose, repeat or keep back: the laws must bear them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::backend::Backend;
use lockkeeper::conformance::Engine;
use lockkeeper::conformance::wrappers::{Faulty, Lesser};

use super::memory::MemoryEngine;

/// A wrapper around each connection to `memory:`.
pub(crate) trait Wrapper: Send + Sync + 'static {
    /// Wraps the n-th connection.
    fn wrap(inner: Arc<dyn Backend>, number: u64) -> Arc<dyn Backend>;
}

pub(crate) struct Around<W> {
    memory: MemoryEngine,
    connections: AtomicU64,
    wrapper: std::marker::PhantomData<fn() -> W>,
}

#[async_trait]
impl<W: Wrapper> Engine for Around<W> {
    async fn start() -> Self {
        Self {
            memory: MemoryEngine::start().await,
            connections: AtomicU64::new(0),
            wrapper: std::marker::PhantomData,
        }
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        W::wrap(self.memory.backend().await, number)
    }

    async fn residue(&self) -> usize {
        self.memory.residue().await
    }

    fn lease(&self) -> Duration {
        self.memory.lease()
    }
}

pub(crate) struct LostReplies;
pub(crate) struct AppliedTwice;
pub(crate) struct Deaf;
pub(crate) struct Plain;

impl Wrapper for LostReplies {
    fn wrap(inner: Arc<dyn Backend>, number: u64) -> Arc<dyn Backend> {
        Faulty::lost_replies(inner, number)
    }
}

impl Wrapper for AppliedTwice {
    fn wrap(inner: Arc<dyn Backend>, _: u64) -> Arc<dyn Backend> {
        Faulty::applied_twice(inner)
    }
}

impl Wrapper for Deaf {
    fn wrap(inner: Arc<dyn Backend>, _: u64) -> Arc<dyn Backend> {
        Lesser::deaf(inner)
    }
}

impl Wrapper for Plain {
    fn wrap(inner: Arc<dyn Backend>, _: u64) -> Arc<dyn Backend> {
        Lesser::plain(inner)
    }
}
