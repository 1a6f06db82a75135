//! Tables of its own for each law, on one PostgreSQL server, as a user with exactly the rights that the backend
//! asks for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::Backend;
use lockkeeper::backends::postgres::{Config, connect, script};
use lockkeeper::conformance::Engine;
use lockkeeper_testbed::{Postgres, Setup};

/// Rows with an end.
pub(crate) struct Lease(Corner);
/// The server's own locks.
pub(crate) struct Session(Corner);

struct Corner {
    config: Config,
    prefix: String,
}

fn server() -> &'static Postgres {
    // Started with the first law; it ends with this process.
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| {
        let many = Setup::new().setting("max_connections", "1000");
        let server = Postgres::start_with(&many).expect("a PostgreSQL server");
        server.sql("CREATE ROLE locks LOGIN").expect("a user");
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
        let url = format!(
            "postgres://locks@{address}/postgres?mode={mode}&prefix={prefix}&connections=400"
        );
        let config = Config::from_url(&url).expect("a good URL");
        let script = script(&config).replace("--   GRANT", "GRANT");
        let script = script.replace("THE_USER", "locks");
        // The rights on the schema are one row, which two cannot change at a time.
        static ONE_BY_ONE: Mutex<()> = Mutex::new(());
        let turn = ONE_BY_ONE.lock().unwrap_or_else(PoisonError::into_inner);
        server().sql(&script).expect("tables");
        drop(turn);
        Self { config, prefix }
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        let connected = connect(&self.config, Clock::system()).await;
        connected.expect("the server is up")
    }

    fn rows(&self, condition: &str) -> usize {
        let sql = format!("SELECT count(*) FROM {}_locks {condition}", self.prefix);
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

    /// Rows of claims that live: the dead are swept by whoever passes by.
    async fn residue(&self) -> usize {
        self.0.rows("WHERE ends_at > clock_timestamp()")
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(2000)
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

    /// Rows of claims whose session lives.
    async fn residue(&self) -> usize {
        self.0.rows("")
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(2000)
    }
}
