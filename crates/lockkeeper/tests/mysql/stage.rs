//! The stage: tables of their own on a server, claims, and other processes that play a role there.

use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lockkeeper::backend::{Backend, Standing};
use lockkeeper::backends::mysql::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Clock, Error, Keeper, Mode};
use lockkeeper_testbed::{Actor, MariaDb, Setup};

/// Every wait of a test ends here at the latest, so that a lost push is a failure and not a hang.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// Longer than a test: what is gone sooner did not go by its end.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// A lease whose end is waited for.
pub(crate) const LEASE: Duration = Duration::from_secs(2);
/// What other processes hold on.
pub(crate) const ROLE_LEASE: Duration = LEASE;

/// A server that all tests share which do it no harm.
pub(crate) fn server() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| {
        MariaDb::start_with(&Setup::new().setting("max_connections", "500")).unwrap()
    })
}

/// Lease mode and session mode, on tables of their own.
pub(crate) fn both() -> [Corner; 2] {
    let address = server().address();
    [Corner::lease(address), Corner::session(address)]
}

/// Tables of their own on some server.
#[derive(Clone)]
pub(crate) struct Corner {
    host: String,
    pub(crate) prefix: String,
    pub(crate) mode: &'static str,
}

impl Corner {
    pub(crate) fn lease(address: impl Display) -> Self {
        Self::of("lease", address)
    }

    pub(crate) fn session(address: impl Display) -> Self {
        Self::of("session", address)
    }

    fn of(mode: &'static str, address: impl Display) -> Self {
        static CORNERS: AtomicUsize = AtomicUsize::new(0);
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        Self {
            host: address.to_string(),
            prefix: format!("c{corner}"),
            mode,
        }
    }

    /// The same tables through another way.
    pub(crate) fn through(&self, address: impl Display) -> Self {
        Self {
            host: address.to_string(),
            ..self.clone()
        }
    }

    pub(crate) fn url(&self) -> String {
        let Self { host, prefix, mode } = self;
        format!("mysql://root@{host}/mysql?mode={mode}&prefix={prefix}")
    }

    pub(crate) async fn connect(&self) -> Result<Arc<dyn Backend>, Error> {
        connect(&Config::from_url(&self.url())?, Clock::system()).await
    }

    pub(crate) async fn backend(&self) -> Arc<dyn Backend> {
        self.connect().await.unwrap()
    }

    pub(crate) async fn keeper(&self) -> Keeper {
        let builder = Keeper::builder().label("test").lease(LEASE);
        builder.connect(&self.url()).await.unwrap()
    }

    pub(crate) fn play(&self, role: &str, name: &str) -> Actor {
        Actor::play(&[
            ("LOCKKEEPER_TEST_ROLE", role),
            ("LOCKKEEPER_TEST_URL", &self.url()),
            ("LOCKKEEPER_TEST_NAME", name),
        ])
    }
}

pub(crate) fn claim(name: &str) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: name.parse().unwrap(),
        mode: Mode::Exclusive,
        lease: LONG,
        party: Arc::new(Party::here("test")),
    }
}

pub(crate) fn order(standing: Standing) -> u64 {
    match standing {
        Standing::Holds { order, .. } => order,
        other => panic!("it must hold: {other:?}"),
    }
}

/// Asks again while the outcome is unknown.
pub(crate) async fn insist<T, F: Future<Output = Result<T, Error>>>(call: impl Fn() -> F) -> T {
    let begun = Instant::now();
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_unknown() && begun.elapsed() < SOON, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn soon<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, call)
        .await
        .expect("in good time")
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
