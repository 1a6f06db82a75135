//! Nodes that are killed, emptied, restarted.

use std::time::{Duration, Instant};

use lockkeeper::Error;
use lockkeeper::backend::{Entry, Standing};
use lockkeeper_testbed::{Redis, RedisFive};

use crate::stage::{
    LEASE, LONG, SOON, backend, claim, insist, keeper, locked_on, new_set, order, until, url,
};

// proves: Q1, Q2
#[tokio::test]
async fn two_of_five_killed_and_emptied_change_nothing() {
    let five = RedisFive::start().unwrap();
    let keeper = keeper(&new_set(&five, "60s"), LEASE).await;
    let mut last = keeper.lock("n").acquire_within(SOON).await.unwrap();
    for step in ["dead", "empty"] {
        for node in &five.nodes()[3..] {
            match step {
                "dead" => node.server().kill().unwrap(),
                _ => node.server().restart().unwrap(),
            }
        }
        last.check()
            .unwrap_or_else(|error| panic!("{step}: {error}"));
        tokio::time::sleep(2 * LEASE).await;
        last.check()
            .unwrap_or_else(|error| panic!("{step}: {error}"));
        let token = last.token();
        last.release().await.unwrap();
        last = keeper.lock("n").acquire_within(SOON).await.unwrap();
        assert!(last.token() > token, "{step}");
    }
}

// proves: Q1, L9
#[tokio::test]
async fn three_of_five_killed_are_told_apart_within_the_wait() {
    let five = RedisFive::start().unwrap();
    let keeper = keeper(&new_set(&five, "60s"), LEASE).await;
    let held = keeper.lock("held").acquire_within(SOON).await.unwrap();
    for node in &five.nodes()[..3] {
        node.server().kill().unwrap();
    }
    let start = Instant::now();
    let error = keeper.lock("n").acquire_within(SOON).await.unwrap_err();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("2 of 5 nodes vote and 3 are needed"),
        "{text}"
    );
    for node in &five.nodes()[..3] {
        assert!(text.contains(&node.address().to_string()), "{text}");
    }
    tokio::time::timeout(SOON, held.lost()).await.expect("told");
    let start = Instant::now();
    let error = keeper.lock("other").try_acquire().await.unwrap_err();
    assert!(error.is_unknown() && start.elapsed() < LEASE, "{error}");
}

/// Nodes 4 and 5 are down while the first claim takes 1, 2 and 3. Then 3 is restarted without its data,
/// and 4 and 5 come back.
async fn the_classic_story() -> (RedisFive, String, u64) {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let first = backend(&url).await;
    for node in &five.nodes()[3..] {
        node.server().kill().unwrap();
    }
    let a = claim(LONG);
    let token = order(insist(|| first.enter(&a, Entry::Try)).await);
    for node in &five.nodes()[2..] {
        node.server().restart().unwrap();
    }
    (five, url, token)
}

// proves: Q5
#[tokio::test]
async fn a_node_restarted_without_its_data_abstains() {
    let (_five, url, _) = the_classic_story().await;
    let second = backend(&url).await;
    let b = claim(LONG);
    for _ in 0..10 {
        let error = second.enter(&b, Entry::Try).await.unwrap_err();
        assert!(error.is_unknown(), "{error}");
        assert!(
            error.to_string().contains("abstains for another"),
            "{error}"
        );
    }
}

// The same with commands as other Redlock libraries send them, and with the abstention taken away by hand:
// the story is real, and the test before this one can fail.
#[tokio::test]
async fn without_abstention_the_story_ends_with_two_holders() {
    let (five, url, token) = the_classic_story().await;
    let naive = |node: &&Redis| {
        let told = node.ask(&["SET", "naive", "b", "NX", "PX", "60000"]);
        told.is_ok_and(|told| told.text() == "OK")
    };
    assert_eq!(five.nodes()[2..].iter().filter(naive).count(), 3);
    let second = backend(&url).await;
    for node in &five.nodes()[2..] {
        let seen = token.to_string();
        node.ask(&["HSET", "redlock:node", "floor", &seen]).unwrap();
    }
    let b = claim(LONG);
    order(insist(|| second.enter(&b, Entry::Try)).await);
}

// proves: Q4, Q5
// bug 68
#[tokio::test]
async fn a_hold_survives_the_restart_of_one_node_after_the_other() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "3s");
    let keeper = keeper(&url, LEASE).await;
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    let token = guard.token();
    for node in five.nodes() {
        node.server().restart().unwrap();
        until("the claim is put back on the node", || {
            locked_on(&five) == 5
        })
        .await;
    }
    guard.check().unwrap();
    assert_eq!(guard.token(), token);
    guard.release().await.unwrap();
    // Every node has lost its counters, and the token still rises.
    let guard = insist(|| keeper.lock("n").acquire_within(SOON)).await;
    assert!(guard.token() > token);
}

// proves: Q6, F1
#[tokio::test]
async fn the_token_rises_when_all_nodes_are_emptied_at_once() {
    let five = RedisFive::start().unwrap();
    let keeper = keeper(&new_set(&five, "2s"), LEASE).await;
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    let token = guard.token();
    for node in five.nodes() {
        node.server().restart().unwrap();
    }
    let start = Instant::now();
    let next = insist(|| keeper.lock("other").acquire_within(SOON)).await;
    assert!(start.elapsed() > Duration::from_secs(1), "nobody rested");
    assert!(next.token() > token);
    assert!(guard.check().is_err(), "its hold was forgotten");
}

// proves: Q5
#[tokio::test]
async fn a_new_set_rests_first_and_says_for_how_long() {
    let five = RedisFive::start().unwrap();
    let backend = backend(&url(&five.addresses(), "longest-lease=2s")).await;
    let a = claim(Duration::from_secs(1));
    let error = backend.enter(&a, Entry::Try).await.unwrap_err();
    assert!(
        error.to_string().contains("abstains for another"),
        "{error}"
    );
    order(insist(|| backend.enter(&a, Entry::Try)).await);
}

// proves: Q5
#[tokio::test]
async fn a_node_that_keeps_its_data_votes_after_a_restart() {
    let five = RedisFive::start_with(&lockkeeper_testbed::Setup::new().durable()).unwrap();
    let backend = backend(&new_set(&five, "60s")).await;
    let (a, b) = (claim(LONG), claim(LONG));
    order(backend.enter(&a, Entry::Try).await.unwrap());
    for node in five.nodes() {
        node.server().restart().unwrap();
    }
    assert_eq!(
        insist(|| backend.enter(&b, Entry::Try)).await,
        Standing::Gone
    );
    insist(|| backend.release(&a)).await;
    order(insist(|| backend.enter(&b, Entry::Try)).await);
}

// proves: Q5
#[tokio::test]
async fn a_node_emptied_by_hand_abstains_too() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let (first, second) = (backend(&url).await, backend(&url).await);
    let (a, b) = (claim(LONG), claim(LONG));
    order(first.enter(&a, Entry::Try).await.unwrap());
    for node in &five.nodes()[..3] {
        node.ask(&["FLUSHALL"]).unwrap();
    }
    let told = second.enter(&b, Entry::Try).await;
    assert!(!matches!(told, Ok(Standing::Holds { .. })), "{told:?}");
}

// bug 72
#[tokio::test]
async fn scripts_that_are_forgotten_are_brought_back() {
    let five = RedisFive::start().unwrap();
    let backend = backend(&new_set(&five, "60s")).await;
    let mut last = 0;
    for _ in 0..5 {
        for node in five.nodes() {
            node.ask(&["SCRIPT", "FLUSH"]).unwrap();
        }
        let a = claim(LONG);
        let token = order(insist(|| backend.enter(&a, Entry::Try)).await);
        assert!(token > last);
        last = token;
        insist(|| backend.release(&a)).await;
    }
}
