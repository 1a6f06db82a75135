//! The stage: a server or three, keepers on it, and what is left behind there.

use std::fmt::Display;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lockkeeper::backend::{LockView, Query};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Error, Guard, Keeper, Lock, Mode, Name};
use lockkeeper_testbed::{Actor, Etcd};

pub(crate) const PREFIX: &str = "/locks";
pub(crate) const LEASE: Duration = Duration::from_secs(3);
/// What other processes hold on.
pub(crate) const ROLE_LEASE: Duration = LEASE;
/// Every wait of a test ends here at the latest.
pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) fn url<A: Display>(members: &[A]) -> String {
    let members: Vec<String> = members.iter().map(ToString::to_string).collect();
    format!("etcd://{}{PREFIX}", members.join(","))
}

pub(crate) async fn keeper<A: Display>(members: &[A]) -> Keeper {
    keeper_at(&url(members)).await
}

pub(crate) async fn keeper_at(url: &str) -> Keeper {
    try_keeper(url).await.expect("connected")
}

pub(crate) async fn try_keeper(url: &str) -> Result<Keeper, Error> {
    let builder = Keeper::builder().label("test").lease(LEASE);
    builder.connect(url).await
}

/// Another process that plays this role with the name `a`.
pub(crate) fn play<A: Display>(role: &str, members: &[A]) -> Actor {
    Actor::play(&[
        ("LOCKKEEPER_TEST_ROLE", role),
        ("LOCKKEEPER_TEST_URL", &url(members)),
        ("LOCKKEEPER_TEST_NAME", "a"),
    ])
}

/// Acquires, asking again while the server does not answer.
pub(crate) async fn acquires(lock: Lock) -> Guard {
    let end = Instant::now() + SOON;
    loop {
        match lock.clone().acquire_within(SOON).await {
            Ok(guard) => return guard,
            Err(error) => assert!(
                error.is_unknown() && Instant::now() < end,
                "not acquired: {error}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until so many stand in line behind the holder.
pub(crate) async fn until_waiting(keeper: &Keeper, name: &str, count: usize) -> LockView {
    let query = Query::One(Name::new(name.to_owned()).unwrap());
    let end = Instant::now() + SOON;
    loop {
        let views = keeper.inspect(&query).await.unwrap_or_default();
        if let Some(view) = views.into_iter().next()
            && view.waiters.len() >= count
        {
            return view;
        }
        assert!(Instant::now() < end, "they never stood in line");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The keys of claims, as etcd has them.
pub(crate) fn claims(server: &Etcd) -> Vec<String> {
    let keys = server.ctl(&["get", "--prefix", "--keys-only", PREFIX]);
    let keys = keys.expect("etcdctl answers");
    let keys = keys.lines().filter(|line| !line.is_empty());
    let keys = keys.filter(|key| !key.contains("/%"));
    keys.map(ToOwned::to_owned).collect()
}

/// All leases, those of the keepers.
pub(crate) fn leases(server: &Etcd) -> Vec<String> {
    let text = server.ctl(&["lease", "list"]).expect("etcdctl answers");
    let ids = text.lines().filter(|line| !line.contains("found"));
    ids.map(|id| id.trim().to_owned())
        .filter(|id| !id.is_empty())
        .collect()
}

/// The sum of a metric over all its labels that contain `label`.
pub(crate) fn metric(server: &Etcd, name: &str, label: &str) -> f64 {
    let mut stream = TcpStream::connect(server.address()).expect("the server listens");
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let lines = text
        .lines()
        .filter(|line| line.starts_with(name) && line.contains(label));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// How often the server was asked so far, keep-alives and watches apart.
pub(crate) fn asked(server: &Etcd) -> f64 {
    ["Range", "Txn", "Put", "DeleteRange", "LeaseGrant"]
        .iter()
        .map(|method| {
            metric(
                server,
                "grpc_server_started_total",
                &format!("\"{method}\""),
            )
        })
        .sum()
}

pub(crate) fn watches(server: &Etcd) -> f64 {
    metric(server, "etcd_debugging_mvcc_watcher_total", "")
}

/// When everybody has gone: no key, no lease, no watch.
pub(crate) async fn assert_nothing_left(server: &Etcd) {
    let end = Instant::now() + SOON;
    loop {
        let left = (claims(server), leases(server), watches(server));
        if left.0.is_empty() && left.1.is_empty() && left.2 == 0.0 {
            return;
        }
        assert!(Instant::now() < end, "left behind: {left:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Gives up the keepers, and expects that nothing is left of them.
pub(crate) async fn all_leave(keepers: impl IntoIterator<Item = Keeper>, server: &Etcd) {
    for keeper in keepers {
        let closing = keeper.close().await;
        assert!(closing.not_released.is_empty(), "{closing:?}");
    }
    assert_nothing_left(server).await;
}

/// For a backend without a keeper above it.
pub(crate) fn claim(name: &str) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: name.parse().unwrap(),
        mode: Mode::Exclusive,
        lease: LEASE,
        party: std::sync::Arc::new(Party::here("test")),
    }
}
