//! Nodes that are slow, and replies that are lost after the node has done what was asked.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Released};
use lockkeeper_testbed::{Redis, RedisFive, ReplyLoss};

use crate::stage::{
    LONG, SOON, backend, behind_proxies, claim, insist, keeper, keys_left, locked_on, new_set,
    order, reconnect, until,
};

// proves: Q2
#[tokio::test]
async fn one_slow_node_slows_nobody() {
    let (_five, proxies, url) = behind_proxies();
    let backend = backend(&url).await;
    proxies[1].delay(Duration::from_secs(1)).unwrap();
    let start = Instant::now();
    for _ in 0..5 {
        let a = claim(LONG);
        order(backend.enter(&a, Entry::Queue).await.unwrap());
        assert_eq!(backend.release(&a).await.unwrap(), Released::Freed);
    }
    let took = start.elapsed();
    assert!(took < Duration::from_secs(1), "five rounds took {took:?}");
}

// proves: F1, L5
#[tokio::test]
async fn entering_again_keeps_the_number_although_the_fast_nodes_have_lost_it() {
    let (five, proxies, url) = behind_proxies();
    let backend = backend(&url).await;
    let a = claim(LONG);
    let first = order(backend.enter(&a, Entry::Queue).await.unwrap());
    until("all nodes have it", || locked_on(&five) == 5).await;
    for node in &five.nodes()[..2] {
        node.ask(&["DEL", "redlock:lock:n"]).unwrap();
    }
    // Two of the three that still have it answer last.
    for proxy in &proxies[3..] {
        proxy.delay(Duration::from_millis(100)).unwrap();
    }
    let again = order(insist(|| backend.enter(&a, Entry::Queue)).await);
    assert_eq!(again, first, "a number that was told does not change");
}

// proves: L5, Q1
// bug 58, bug 64, bug 65
#[tokio::test]
async fn replies_lost_by_a_minority_do_not_matter() {
    let (five, proxies, url) = behind_proxies();
    let backend = backend(&url).await;
    for proxy in &proxies[..2] {
        proxy.lose(ReplyLoss::all()).unwrap();
    }
    let (a, b) = (claim(LONG), claim(LONG));
    order(backend.enter(&a, Entry::Queue).await.unwrap());
    assert_eq!(backend.release(&a).await.unwrap(), Released::Freed);
    until("nothing is left", || keys_left(&five) == 0).await;
    order(backend.enter(&b, Entry::Queue).await.unwrap());
    assert_eq!(backend.release(&b).await.unwrap(), Released::Freed);
}

// proves: L5, Q1
// bug 58, bug 63, bug 64, bug 65
#[tokio::test]
async fn replies_lost_by_a_majority_leave_the_outcome_unknown_and_nothing_held() {
    let (five, proxies, url) = behind_proxies();
    let backend = backend(&url).await;
    let a = claim(LONG);
    for proxy in &proxies[..3] {
        proxy.lose(ReplyLoss::all()).unwrap();
    }
    let error = backend.enter(&a, Entry::Try).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    // Given back everywhere, long before its lease has ended.
    until("nothing is left", || keys_left(&five) == 0).await;
    for proxy in &proxies {
        proxy.heal().unwrap();
    }
    let token = order(insist(|| backend.enter(&a, Entry::Try)).await);
    assert_eq!(order(backend.enter(&a, Entry::Try).await.unwrap()), token);
    insist(|| backend.release(&a)).await;
    until("nothing is left", || keys_left(&five) == 0).await;
}

// proves: Q1, L6
// bug 27, bug 63
#[tokio::test]
async fn a_grant_that_comes_too_late_is_given_back() {
    let (five, proxies, url) = behind_proxies();
    let backend = backend(&url).await;
    for proxy in &proxies[..3] {
        proxy.delay_replies(Duration::from_millis(1500)).unwrap();
    }
    // The nodes grant at once, but their answers come later than a small part of the lease.
    let a = claim(Duration::from_secs(6));
    let start = Instant::now();
    let told = backend.enter(&a, Entry::Try).await;
    assert!(told.is_err(), "{told:?}");
    until("nothing is left", || keys_left(&five) == 0).await;
    assert!(start.elapsed() < Duration::from_secs(5), "its lease ended");
}

// proves: L9, Q1
// bug 8, bug 52, bug 63
#[tokio::test]
async fn a_cancelled_acquire_leaves_nothing_on_any_node() {
    let (five, proxies, url) = behind_proxies();
    let keeper = keeper(&url, LONG).await;
    for proxy in &proxies {
        proxy.delay(Duration::from_millis(3)).unwrap();
    }
    for millis in 0..24 {
        let moment = Duration::from_millis(millis);
        match tokio::time::timeout(moment, keeper.lock("n").acquire()).await {
            Ok(guard) => drop(guard.unwrap()),
            Err(_cancelled) => {}
        }
        until("nothing is left", || keys_left(&five) == 0).await;
    }
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    guard.release().await.unwrap();
    until("nothing is left", || keys_left(&five) == 0).await;
}

// The question waits in the sockets of stopped nodes when their connections are given up; a release that
// finds them down comes after it all the same.
// proves: L9, Q1
// bug 63
#[tokio::test]
async fn a_release_reaches_nodes_that_were_away() {
    let five = RedisFive::start().unwrap();
    let backend = backend(&new_set(&five, "60s")).await;
    for node in &five.nodes()[..3] {
        node.server().pause().unwrap();
    }
    let (a, other) = (claim(LONG), claim(LONG));
    let cancelled = Duration::from_millis(100);
    let told = tokio::time::timeout(cancelled, backend.enter(&a, Entry::Try)).await;
    assert!(told.is_err(), "{told:?}");
    // Until the silent connections are given up.
    for _ in 0..4 {
        assert!(backend.enter(&other, Entry::Try).await.is_err());
    }
    assert!(backend.release(&a).await.is_err());
    assert!(backend.release(&other).await.is_err());
    for node in &five.nodes()[..3] {
        node.server().resume().unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    until("nothing is left", || keys_left(&five) == 0).await;
}

// Whatever was published while the connection was down is lost, so waiters look when it is up again.
// proves: W5
// bug 39
#[tokio::test]
async fn waiters_look_when_connections_are_back() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let (one, two) = (backend(&url).await, keeper(&url, LONG).await);
    order(insist(async || one.enter(&claim(LONG), Entry::Try).await).await);
    let waiting = tokio::spawn(async move { two.lock("n").acquire_within(SOON).await });
    let waits = |node: &Redis| node.ask(&["HLEN", "redlock:wait:n"]).unwrap().text() == "1";
    until("it waits", || five.nodes().iter().all(waits)).await;
    for node in five.nodes() {
        node.ask(&["DEL", "redlock:lock:n"]).unwrap();
        reconnect(node);
    }
    let guard = waiting.await.unwrap().unwrap();
    guard.release().await.unwrap();
}
