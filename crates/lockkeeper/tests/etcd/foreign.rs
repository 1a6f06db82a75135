//! Together with Go's `concurrency.Mutex` and `etcdctl lock`, in both directions and in the order of arrival.

use std::time::Duration;

use lockkeeper_testbed::foreign::{Acquired, Client, Released, present};
use lockkeeper_testbed::{Etcd, Result};
use tokio::time::timeout;

use crate::stage::{LEASE, PREFIX, SOON, acquires, all_leave, claims, keeper, until_waiting};

const LONG: Duration = Duration::from_secs(30);
/// Theirs is not revoked when they end; the test waits for its end.
const THEIRS: Duration = Duration::from_secs(6);

type Start = fn(&Etcd) -> Result<Client>;

fn go(server: &Etcd) -> Result<Client> {
    Client::go_etcd(&[server.address()], &format!("{PREFIX}/"))
}

fn etcdctl(server: &Etcd) -> Result<Client> {
    Client::etcdctl_lock(&[server.address()], &format!("{PREFIX}/"))
}

/// Waits until so many keys stand in the name's directory.
async fn until_there(server: &Etcd, count: usize) {
    let end = std::time::Instant::now() + SOON;
    while claims(server).len() < count {
        assert!(std::time::Instant::now() < end, "it never stood in line");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn in_the_order_of_arrival(start: Start) {
    let server = Etcd::start().unwrap();
    let Some(mut first) = present(start(&server)).unwrap() else {
        return;
    };
    let mut third = start(&server).unwrap();
    let (two, four) = (
        keeper(&[server.address()]).await,
        keeper(&[server.address()]).await,
    );
    // They hold: we wait, and do not try our way in.
    assert_eq!(first.acquire("a", SOON, THEIRS).unwrap(), Acquired::Got);
    assert!(two.lock("a").try_acquire().await.unwrap().is_none());
    let second = tokio::spawn(acquires(two.lock("a").lease(LONG)));
    until_there(&server, 2).await;
    // We wait: they line up behind us, and we behind them.
    third.begin_acquire("a", SOON, THEIRS).unwrap();
    until_there(&server, 3).await;
    let fourth = tokio::spawn(acquires(four.rw_lock("a").read().lease(LONG)));
    let view = until_waiting(&two, "a", 3).await;
    assert_eq!(view.holders[0].party.label, "another client of etcd");
    assert!(!second.is_finished());

    assert_eq!(first.release().unwrap(), Released::Freed);
    let second = timeout(SOON, second).await.unwrap().expect("its turn");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!fourth.is_finished(), "it overtook");
    second.check().expect("held");
    let token = second.token();
    second.release().await.expect("released");

    assert_eq!(third.finish_acquire(SOON).unwrap(), Acquired::Got);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!fourth.is_finished(), "two holders");
    assert_eq!(third.release().unwrap(), Released::Freed);
    let fourth = timeout(SOON, fourth).await.unwrap().expect("its turn");
    assert!(fourth.token() > token, "the token rises");

    // We hold: they are busy, whatever our mode.
    let wait = Duration::from_millis(500);
    assert_eq!(first.acquire("a", wait, THEIRS).unwrap(), Acquired::Busy);
    fourth.release().await.expect("released");
    assert_eq!(first.acquire("a", SOON, THEIRS).unwrap(), Acquired::Got);
    assert_eq!(first.release().unwrap(), Released::Freed);
    drop((first, third));
    all_leave([two, four], &server).await;
}

// proves: U4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gos_mutex() {
    in_the_order_of_arrival(go).await;
}

// proves: U4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcdctl_lock() {
    in_the_order_of_arrival(etcdctl).await;
}

/// A foreign holder that is stopped past its lease is over, and we are next.
// proves: L3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_holder_that_is_paused_past_its_lease() {
    let server = Etcd::start().unwrap();
    let Some(mut other) = present(go(&server)).unwrap() else {
        return;
    };
    let keeper = keeper(&[server.address()]).await;
    assert_eq!(other.acquire("a", SOON, LEASE).unwrap(), Acquired::Got);
    let waiting = tokio::spawn(acquires(keeper.lock("a")));
    until_waiting(&keeper, "a", 1).await;
    other.pause().unwrap();
    let guard = timeout(SOON, waiting).await.unwrap().expect("its turn");
    other.resume().unwrap();
    let _told_by_its_own_client = other.release();
    guard.check().expect("a late release does not touch it");
    guard.release().await.expect("released");
    other.kill();
    all_leave([keeper], &server).await;
}
