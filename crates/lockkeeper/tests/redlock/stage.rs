//! The stage: five nodes with or without proxies before them, keepers, claims, and other processes.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::backend::{Backend, Standing};
use lockkeeper::backends::redlock::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Clock, Error, Guard, Keeper, Mode, Name};
use lockkeeper_testbed::{Actor, Proxy, Redis, RedisFive};

/// Long enough not to end by the way on a loaded machine, short enough to wait for.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);
/// What other processes hold on.
pub(crate) const ROLE_LEASE: Duration = LEASE;
/// No wait of a test takes longer.
pub(crate) const SOON: Duration = Duration::from_secs(15);
/// Does not end by the way.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The URL of a set of these nodes.
pub(crate) fn url(nodes: &[SocketAddr], settings: &str) -> String {
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    format!("redlock://{}?{settings}", nodes.join(","))
}

/// The URL of five new nodes that abstain for so long after they were emptied.
pub(crate) fn new_set(five: &RedisFive, longest_lease: &str) -> String {
    let settings = format!("longest-lease={longest_lease}&fresh=yes");
    url(&five.addresses(), &settings)
}

/// Five nodes, each behind a proxy, and the URL of the set.
pub(crate) fn behind_proxies() -> (RedisFive, Vec<Proxy>, String) {
    let five = RedisFive::start().unwrap();
    let proxies: Vec<Proxy> = five
        .addresses()
        .into_iter()
        .map(|to| Proxy::to(to).unwrap())
        .collect();
    let addresses: Vec<SocketAddr> = proxies.iter().map(Proxy::address).collect();
    let url = url(&addresses, "longest-lease=60s&fresh=yes");
    (five, proxies, url)
}

pub(crate) async fn try_backend(url: &str) -> Result<Arc<dyn Backend>, Error> {
    connect(&Config::from_url(url)?, Clock::system()).await
}

pub(crate) async fn backend(url: &str) -> Arc<dyn Backend> {
    try_backend(url).await.expect("a majority answers")
}

pub(crate) async fn keeper(url: &str, lease: Duration) -> Keeper {
    let builder = Keeper::builder().label("test").lease(lease);
    builder.connect(url).await.expect("a majority answers")
}

pub(crate) fn claim(lease: Duration) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: Name::new("n").unwrap(),
        mode: Mode::Exclusive,
        lease,
        party: Arc::new(Party::here("test")),
    }
}

#[track_caller]
pub(crate) fn order(standing: Standing) -> u64 {
    match standing {
        Standing::Holds { order, .. } => order,
        standing => panic!("it does not hold: {standing:?}"),
    }
}

/// Asks again while the outcome is unknown, as the trait demands.
pub(crate) async fn insist<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> T {
    let limit = Instant::now() + SOON;
    loop {
        match ask().await {
            Ok(told) => return told,
            Err(error) if error.is_unknown() && Instant::now() < limit => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits, within bounds, until it is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < limit, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Breaks every connection to the node.
pub(crate) fn reconnect(node: &Redis) {
    for kind in ["normal", "pubsub"] {
        node.ask(&["CLIENT", "KILL", "TYPE", kind]).unwrap();
    }
}

/// On how many nodes somebody has the name `n`.
pub(crate) fn locked_on(five: &RedisFive) -> usize {
    let has = |node: &&Redis| {
        let told = node.ask(&["EXISTS", "redlock:lock:n"]);
        told.is_ok_and(|told| told.text() == "1")
    };
    five.nodes().iter().filter(has).count()
}

/// How many keys of claims are left on all nodes.
pub(crate) fn keys_left(five: &RedisFive) -> usize {
    let keys = |node: &Redis| {
        let keys = node.ask(&["KEYS", "redlock:[lwf]*:*"]).unwrap();
        keys.text().lines().count()
    };
    five.nodes().iter().map(keys).sum()
}

/// Sees whether two hold at once, and whether tokens rise.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    inside: AtomicUsize,
    highest: AtomicU64,
}

impl Checker {
    /// Works inside the lock for a moment; panics when somebody else is inside.
    pub(crate) async fn work(&self, guard: &Guard) {
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "two hold at once");
        let token = guard.token().get();
        let before = self.highest.swap(token, Ordering::SeqCst);
        assert!(token > before, "token {token} after {before}");
        tokio::time::sleep(Duration::from_micros(200)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Another process that plays a role, about the name `n`.
pub(crate) fn play(role: &str, url: &str) -> Actor {
    Actor::play(&[
        ("LOCKKEEPER_TEST_ROLE", role),
        ("LOCKKEEPER_TEST_URL", url),
        ("LOCKKEEPER_TEST_NAME", "n"),
    ])
}
