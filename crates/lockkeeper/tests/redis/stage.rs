//! The stage: connections, keepers, claims, a checker of exclusion, and other processes.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::backend::{Backend, Standing};
use lockkeeper::backends::redis::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Error, Guard, Keeper, Mode, Name};
use lockkeeper_testbed::{Actor, Redis};

/// Long enough not to end by the way on a loaded machine, short enough to wait for.
pub(crate) const LEASE: Duration = Duration::from_millis(900);
/// What other processes hold on.
pub(crate) const ROLE_LEASE: Duration = LEASE;
/// No wait of a test takes longer.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// Does not end by the way.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn backend(url: &str) -> Arc<dyn Backend> {
    try_backend(url).await.expect("the server lets us in")
}

pub(crate) async fn try_backend(url: &str) -> Result<Arc<dyn Backend>, Error> {
    connect(&Config::from_url(url)?).await
}

pub(crate) async fn keeper(url: &str, lease: Duration) -> Keeper {
    let builder = Keeper::builder().label("test").lease(lease);
    builder.connect(url).await.expect("the server lets us in")
}

/// A URL at this address.
pub(crate) fn at(address: std::net::SocketAddr) -> String {
    format!("redis://{address}")
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn claim(text: &str, mode: Mode, lease: Duration) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: name(text),
        mode,
        lease,
        party: Arc::new(Party::here("test")),
    }
}

pub(crate) fn exclusive(text: &str) -> Claim {
    claim(text, Mode::Exclusive, LONG)
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

/// The future ends in time.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("in time")
}

/// Keys of claims that are left on the server.
pub(crate) fn keys_left(server: &Redis) -> Vec<String> {
    let keys = server.ask(&["KEYS", "lk:{*}:[krqe]:*"]).unwrap();
    keys.text().lines().map(str::to_owned).collect()
}

/// Keys of claims that would stay for ever.
pub(crate) fn immortal(server: &Redis) -> Vec<String> {
    let mut keys = keys_left(server);
    keys.retain(|key| server.ask(&["PTTL", key]).unwrap().text() == "-1");
    keys
}

/// How often the server ran each of the commands that clients send here: not those inside scripts.
pub(crate) fn client_commands(server: &Redis) -> u64 {
    let sent = ["evalsha", "eval", "ping", "hello", "subscribe", "scan"];
    calls(server, &sent)
}

/// How often the server has carried these commands out, in scripts too.
pub(crate) fn calls(server: &Redis, commands: &[&str]) -> u64 {
    let stats = server.ask(&["INFO", "commandstats"]).unwrap().text();
    let count = |line: &str| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls: u64 = rest.split(',').next()?.parse().ok()?;
        commands.contains(&command).then_some(calls)
    };
    stats.lines().filter_map(count).sum()
}

/// Sees whether two hold at once, and whether tokens rise. As a resource it fences: what comes with an old
/// token is refused, so that only accepted work counts.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    inside: AtomicUsize,
    highest: AtomicU64,
    pub(crate) entries: AtomicUsize,
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
        self.entries.fetch_add(1, Ordering::SeqCst);
    }
}

/// Another process that plays a role of `roles.rs`.
pub(crate) fn play(role: &str, url: &str, name: &str) -> Actor {
    Actor::play(&[
        ("LOCKKEEPER_TEST_ROLE", role),
        ("LOCKKEEPER_TEST_URL", url),
        ("LOCKKEEPER_TEST_NAME", name),
    ])
}
