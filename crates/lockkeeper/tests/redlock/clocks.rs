//! Nodes whose wall clocks jump: Redis ends leases by them.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Standing};
use lockkeeper_testbed::{RedisFive, Setup};

use crate::stage::{LONG, backend, claim, insist, locked_on, new_set, order};

const HOUR: Duration = Duration::from_secs(3600);

// proves: L1, Q1
// bug 31
#[tokio::test]
async fn the_clocks_of_two_of_five_may_jump() {
    let five = RedisFive::start_with(&Setup::new().movable_clock()).unwrap();
    let url = new_set(&five, "60s");
    let (first, second) = (backend(&url).await, backend(&url).await);
    let (a, b) = (claim(LONG), claim(LONG));
    let token = order(first.enter(&a, Entry::Try).await.unwrap());
    for forward in [true, false, false, true] {
        for node in &five.nodes()[..2] {
            let clock = node.server().clock().unwrap();
            match forward {
                true => clock.forward(HOUR).unwrap(),
                false => clock.back(HOUR).unwrap(),
            }
        }
        for _ in 0..5 {
            assert_eq!(second.enter(&b, Entry::Try).await.unwrap(), Standing::Gone);
        }
        let claims = [a.clone()];
        let told = first.renew(&claims).await.unwrap();
        assert_eq!(order(told[0]), token, "it still holds");
    }
    // By this renewal or a later one: the other's claim may have been there still, on its way out.
    let limit = Instant::now() + LONG;
    while locked_on(&five) < 5 {
        assert!(Instant::now() < limit, "never put back where it ended");
        let told = first.renew(std::slice::from_ref(&a)).await.unwrap();
        assert_eq!(order(told[0]), token, "it still holds");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

// The guarantees say so: with two nodes down at the grant, one clock that jumps makes two holders.
#[tokio::test]
async fn the_clock_of_one_node_may_not_jump_when_the_majority_is_bare() {
    let five = RedisFive::start_with(&Setup::new().durable().movable_clock()).unwrap();
    let url = new_set(&five, "60s");
    let first = backend(&url).await;
    for node in &five.nodes()[3..] {
        node.server().kill().unwrap();
    }
    let (a, b) = (claim(LONG), claim(LONG));
    let old = order(insist(|| first.enter(&a, Entry::Try)).await);
    for node in &five.nodes()[3..] {
        node.server().restart().unwrap();
    }
    let clock = five.nodes()[2].server().clock().unwrap();
    clock.forward(HOUR).unwrap();
    let second = backend(&url).await;
    let new = order(insist(|| second.enter(&b, Entry::Try)).await);
    assert!(new > old, "at least a fence can tell them apart");
    let said = &second.guarantees().class_reason;
    assert!(said.contains("a node's clock that jumps"), "{said}");
}

// A majority of clocks that jump makes two holders always. So the first test can fail.
#[tokio::test]
async fn the_clocks_of_three_of_five_may_not() {
    let five = RedisFive::start_with(&Setup::new().movable_clock()).unwrap();
    let url = new_set(&five, "60s");
    let (first, second) = (backend(&url).await, backend(&url).await);
    let (a, b) = (claim(LONG), claim(LONG));
    let old = order(first.enter(&a, Entry::Try).await.unwrap());
    for node in &five.nodes()[..3] {
        node.server().clock().unwrap().forward(HOUR).unwrap();
    }
    // A node that answers late has no vote, and there is none to spare.
    let limit = Instant::now() + LONG;
    let new = loop {
        match second.enter(&b, Entry::Try).await.unwrap() {
            Standing::Holds { order, .. } => break order,
            other => assert!(Instant::now() < limit, "it does not hold: {other:?}"),
        }
    };
    assert!(new > old, "at least a fence can tell them apart");
}
