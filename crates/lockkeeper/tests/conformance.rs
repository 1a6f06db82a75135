//! Every law on every backend: one line each. Wrappers run them too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Query};
use lockkeeper::backends::local::{Config, connect};
use lockkeeper::backends::memory::Memory;
use lockkeeper::conformance::Engine;
use lockkeeper::conformance::wrappers::{Faulty, Lesser};

lockkeeper::conformance!(memory, MemoryEngine);
lockkeeper::conformance!(local, LocalEngine);
lockkeeper::conformance!(lost_replies_over_memory, Around<LostReplies>);
lockkeeper::conformance!(applied_twice_over_memory, Around<AppliedTwice>);
lockkeeper::conformance!(deaf_over_memory, Around<Deaf>);
lockkeeper::conformance!(plain_over_memory, Around<Plain>);

struct MemoryEngine(Memory);

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
        Duration::from_millis(300)
    }
}

/// A directory of its own.
struct LocalEngine {
    directory: tempfile::TempDir,
    /// Looks and sweeps; the law's own connections may be deaf or cut off.
    sweeper: Arc<dyn Backend>,
}

impl LocalEngine {
    fn connect(directory: &tempfile::TempDir) -> Arc<dyn Backend> {
        let config = Config::at(directory.path().join("locks")).expect("an absolute path");
        connect(&config, Clock::system()).expect("a directory that can be used")
    }

    /// Rows of claims that are not over; those that are go when somebody next wants their name.
    fn rows(&self) -> usize {
        let locks = std::fs::read_dir(self.directory.path().join("locks"));
        let mut count = 0;
        for file in locks.expect("it exists").flatten() {
            if file.path().extension().is_some_and(|end| end == "db") {
                let lists = rusqlite::Connection::open(file.path()).expect("a database");
                lists.busy_timeout(Duration::from_secs(5)).expect("set");
                let sql = "SELECT count(*) FROM claims WHERE ends_ns > ?1";
                let now = Clock::system().now().nanos() as i64;
                let rows = lists.query_row(sql, [now], |row| row.get::<_, u32>(0));
                count += rows.unwrap_or(0) as usize;
            }
        }
        count
    }
}

#[async_trait]
impl Engine for LocalEngine {
    async fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let sweeper = Self::connect(&directory);
        Self { directory, sweeper }
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        Self::connect(&self.directory)
    }

    async fn residue(&self) -> usize {
        let seen = self.sweeper.inspect(&Query::All).await;
        seen.expect("local answers").len().max(self.rows())
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(300)
    }
}

/// A wrapper around each connection to `memory:`.
trait Wrapper: Send + Sync + 'static {
    /// Wraps the n-th connection.
    fn wrap(inner: Arc<dyn Backend>, number: u64) -> Arc<dyn Backend>;
}

struct Around<W> {
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

struct LostReplies;
struct AppliedTwice;
struct Deaf;
struct Plain;

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
