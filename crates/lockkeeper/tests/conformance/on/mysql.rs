//! Tables of its own for each law, on one MariaDB server, as a user with exactly the rights that the backend asks for: in lease
//! mode, and in session mode.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::Backend;
use lockkeeper::backends::mysql::{Config, connect, script};
use lockkeeper::conformance::Engine;
use lockkeeper_testbed::{MariaDb, Setup};

/// Rows with an end.
pub(crate) struct Lease(Corner);
/// The server's own locks.
pub(crate) struct Session(Corner);

struct Corner {
    config: Config,
    prefix: String,
}

fn server() -> &'static MariaDb {
    // Started with the first law; it ends with this process.
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| {
        let many = Setup::new().setting("max_connections", "3000");
        let server = MariaDb::start_with(&many).expect("a MariaDB server");
        let user = "CREATE DATABASE laws; CREATE USER locks@'127.0.0.1'";
        server.sql(user).expect("a user");
        server
    })
}

impl Corner {
    /// Makes the tables as an administrator would: by the script, with the rights that it names.
    // security S3
    fn make(mode: &str) -> Self {
        static CORNERS: AtomicU64 = AtomicU64::new(0);
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("law{corner}");
        let address = server().address();
        // In session mode as many claims as a law may make; in lease mode as usual.
        let more = if mode == "session" {
            "&connections=1000"
        } else {
            ""
        };
        let url = format!("mysql://locks@{address}/laws?mode={mode}&prefix={prefix}{more}");
        let config = Config::from_url(&url).expect("a good URL");
        let script = script(&config).replace("--   GRANT", "GRANT");
        let script = script.replace("THE_USER", "locks@'127.0.0.1'");
        server()
            .sql(&format!("USE laws;\n{script}"))
            .expect("tables");
        Self { config, prefix }
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        let connected = connect(&self.config, Clock::system()).await;
        connected.expect("the server is up")
    }

    fn count(&self, what: &str) -> usize {
        let sql = format!("SELECT COUNT(*) FROM laws.{}_{what}", self.prefix);
        let rows = server().sql(&sql).expect("it answers");
        rows.parse().expect("a number")
    }
}

#[async_trait]
impl Engine for Lease {
    async fn start() -> Self {
        Self(Corner::make("lease"))
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        self.0.backend().await
    }

    /// Claims that live, in the list or alone: the dead are swept by whoever passes by.
    async fn residue(&self) -> usize {
        self.0.count("claims WHERE ends_at > UTC_TIMESTAMP(6)")
            + self
                .0
                .count("names WHERE state = 'alone' AND ends_at > UTC_TIMESTAMP(6)")
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(1200)
    }
}

#[async_trait]
impl Engine for Session {
    async fn start() -> Self {
        Self(Corner::make("session"))
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        self.0.backend().await
    }

    /// Names that the server has locked, and rows of claims that wait.
    async fn residue(&self) -> usize {
        self.0
            .count("names WHERE IS_USED_LOCK(lock_name) IS NOT NULL")
            + self.0.count("claims WHERE wait_lock IS NOT NULL")
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(1500)
    }
}
