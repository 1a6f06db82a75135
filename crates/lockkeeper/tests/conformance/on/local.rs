//! A directory of its own for each law.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Query};
use lockkeeper::backends::local::{Config, connect};
use lockkeeper::conformance::Engine;

/// A directory of its own.
pub(crate) struct LocalEngine {
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
        Duration::from_millis(600)
    }
}
