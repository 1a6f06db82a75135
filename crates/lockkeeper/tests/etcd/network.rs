//! The network between keeper and server: it flaps, it loses answers, it delivers late.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{Etcd, Proxy, ReplyLoss};
use tokio::time::{sleep, timeout};

use crate::stage::{SOON, acquires, all_leave, claims, keeper, until_waiting};

const LEASE: Duration = Duration::from_secs(10);

// bug 39, bug 44
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_flaps_while_waiting() {
    let server = Etcd::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let (one, two) = (
        keeper(&[server.address()]).await,
        keeper(&[proxy.address()]).await,
    );
    let guard = acquires(one.lock("a").lease(LEASE)).await;
    let waiting = tokio::spawn(acquires(two.lock("a").lease(LEASE)));
    until_waiting(&one, "a", 1).await;
    for _ in 0..20 {
        proxy.cut().unwrap();
        sleep(Duration::from_millis(100)).await;
        proxy.heal().unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    assert!(!waiting.is_finished(), "two holders");
    guard.check().expect("another link");
    let token = guard.token();
    let start = Instant::now();
    guard.release().await.expect("released");
    let next = timeout(SOON, waiting).await.unwrap().expect("granted");
    assert!(
        start.elapsed() < LEASE,
        "no push came: {:?}",
        start.elapsed()
    );
    assert!(next.token() > token, "the token rises");
    next.release().await.expect("released");
    all_leave([one, two], &server).await;
}

/// The watch is cut off just when the lock is released: reading the list again finds it.
// bug 37, bug 38
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_while_the_watch_is_cut_off() {
    let server = Etcd::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let (one, two) = (
        keeper(&[server.address()]).await,
        keeper(&[proxy.address()]).await,
    );
    for _ in 0..10 {
        let guard = acquires(one.lock("a").lease(LEASE)).await;
        let waiting = tokio::spawn(acquires(two.lock("a").lease(LEASE)));
        until_waiting(&one, "a", 1).await;
        proxy.cut().unwrap();
        guard.release().await.expect("released");
        proxy.heal().unwrap();
        let start = Instant::now();
        let next = timeout(SOON, waiting).await.unwrap().expect("granted");
        assert!(start.elapsed() < LEASE / 3, "told by a renewal only");
        next.release().await.expect("released");
    }
    all_leave([one, two], &server).await;
}

// bug 58, bug 64
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_find_their_own_claim() {
    let server = Etcd::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let (one, two) = (
        keeper(&[proxy.address()]).await,
        keeper(&[server.address()]).await,
    );
    acquires(one.lock("b").lease(LEASE))
        .await
        .release()
        .await
        .expect("released");
    for round in 0..6 {
        proxy.lose(ReplyLoss::next(1).reset()).unwrap();
        let guard = acquires(one.lock("a").lease(LEASE)).await;
        guard.check().expect("held");
        assert!(
            two.lock("a").try_acquire().await.unwrap().is_none(),
            "two holders"
        );
        if round % 2 == 0 {
            proxy.lose(ReplyLoss::next(1).reset()).unwrap();
        }
        // Released, or the answer was lost: then the keeper goes on by itself.
        if let Err(error) = guard.release().await {
            assert!(error.is_unknown(), "{error}");
        }
        acquires(two.lock("a").lease(LEASE))
            .await
            .release()
            .await
            .expect("released");
        proxy.heal().unwrap();
    }
    assert!(proxy.lost_replies() > 0, "no answer was lost");
    all_leave([one, two], &server).await;
}

/// What was sent before the caller gave up arrives after the keeper has withdrawn the claim. It must not make
/// a key which the keeper, whose lease is kept alive by another hold, would keep alive for ever.
// bug 58, bug 63
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_arrives_too_late_leaves_nothing() {
    let server = Etcd::start().unwrap();
    // Two ways to the same server, one of which gets slow.
    let slow = Proxy::to(server.address()).unwrap();
    let members = [slow.address(), server.address()];
    for entry in 0..3 {
        slow.heal().unwrap();
        let one = loop {
            let one = keeper(&members).await;
            // Keepers begin at either.
            if !slow.clients().is_empty() {
                break one;
            }
        };
        let held = acquires(one.lock("held").lease(LEASE)).await;
        slow.delay_requests(Duration::from_secs(6)).unwrap();
        let lock = one.lock("a").lease(LEASE);
        let told = match entry {
            0 => lock
                .acquire_within(Duration::from_millis(500))
                .await
                .map(Some),
            _ => lock.try_acquire().await,
        };
        drop(told);
        sleep(Duration::from_secs(8)).await;
        held.check().expect("kept, on whichever way");
        let left = claims(&server);
        assert_eq!(left.len(), 1, "a late entry is kept alive: {left:?}");
        held.release().await.expect("released");
        all_leave([one], &server).await;
    }
}
