//! Other people's clients are really there, and really exclude each other: two processes of each,
//! against a real server.

use std::time::{Duration, Instant};

use lockkeeper_testbed::foreign::{self, Acquired, Client, Released};
use lockkeeper_testbed::{EtcdThree, Redis, RedisFive, Result, ZooKeeper};

const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

/// Two clients of a kind take turns, and a killed one is out after its lease. Only the lease that must end is
/// short: a machine that stands still for two seconds must not end the others.
fn exclude_each_other(start: impl Fn() -> Result<Client>) {
    let Some(mut one) = foreign::present(start()).unwrap() else {
        return;
    };
    let mut other = start().unwrap();
    let soon = Duration::from_millis(300);

    assert_eq!(one.acquire("a", soon, LONG).unwrap(), Acquired::Got);
    assert_eq!(other.acquire("a", soon, LONG).unwrap(), Acquired::Busy);
    assert_eq!(other.acquire("b", LONG, LONG).unwrap(), Acquired::Got);
    assert_eq!(other.release().unwrap(), Released::Freed);
    assert_eq!(one.release().unwrap(), Released::Freed);

    // Some keep the session of their first lease.
    let mut mortal = start().unwrap();
    assert_eq!(mortal.acquire("a", LONG, SHORT).unwrap(), Acquired::Got);
    one.begin_acquire("a", LONG, LONG).unwrap();
    mortal.kill();
    let killed = Instant::now();
    // Some count their tries, and give up when the servers refuse faster than usual.
    while one.finish_acquire(LONG).unwrap() == Acquired::Busy {
        assert!(killed.elapsed() < LONG, "its lease never ended");
        one.begin_acquire("a", LONG, LONG).unwrap();
    }
    assert!(killed.elapsed() < LONG);
    assert_eq!(one.release().unwrap(), Released::Freed);

    let cycles = one.cycles(Duration::from_millis(500), "c").unwrap();
    assert!(!cycles.is_empty() && cycles.iter().all(|took| !took.is_zero()));
}

#[test]
fn redis_py() {
    let redis = Redis::start().unwrap();
    exclude_each_other(|| Client::redis_py(redis.address()));
}

#[test]
fn npm_redlock_on_one_and_on_five() {
    let redis = Redis::start().unwrap();
    exclude_each_other(|| Client::npm_redlock(&[redis.address()]));
    let five = RedisFive::start().unwrap();
    let addresses: Vec<_> = five.nodes().iter().map(Redis::address).collect();
    exclude_each_other(|| Client::npm_redlock(&addresses));
}

#[test]
fn redisson() {
    let redis = Redis::start().unwrap();
    exclude_each_other(|| Client::redisson(redis.address()));
}

#[test]
fn kazoo() {
    let zookeeper = ZooKeeper::start().unwrap();
    exclude_each_other(|| Client::kazoo(&[zookeeper.address()], "/locks/"));
}

#[test]
fn curator() {
    let zookeeper = ZooKeeper::start().unwrap();
    exclude_each_other(|| Client::curator(&[zookeeper.address()], "/locks/"));
}

#[test]
fn go_etcd_and_etcdctl() {
    let three = EtcdThree::start().unwrap();
    let addresses: Vec<_> = three.nodes().iter().map(|node| node.address()).collect();
    exclude_each_other(|| Client::go_etcd(&addresses, "go/"));
    exclude_each_other(|| Client::etcdctl_lock(&addresses, "ctl/"));
}

/// A lease that ended while the client was stopped is somebody else's: a late release says so, and
/// leaves the other's lock alone.
#[test]
fn a_late_release_is_told_and_harmless() {
    let redis = Redis::start().unwrap();
    let start = || Client::redis_py(redis.address());
    let Some(mut late) = foreign::present(start()).unwrap() else {
        return;
    };
    let mut other = start().unwrap();
    let short = Duration::from_millis(300);
    assert_eq!(late.acquire("a", LONG, short).unwrap(), Acquired::Got);
    late.pause().unwrap();
    assert_eq!(other.acquire("a", LONG, LONG).unwrap(), Acquired::Got);
    late.resume().unwrap();
    assert_eq!(late.release().unwrap(), Released::NotMine);
    assert_eq!(late.acquire("a", short, LONG).unwrap(), Acquired::Busy);
    assert_eq!(other.release().unwrap(), Released::Freed);
}
