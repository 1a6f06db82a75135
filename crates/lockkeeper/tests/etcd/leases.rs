//! The end of leases: revoked, deleted from outside, slept through, stalled; and that nothing of them leaks.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper::backends::etcd::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId};
use lockkeeper::{Clock, LostReason};
use lockkeeper_testbed::{Etcd, Proxy, ReplyLoss};
use tokio::time::{sleep, timeout};

use crate::stage::{
    LEASE, SOON, acquires, all_leave, assert_nothing_left, claim, claims, keeper, leases, play,
    until_waiting, url,
};

fn revoke_all(server: &Etcd) {
    for lease in leases(server) {
        server.ctl(&["lease", "revoke", &lease]).expect("revoked");
    }
}

/// Waits until the probes of connecting are gone, so that the leases there are the keepers' own.
async fn until_leases(server: &Etcd, count: usize) {
    let end = Instant::now() + SOON;
    while leases(server).len() != count {
        assert!(Instant::now() < end, "{:?}", leases(server));
        sleep(Duration::from_millis(50)).await;
    }
}

// proves: W2
// bug 4, bug 47
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_revoked_under_a_holder() {
    let server = Etcd::start().unwrap();
    let (one, two) = (
        keeper(&[server.address()]).await,
        keeper(&[server.address()]).await,
    );
    // Much longer than the test waits: the loss is told by a push, not by the next renewal.
    let long = Duration::from_secs(120);
    let guard = acquires(one.lock("a").lease(long)).await;
    let token = guard.token();
    sleep(Duration::from_millis(300)).await;
    revoke_all(&server);
    let reason = timeout(Duration::from_secs(5), guard.lost()).await;
    assert_eq!(reason.expect("told at once"), LostReason::Gone);
    let next = acquires(two.lock("a")).await;
    assert!(next.token() > token, "the token rises");
    assert!(guard.release().await.is_err());
    next.release().await.expect("released");
    // The same process takes it again, and that hold is kept.
    let again = acquires(one.lock("a").lease(LEASE)).await;
    sleep(3 * LEASE).await;
    again.check().expect("kept");
    again.release().await.expect("released");
    all_leave([one, two], &server).await;
}

// bug 45, bug 61, bug 62
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_revoked_under_a_waiter() {
    let server = Etcd::start().unwrap();
    let (one, two) = (
        keeper(&[server.address()]).await,
        keeper(&[server.address()]).await,
    );
    let guard = acquires(one.lock("a").lease(Duration::from_secs(100))).await;
    until_leases(&server, 1).await;
    let holders = leases(&server);
    let waiting = tokio::spawn(acquires(two.lock("a").lease(Duration::from_secs(90))));
    until_waiting(&one, "a", 1).await;
    let order = until_waiting(&one, "a", 1).await.waiters[0].token;
    until_leases(&server, 2).await;
    let own = leases(&server).into_iter().find(|id| !holders.contains(id));
    server
        .ctl(&["lease", "revoke", &own.unwrap()])
        .expect("revoked");
    // Its place is gone; it takes a new one at once, long before its renewal is due.
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let view = until_waiting(&one, "a", 0).await;
        if view
            .waiters
            .first()
            .is_some_and(|waiter| waiter.token > order)
        {
            break;
        }
        assert!(Instant::now() < end, "it waits in a place that is gone");
        sleep(Duration::from_millis(20)).await;
    }
    assert!(!waiting.is_finished(), "granted without a key");
    guard.release().await.expect("released");
    let guard = timeout(SOON, waiting).await.unwrap().expect("granted");
    assert_eq!(claims(&server).len(), 1, "it holds with a key of its own");
    guard.release().await.expect("released");
    all_leave([one, two], &server).await;
}

// bug 4, bug 47
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_deleted_from_outside() {
    let server = Etcd::start().unwrap();
    let keepers = [
        keeper(&[server.address()]).await,
        keeper(&[server.address()]).await,
    ];
    let guard = acquires(keepers[0].lock("a")).await;
    let waiting = tokio::spawn(acquires(keepers[1].lock("a")));
    until_waiting(&keepers[0], "a", 1).await;
    let oldest = server.ctl(&[
        "get",
        "--prefix",
        "--keys-only",
        "--sort-by=CREATE",
        "--limit=1",
        "/locks/a/",
    ]);
    let oldest = oldest.unwrap().trim().to_owned();
    server.ctl(&["del", &oldest]).unwrap();
    let next = timeout(SOON, waiting).await.unwrap().expect("granted");
    // An operator's deletion is told at the next renewal, at the latest.
    assert_eq!(
        timeout(LEASE, guard.lost()).await.expect("told"),
        LostReason::Gone
    );
    assert!(guard.release().await.is_err());
    next.check().expect("held");
    next.release().await.expect("released");
    all_leave(keepers, &server).await;
}

// proves: L3, L7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_ended_during_a_pause() {
    let server = Etcd::start().unwrap();
    sleeps_through_its_lease(&[server.address()]).await;
    assert_nothing_left(&server).await;
}

/// A process is stopped for longer than its lease. Somebody else is let in, and it knows when it first looks.
pub(crate) async fn sleeps_through_its_lease(members: &[SocketAddr]) {
    let holder = play("hold", members);
    let old = holder.says("holds");
    let keeper = keeper(members).await;
    holder.stop();
    let start = Instant::now();
    let guard = acquires(keeper.lock("a")).await;
    let bound = LEASE + Duration::from_secs(3);
    assert!(start.elapsed() < bound, "blocked for {:?}", start.elapsed());
    assert!(guard.token().get() > old, "the token rises");
    holder.go_on();
    holder.says("lost");
    drop(holder);
    sleep(Duration::from_millis(200)).await;
    guard.check().expect("a late release does not touch it");
    guard.release().await.expect("released");
    let closing = keeper.close().await;
    assert!(closing.not_released.is_empty(), "{closing:?}");
}

// proves: L3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_blocks_for_its_lease_only() {
    let server = Etcd::start().unwrap();
    let mut holder = play("hold", &[server.address()]);
    holder.says("holds");
    let keeper = keeper(&[server.address()]).await;
    let start = holder.kill();
    acquires(keeper.lock("a"))
        .await
        .release()
        .await
        .expect("released");
    let bound = LEASE + Duration::from_secs(2);
    assert!(start.elapsed() < bound, "blocked for {:?}", start.elapsed());
    all_leave([keeper], &server).await;
}

// proves: L7, W2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_stalled_longer_than_the_lease() {
    let server = Etcd::start().unwrap();
    let (one, two) = (
        keeper(&[server.address()]).await,
        keeper(&[server.address()]).await,
    );
    let guard = acquires(one.lock("a").lease(LEASE)).await;
    let (token, deadline) = (guard.token(), Instant::now() + guard.remaining());
    server.server().pause().unwrap();
    timeout(SOON, guard.lost()).await.expect("reported");
    assert!(Instant::now() < deadline + LEASE, "reported too late");
    sleep(Duration::from_secs(1)).await;
    server.server().resume().unwrap();
    let next = acquires(two.lock("a")).await;
    assert!(next.token() > token, "the token rises");
    guard.check().expect_err("what is lost stays lost");
    assert!(guard.release().await.is_err());
    next.check().expect("held");
    next.release().await.expect("released");
    all_leave([one, two], &server).await;
}

// proves: F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_and_restarted_in_place() {
    let server = Etcd::start().unwrap();
    let (one, two) = (
        keeper(&[server.address()]).await,
        keeper(&[server.address()]).await,
    );
    let guard = acquires(one.lock("a").lease(Duration::from_secs(20))).await;
    let waiting = tokio::spawn(acquires(two.lock("a").lease(Duration::from_secs(20))));
    until_waiting(&one, "a", 1).await;
    let token = guard.token();
    server.server().restart().unwrap();
    sleep(Duration::from_secs(1)).await;
    guard.check().expect("etcd kept it");
    assert!(!waiting.is_finished(), "two holders");
    guard.release().await.expect("released");
    let next = timeout(SOON, waiting).await.unwrap().expect("granted");
    assert!(next.token() > token, "the token rises");
    next.release().await.expect("released");
    all_leave([one, two], &server).await;
}

// bug 13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_failed_locks_leak_no_lease() {
    let server = Etcd::start().unwrap();
    let (one, two) = (
        keeper(&[server.address()]).await,
        keeper(&[server.address()]).await,
    );
    let guard = acquires(one.lock("a")).await;
    for _ in 0..1000 {
        let tried = two.lock("a").try_acquire().await.expect("answered");
        assert!(tried.is_none(), "two holders");
    }
    let leases = leases(&server).len();
    assert!(leases <= 4, "{leases} leases for two keepers");
    assert_eq!(claims(&server).len(), 1);
    guard.release().await.expect("released");
    all_leave([one, two], &server).await;
}

/// Whoever knows the id owns the claim: what one keeper no longer renews is not taken from the other.
// proves: L5, L15
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_keepers_own_one_claim() {
    let server = Etcd::start().unwrap();
    let config = Config::from_url(&url(&[server.address()])).unwrap();
    let one = connect(&config, Clock::system()).await.unwrap();
    let two = connect(&config, Clock::system()).await.unwrap();
    let claim = Claim {
        id: ClaimId::common([7; 16]),
        ..claim("gate")
    };
    let first = one.enter(&claim, Entry::Queue).await.unwrap();
    let second = two.enter(&claim, Entry::Queue).await.unwrap();
    let order = |standing| match standing {
        Standing::Holds { order, .. } => order,
        other => panic!("it must hold: {other:?}"),
    };
    assert_eq!(order(first), order(second), "one claim");
    let end = Instant::now() + 2 * LEASE;
    while Instant::now() < end {
        let standing = two.renew(std::slice::from_ref(&claim)).await.unwrap();
        assert_eq!(order(standing[0]), order(first), "kept by the other");
        sleep(LEASE / 10).await;
    }
    let released = one.release(&claim).await.unwrap();
    assert_eq!(released, Released::Freed, "whoever knows the id");
    let standing = two.renew(&[claim]).await.unwrap();
    assert_eq!(standing, [Standing::Gone]);
    drop((one, two));
    assert_nothing_left(&server).await;
}

/// Two claims of one keeper on one name, on the one lease that they share.
// bug 23
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_claims_on_one_lease_exclude_each_other() {
    let server = Etcd::start().unwrap();
    let config = Config::from_url(&url(&[server.address()])).unwrap();
    let backend = connect(&config, Clock::system()).await.unwrap();
    let (first, second) = (claim("a"), claim("a"));
    let standing = backend.enter(&first, Entry::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Holds { .. }), "{standing:?}");
    let standing = backend.enter(&second, Entry::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Waits { .. }), "{standing:?}");
    until_leases(&server, 1).await;
    // One of them is renewed, the other is not: its end comes although the lease lives on.
    let end = Instant::now() + LEASE + Duration::from_millis(500);
    while Instant::now() < end {
        backend.renew(std::slice::from_ref(&second)).await.unwrap();
        sleep(LEASE / 10).await;
    }
    let standing = backend.renew(&[first, second]).await.unwrap();
    assert!(
        matches!(standing[..], [Standing::Gone, Standing::Holds { .. }]),
        "{standing:?}"
    );
    drop(backend);
    assert_nothing_left(&server).await;
}

/// The first question was carried out on a lease that is over by now, the second one, on the next lease, as well;
/// neither was answered. Withdrawing the claim deletes its key, whichever lease that is bound to.
// bug 58, bug 63
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_repeated_on_the_next_lease_is_withdrawn() {
    let server = Etcd::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let config = Config::from_url(&url(&[proxy.address()])).unwrap();
    let backend = connect(&config, Clock::system()).await.unwrap();
    // So long that the questions without an answer do not outlast it.
    let lease = Duration::from_secs(12);
    let long = |name| Claim {
        lease,
        ..claim(name)
    };
    let lost = long("lost");
    let own = |key: &String| key.contains("/lost/");
    backend.enter(&long("kept"), Entry::Queue).await.unwrap();
    until_leases(&server, 1).await;
    proxy.lose(ReplyLoss::all()).unwrap();
    let told = backend.enter(&lost, Entry::Queue).await;
    assert!(told.is_err_and(|error| error.is_unknown()));
    assert!(claims(&server).iter().any(own), "not carried out");
    revoke_all(&server);
    proxy.heal().unwrap();
    // This one finds out that the lease is gone, and gets another one.
    let end = Instant::now() + SOON;
    while backend.enter(&long("next"), Entry::Queue).await.is_err() {
        assert!(Instant::now() < end, "no way back");
    }
    proxy.lose(ReplyLoss::all()).unwrap();
    let told = backend.enter(&lost, Entry::Queue).await;
    assert!(told.is_err_and(|error| error.is_unknown()));
    assert!(claims(&server).iter().any(own), "not carried out");
    proxy.heal().unwrap();
    while backend.release(&lost).await.is_err() {
        assert!(Instant::now() < end, "not released");
    }
    // At once, or from behind if it was over here already; the other claims keep the lease alive.
    let end = Instant::now() + SOON;
    while claims(&server).iter().any(own) {
        assert!(Instant::now() < end, "its key is still there");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    drop(backend);
    assert_nothing_left(&server).await;
}

/// A keeper that is gone leaves no work behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keeper_that_is_gone_leaves_no_task() {
    let server = Etcd::start().unwrap();
    let config = Config::from_url(&url(&[server.address()])).unwrap();
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    for _ in 0..5 {
        drop(connect(&config, Clock::system()).await.unwrap());
    }
    let end = Instant::now() + SOON;
    while tasks() > before {
        assert!(Instant::now() < end, "{} are left", tasks() - before);
        sleep(Duration::from_millis(50)).await;
    }
}
