//! Three members: the leader dies, a follower dies, the leader is paused, only a minority is left, all links flap
//! and the leader's clock jumps.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use lockkeeper::{Guard, Lock};
use lockkeeper_testbed::{Etcd, EtcdThree, Proxy, Setup};
use tokio::time::{sleep, timeout};

use crate::stage::{
    LEASE, SOON, acquires, all_leave, assert_nothing_left, keeper, metric, until_waiting,
};

/// Three members with the usual election timeout: shorter ones lose their leader on a busy machine.
pub(crate) fn patient() -> EtcdThree {
    EtcdThree::start_with(&usual()).unwrap()
}

pub(crate) fn usual() -> Setup {
    let setup = Setup::new().setting("heartbeat-interval", "100");
    setup.setting("election-timeout", "1000")
}

/// Released, or without an answer: then the keeper goes on by itself.
pub(crate) async fn gives_back(guard: Guard) {
    if let Err(error) = guard.release().await {
        assert!(error.is_unknown(), "{error}");
    }
}

pub(crate) fn leader(three: &EtcdThree) -> &Etcd {
    let end = Instant::now() + SOON;
    loop {
        if let Some(leader) = three.leader() {
            return leader;
        }
        assert!(Instant::now() < end, "no leader");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn follower(three: &EtcdThree) -> &Etcd {
    let leader = leader(three).address();
    let mut others = three.nodes().iter();
    others.find(|node| node.address() != leader).unwrap()
}

/// A holder and a waiter live through the loss of a member.
async fn survives_the_loss_of(three: &EtcdThree, lost: &Etcd) {
    let members = three.addresses();
    let mut keepers = Vec::new();
    // Some of them are connected to the member that dies.
    for _ in 0..4 {
        keepers.push(keeper(&members).await);
    }
    let lease = Duration::from_secs(6);
    let guard = acquires(keepers[0].lock("a").lease(lease)).await;
    let mut tasks = tokio::task::JoinSet::new();
    // As they are granted: one whose release is answered late ends later than its successor.
    let tokens = Arc::new(Mutex::new(vec![guard.token()]));
    for keeper in &keepers[1..] {
        let (lock, tokens) = (keeper.lock("a").lease(lease), tokens.clone());
        tasks.spawn(async move {
            let guard = acquires(lock).await;
            tokens.lock().unwrap().push(guard.token());
            gives_back(guard).await;
        });
    }
    until_waiting(&keepers[0], "a", 3).await;
    lost.server().kill().unwrap();
    sleep(lease).await;
    guard.check().expect("kept by the others");
    assert!(tasks.try_join_next().is_none(), "two holders");
    gives_back(guard).await;
    while let Some(ended) = timeout(SOON, tasks.join_next()).await.expect("in time") {
        ended.expect("granted");
    }
    let tokens = tokens.lock().unwrap().clone();
    assert!(tokens.is_sorted_by(|a, b| a < b), "the token rises");
    lost.server().restart().unwrap();
    all_leave(keepers, lost).await;
}

// proves: L1, W2, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_is_killed() {
    let three = patient();
    survives_the_loss_of(&three, leader(&three)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_is_killed() {
    let three = patient();
    survives_the_loss_of(&three, follower(&three)).await;
}

// proves: L1, L7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_grants_nothing() {
    let three = patient();
    let members = three.addresses();
    let (one, two) = (keeper(&members).await, keeper(&members).await);
    let guard = acquires(one.lock("a").lease(LEASE)).await;
    let (token, deadline) = (guard.token(), Instant::now() + guard.remaining());
    let [gone, also_gone, _left] = three.nodes() else {
        panic!("three members");
    };
    gone.server().pause().unwrap();
    also_gone.server().pause().unwrap();
    let lost_at = async {
        timeout(SOON, guard.lost()).await.expect("reported");
        Instant::now()
    };
    let (lost_at, told) = tokio::join!(lost_at, two.lock("b").try_acquire());
    assert!(
        matches!(&told, Err(error) if error.is_unknown()),
        "{told:?}"
    );
    assert!(lost_at < deadline + LEASE, "reported too late");
    let told = two.lock("a").acquire_within(Duration::from_secs(1)).await;
    assert!(told.is_err(), "a minority granted");
    gone.server().resume().unwrap();
    also_gone.server().resume().unwrap();
    let next = acquires(two.lock("a")).await;
    assert!(next.token() > token, "the token rises");
    assert!(guard.release().await.is_err(), "what is lost stays lost");
    next.check().expect("a late release does not touch it");
    gives_back(next).await;
    // What was asked of the minority may be there or not, and nobody said for longer than its lease: it is named, and must
    // be gone all the same.
    for keeper in [one, two] {
        let closing = keeper.close().await;
        let named = closing.not_released.iter();
        let mut strangers = named.filter(|left| !["a", "b"].contains(&left.name.as_str()));
        assert!(strangers.next().is_none(), "{closing:?}");
    }
    assert_nothing_left(gone).await;
}

/// Leases that this member has ended because their time was over, by its clock.
fn ended_by(member: &Etcd) -> f64 {
    metric(member, "etcd_debugging_server_lease_expired_total", "")
}

/// Whoever comes next, and whether the one before did not know of its end by then. It must know soon.
async fn comes_next(lock: Lock, before: Weak<Guard>) -> (Guard, bool) {
    let next = acquires(lock).await;
    let before = before.upgrade().filter(|before| before.check().is_ok());
    if let Some(before) = &before {
        timeout(Duration::from_secs(1), before.lost())
            .await
            .expect("the loss is told");
    }
    (next, before.is_some())
}

/// A leader that wakes up may have leases ended that its successor keeps alive. No client can prevent it, and the next
/// holder may hear of it milliseconds before the last one: the caveats say so. That alone is an excuse for two holders.
// proves: F1
// bug 69
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stalled_makes_no_two_holders_unless_it_ends_a_lease() {
    let three = patient();
    let members = three.addresses();
    let (one, two) = (keeper(&members).await, keeper(&members).await);
    let mut caveats = one.guarantees().caveats.iter();
    assert!(caveats.any(|caveat| caveat.contains("leader that was stalled")));
    for _ in 0..3 {
        let guard = Arc::new(acquires(one.lock("a").lease(LEASE)).await);
        let lock = two.lock("a").lease(LEASE);
        let waiting = tokio::spawn(comes_next(lock, Arc::downgrade(&guard)));
        until_waiting(&one, "a", 1).await;
        let stalled = leader(&three);
        let ended = ended_by(stalled);
        stalled.server().pause().unwrap();
        sleep(LEASE + Duration::from_secs(1)).await;
        stalled.server().resume().unwrap();
        sleep(LEASE).await;
        let token = guard.token();
        if let Some(guard) = Arc::into_inner(guard) {
            let _lost_or_not = guard.release().await;
        }
        let next = timeout(SOON, waiting).await.expect("in time");
        let (next, both) = next.expect("granted");
        let excused = ended_by(stalled) > ended;
        assert!(!both || excused, "two holders, and no lease was ended");
        assert!(next.token() > token, "the token rises");
        // Its lease may have been ended too.
        let _lost_or_not = next.release().await;
    }
    all_leave([one, two], &three.nodes()[0]).await;
}

/// A waiter's links to all members are cut and healed every 100 ms, and the leader's wall clock moves by an hour: the
/// holder holds on, and the waiter is told when its turn comes.
// proves: L1, W5
// bug 28, bug 39, bug 44
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_flap_and_a_clock_that_jumps() {
    let three = EtcdThree::start_with(&usual().movable_clock()).unwrap();
    let members = three.addresses();
    let proxies: Vec<Proxy> = members.iter().map(|it| Proxy::to(*it).unwrap()).collect();
    let behind: Vec<_> = proxies.iter().map(Proxy::address).collect();
    let (one, two) = (keeper(&members).await, keeper(&behind).await);
    let lease = Duration::from_secs(12);
    let guard = acquires(one.lock("a").lease(lease)).await;
    let waiting = tokio::spawn(acquires(two.lock("a").lease(lease)));
    until_waiting(&one, "a", 1).await;
    let clock = leader(&three).server().clock().unwrap();
    clock.forward(Duration::from_secs(3600)).unwrap();
    for _ in 0..20 {
        proxies.iter().for_each(|proxy| proxy.cut().unwrap());
        sleep(Duration::from_millis(100)).await;
        proxies.iter().for_each(|proxy| proxy.heal().unwrap());
        sleep(Duration::from_millis(100)).await;
    }
    clock.back(Duration::from_secs(3600)).unwrap();
    assert!(!waiting.is_finished(), "two holders");
    guard.check().expect("its links are up");
    let token = guard.token();
    gives_back(guard).await;
    let next = timeout(SOON, waiting).await.unwrap().expect("granted");
    assert!(next.token() > token, "the token rises");
    gives_back(next).await;
    all_leave([one, two], leader(&three)).await;
}
