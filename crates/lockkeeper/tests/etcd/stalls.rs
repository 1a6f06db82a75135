//! Members of three that stall for longer than the lease, and a holder that does: whoever holds knows in time that it
//! does not any more, or is carried over to another member, and nobody else holds meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper::{Guard, HoldState, Keeper};
use lockkeeper_testbed::{Etcd, EtcdThree};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::cluster::{follower, gives_back, patient};
use crate::leases::sleeps_through_its_lease;
use crate::stage::{
    SOON, acquires, all_leave, assert_nothing_left, keeper, until_waiting, watches,
};

const LEASE: Duration = Duration::from_secs(6);

/// Whoever comes next, and that the one before knew by then.
fn next_in_line(guard: &Arc<Guard>, keeper: &Keeper, lease: Duration) -> JoinHandle<Guard> {
    let (before, lock) = (guard.clone(), keeper.lock("a").lease(lease));
    tokio::spawn(async move {
        let next = acquires(lock).await;
        before.check().expect_err("two holders");
        assert!(next.token() > before.token(), "the token rises");
        next
    })
}

/// It is at risk first, and lost no later than it promises now, as the stall begins; nor than it may promise.
async fn is_told_in_time(guard: &Guard) {
    let deadline = Instant::now() + guard.remaining().min(LEASE);
    let state = timeout(SOON, guard.changed_from(&HoldState::Held)).await;
    assert_eq!(state.expect("told"), HoldState::AtRisk);
    timeout(SOON, guard.lost()).await.expect("told");
    let late = Instant::now().saturating_duration_since(deadline);
    assert!(late < Duration::from_secs(1), "told {late:?} too late");
}

/// The second holder releases; what the first one does now touches nobody.
async fn ends(guard: Arc<Guard>, next: JoinHandle<Guard>) {
    let next = timeout(2 * SOON, next).await.expect("in time");
    let next = next.expect("granted");
    let guard = Arc::into_inner(guard).expect("the only one");
    assert!(guard.release().await.is_err(), "what is lost stays lost");
    next.check().expect("a late release does not touch it");
    gives_back(next).await;
}

async fn nobody_left_anything(keepers: [Keeper; 2], three: &EtcdThree) {
    all_leave(keepers, &three.nodes()[0]).await;
    for node in &three.nodes()[1..] {
        assert_nothing_left(node).await;
    }
}

/// A holder that knows one member only, which stalls. The others go on, and let the next one in when the lease ends.
// proves: L1, L7, W2, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_member_that_the_holder_knows_stalls() {
    let three = patient();
    let stalled = follower(&three);
    let others = three.addresses().into_iter();
    let others: Vec<_> = others.filter(|at| *at != stalled.address()).collect();
    let (one, two) = (keeper(&[stalled.address()]).await, keeper(&others).await);
    let guard = Arc::new(acquires(one.lock("a").lease(LEASE)).await);
    let next = next_in_line(&guard, &two, LEASE);
    until_waiting(&two, "a", 1).await;
    stalled.server().pause().unwrap();
    is_told_in_time(&guard).await;
    let told = one.lock("b").try_acquire().await;
    assert!(told.is_err_and(|error| error.is_unknown()), "who answered?");
    let next = timeout(2 * SOON, next).await.expect("the others let it in");
    stalled.server().resume().unwrap();
    ends(guard, tokio::spawn(async { next.expect("granted") })).await;
    nobody_left_anything([one, two], &three).await;
}

/// The member that serves the only keeper there is.
async fn serving(three: &EtcdThree) -> &Etcd {
    let end = Instant::now() + SOON;
    loop {
        if let Some(node) = three.nodes().iter().find(|node| watches(node) > 0.0) {
            return node;
        }
        assert!(Instant::now() < end, "nobody serves it");
        sleep(Duration::from_millis(50)).await;
    }
}

/// A holder that knows all three: another member carries it over, whatever its own one was.
// proves: L1, W1, W2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holders_member_stalls_and_another_one_carries_it_over() {
    // Long enough to notice, and for an election if it was the leader.
    let lease = 2 * LEASE;
    let three = patient();
    let one = keeper(&three.addresses()).await;
    let guard = Arc::new(acquires(one.lock("a").lease(lease)).await);
    let stalled = serving(&three).await;
    let others = three.addresses().into_iter();
    let others: Vec<_> = others.filter(|at| *at != stalled.address()).collect();
    let two = keeper(&others).await;
    let lock = two.lock("a").lease(lease);
    let next = tokio::spawn(acquires(lock));
    until_waiting(&two, "a", 1).await;
    stalled.server().pause().unwrap();
    sleep(lease + LEASE / 2).await;
    guard.check().expect("carried over");
    assert!(!next.is_finished(), "two holders");
    stalled.server().resume().unwrap();
    let token = guard.token();
    gives_back(Arc::into_inner(guard).expect("the only one")).await;
    let next = timeout(SOON, next).await.expect("in time");
    let next = next.expect("granted");
    assert!(next.token() > token, "the token rises");
    gives_back(next).await;
    nobody_left_anything([one, two], &three).await;
}

/// A keeper that knows all three, and is served by this one.
async fn served_by(node: &Etcd, three: &EtcdThree) -> Keeper {
    let end = Instant::now() + SOON;
    loop {
        let one = keeper(&three.addresses()).await;
        gives_back(acquires(one.lock("own").lease(LEASE)).await).await;
        if std::ptr::eq(serving(three).await, node) {
            return one;
        }
        assert!(Instant::now() < end, "never served by {}", node.address());
        all_leave([one], &three.nodes()[0]).await;
        for node in three.nodes() {
            assert_nothing_left(node).await;
        }
    }
}

/// A waiter's own member stalls, and with it the watch that would have told. It is let in through another member when it
/// is renewed there, long before anybody notices that the watch is silent.
// proves: W2, L9
// bug 37
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_waiters_member_stalls_and_another_one_lets_it_in() {
    let three = patient();
    let stalled = follower(&three);
    let two = served_by(stalled, &three).await;
    let others = three.addresses().into_iter();
    let others: Vec<_> = others.filter(|at| *at != stalled.address()).collect();
    let one = keeper(&others).await;
    let guard = acquires(one.lock("a").lease(LEASE)).await;
    let next = tokio::spawn(acquires(two.lock("a").lease(LEASE)));
    until_waiting(&one, "a", 1).await;
    // Until its watches stand.
    sleep(Duration::from_millis(300)).await;
    stalled.server().pause().unwrap();
    let start = Instant::now();
    gives_back(guard).await;
    let next = timeout(SOON, next).await.expect("in time");
    let next = next.expect("granted");
    let took = start.elapsed();
    assert!(took < LEASE * 3 / 4, "let in after {took:?}");
    stalled.server().resume().unwrap();
    gives_back(next).await;
    nobody_left_anything([one, two], &three).await;
}

// proves: L1, L7, W2, F1
// bug 69
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_members_stall() {
    let three = patient();
    let (one, two) = (
        keeper(&three.addresses()).await,
        keeper(&three.addresses()).await,
    );
    let guard = Arc::new(acquires(one.lock("a").lease(LEASE)).await);
    let next = next_in_line(&guard, &two, LEASE);
    until_waiting(&two, "a", 1).await;
    three
        .nodes()
        .iter()
        .for_each(|node| node.server().pause().unwrap());
    is_told_in_time(&guard).await;
    assert!(!next.is_finished(), "nobody is there to let it in");
    three
        .nodes()
        .iter()
        .for_each(|node| node.server().resume().unwrap());
    ends(guard, next).await;
    nobody_left_anything([one, two], &three).await;
}

// proves: L3, L7, F1
// bug 33
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_sleeps_through_its_lease() {
    let three = patient();
    sleeps_through_its_lease(&three.addresses()).await;
    for node in three.nodes() {
        assert_nothing_left(node).await;
    }
}
