//! The stage: a server, keepers and bare backends on it, and waiting that ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lockkeeper::backend::{Backend, Standing};
use lockkeeper::backends::postgres::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Clock, Error, Keeper, Mode};
use lockkeeper_testbed::{Actor, Postgres};

/// Kept well on a busy machine.
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// Every wait of a test ends here at the latest.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// What other processes hold on.
pub(crate) const ROLE_LEASE: Duration = LEASE;

/// Tables of their own on a server that tests share which do it no harm.
pub(crate) struct Corner(String);

/// Lease mode and session mode, on tables of their own.
pub(crate) fn both() -> [Corner; 2] {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    static CORNERS: AtomicUsize = AtomicUsize::new(0);
    let url = SERVER.get_or_init(|| Postgres::start().unwrap()).url();
    ["lease", "session"].map(|mode| {
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        Corner(format!("{url}?mode={mode}&prefix=c{corner}"))
    })
}

impl Corner {
    pub(crate) async fn keeper(&self) -> Keeper {
        keeper(&self.0).await
    }

    pub(crate) fn play(&self, role: &str, name: &str) -> Actor {
        Actor::play(&[
            ("LOCKKEEPER_TEST_ROLE", role),
            ("LOCKKEEPER_TEST_URL", &self.0),
            ("LOCKKEEPER_TEST_NAME", name),
        ])
    }
}

pub(crate) async fn backend(url: &str) -> Arc<dyn Backend> {
    try_backend(url).await.expect("connected")
}

pub(crate) async fn try_backend(url: &str) -> Result<Arc<dyn Backend>, Error> {
    connect(&Config::from_url(url)?, Clock::system()).await
}

pub(crate) async fn keeper(url: &str) -> Keeper {
    let builder = Keeper::builder().label("test").lease(LEASE);
    builder.connect(url).await.expect("connected")
}

pub(crate) fn claim(name: &str) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: name.parse().unwrap(),
        mode: Mode::Exclusive,
        lease: LEASE,
        party: Arc::new(Party::here("test")),
    }
}

pub(crate) fn order(standing: Standing) -> u64 {
    match standing {
        Standing::Holds { order, .. } => order,
        other => panic!("it must hold, but its standing is {other:?}"),
    }
}

/// Asks again while the outcome is unknown.
pub(crate) async fn insist<T, F>(mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, Error>>,
{
    let end = Instant::now() + SOON;
    loop {
        match ask().await {
            Ok(told) => return told,
            Err(error) => assert!(error.is_unknown() && Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so().await {
        assert!(Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let ended = tokio::time::timeout(SOON, future).await;
    ended.expect("it takes too long")
}
