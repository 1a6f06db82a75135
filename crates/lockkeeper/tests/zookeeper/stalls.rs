//! Servers of three that stall for longer than the session, disks that are full, and a holder that sleeps: whoever holds
//! knows in time that it does not any more, or is carried over to another server, and nobody else holds meanwhile.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper::{Guard, HoldState, Keeper};
use lockkeeper_testbed::{Setup, ZooKeeper, ZooKeeperThree};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::ensemble::{SESSION, comes_to_lead, keeper, nothing_is_left};
use crate::stage::{Corner, SOON};

/// Java machines that were stopped need their time to elect a leader again.
const ELECTED: Duration = Duration::from_secs(120);

/// Acquires, asking again while no server answers.
async fn acquires(keeper: Keeper) -> Guard {
    let begun = Instant::now();
    loop {
        match keeper.lock("a").acquire_within(SOON).await {
            Ok(guard) => return guard,
            Err(error) => assert!(
                error.is_unknown() && begun.elapsed() < ELECTED,
                "not acquired: {error}"
            ),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Whoever comes next, and that the one before knew by then.
fn next_in_line(guard: &Arc<Guard>, keeper: &Keeper) -> JoinHandle<Guard> {
    let (before, keeper) = (guard.clone(), keeper.clone());
    tokio::spawn(async move {
        let next = acquires(keeper).await;
        before.check().expect_err("two holders");
        assert!(next.token() > before.token(), "the token rises");
        next
    })
}

/// It is at risk first, and lost no later than it promises now, as the stall begins; nor than it may promise.
async fn is_told_in_time(guard: &Guard) {
    let deadline = Instant::now() + guard.remaining().min(SESSION);
    let state = timeout(SOON, guard.changed_from(&HoldState::Held)).await;
    assert_eq!(state.expect("told"), HoldState::AtRisk);
    timeout(SOON, guard.lost()).await.expect("told");
    let late = Instant::now().saturating_duration_since(deadline);
    assert!(late < Duration::from_secs(1), "told {late:?} too late");
}

/// The second holder releases; what the first one does now touches nobody.
async fn ends(guard: Arc<Guard>, next: JoinHandle<Guard>) {
    let next = timeout(ELECTED, next).await.expect("in time");
    let next = next.expect("granted");
    let guard = Arc::into_inner(guard).expect("the only one");
    assert!(guard.release().await.is_err(), "what is lost stays lost");
    next.check().expect("a late release does not touch it");
    next.release().await.expect("released");
}

/// The server that serves the only keeper there is.
fn serving(three: &ZooKeeperThree) -> &ZooKeeper {
    let mut nodes = three.nodes().iter();
    let serves = |node: &&ZooKeeper| node.ask("cons").unwrap().contains("sid=0x");
    nodes.find(serves).expect("one of them")
}

fn the_others(three: &ZooKeeperThree, one: &ZooKeeper) -> Corner {
    let others = three.addresses().into_iter();
    let others: Vec<_> = others.filter(|at| *at != one.address()).collect();
    Corner::at(&others, "/locks")
}

// One after the other, on one ensemble: three Java machines are slow to start.
// proves: L1, L3, L7, W2, F1
// bug 3, bug 33, bug 69
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_stall_longer_than_the_session() {
    let three = ZooKeeperThree::start().unwrap();
    comes_to_lead(&three).await;
    the_only_server_that_the_holder_knows(&three).await;
    comes_to_lead(&three).await;
    the_holders_server_of_three(&three).await;
    comes_to_lead(&three).await;
    all_of_them(&three).await;
    comes_to_lead(&three).await;
    the_holder_itself(&three).await;
    nothing_is_left(&three).await;
}

/// The others go on, and let the next one in when the session ends.
async fn the_only_server_that_the_holder_knows(three: &ZooKeeperThree) {
    let leads = three.leader().unwrap().address();
    let mut nodes = three.nodes().iter();
    let stalled = nodes.find(|node| node.address() != leads).unwrap();
    let one = keeper(&Corner::at(&[stalled.address()], "/locks")).await;
    let others = the_others(three, stalled);
    let (two, stranger) = (keeper(&others).await, others.stranger().await);
    let guard = Arc::new(acquires(one.clone()).await);
    let next = next_in_line(&guard, &two);
    others.comes_to(&stranger, "a", 2).await;
    stalled.server().pause().unwrap();
    is_told_in_time(&guard).await;
    let next = timeout(ELECTED, next).await.expect("the others let it in");
    stalled.server().resume().unwrap();
    ends(guard, tokio::spawn(async { next.expect("granted") })).await;
    others.comes_to(&stranger, "a", 0).await;
}

/// Another server carries the holder over, if the client turns to it in time; else it knows that it lost.
async fn the_holders_server_of_three(three: &ZooKeeperThree) {
    let one = keeper(&Corner::at(&three.addresses(), "/locks")).await;
    let guard = Arc::new(acquires(one.clone()).await);
    let stalled = serving(three);
    let others = the_others(three, stalled);
    let (two, stranger) = (keeper(&others).await, others.stranger().await);
    let next = next_in_line(&guard, &two);
    others.comes_to(&stranger, "a", 2).await;
    stalled.server().pause().unwrap();
    sleep(SESSION + SESSION / 2).await;
    let lost = guard.check().is_err();
    println!("the holder's server stalled: lost {lost}");
    stalled.server().resume().unwrap();
    if lost {
        ends(guard, next).await;
    } else {
        // The task that waits looks at it until it is let in, and that is after the release.
        assert!(!next.is_finished(), "two holders");
        next.abort();
        let _aborted = next.await;
        let guard = Arc::into_inner(guard).expect("the only one");
        guard.release().await.expect("released");
    }
    others.comes_to(&stranger, "a", 0).await;
}

async fn all_of_them(three: &ZooKeeperThree) {
    let corner = Corner::at(&three.addresses(), "/locks");
    let (one, two) = (keeper(&corner).await, keeper(&corner).await);
    let guard = Arc::new(acquires(one.clone()).await);
    let next = next_in_line(&guard, &two);
    let stranger = corner.stranger().await;
    corner.comes_to(&stranger, "a", 2).await;
    drop(stranger);
    for node in three.nodes() {
        node.server().pause().unwrap();
    }
    is_told_in_time(&guard).await;
    assert!(!next.is_finished(), "nobody is there to let it in");
    for node in three.nodes() {
        node.server().resume().unwrap();
    }
    ends(guard, next).await;
}

async fn the_holder_itself(three: &ZooKeeperThree) {
    let corner = Corner::at(&three.addresses(), "/locks");
    let next = keeper(&corner).await;
    let holder = corner.play_on("hold", "a", SESSION);
    let old = holder.says("holds");
    holder.stop();
    let guard = acquires(next).await;
    assert!(guard.token().get() > old, "the token rises");
    holder.go_on();
    holder.says("lost");
    drop(holder);
    guard.check().expect("a late release does not touch it");
    guard.release().await.expect("released");
}

/// From now on nothing fits on the server's disk. A limit on file sizes does what a full disk does, and needs no
/// privilege.
fn disk_is_full(server: &ZooKeeper) {
    let pid = server.server().pid().unwrap().to_string();
    let mut prlimit = Command::new("prlimit");
    let status = prlimit.args(["--fsize=1:1", "--pid", &pid]).status();
    assert!(status.expect("util-linux is installed").success());
}

/// A server that cannot write its log gives up. Its holders learn it in time, and what it has said stays true.
// proves: L1, L7, F1
// FAULTS 14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_no_grant_and_makes_none() {
    let server = ZooKeeper::start_with(&Setup::new().durable()).unwrap();
    let corner = Corner::on(&[server.address()]);
    let (one, two) = (keeper(&corner).await, keeper(&corner).await);
    let guard = Arc::new(acquires(one.clone()).await);
    disk_is_full(&server);
    let told = two.lock("b").acquire_within(Duration::from_secs(2)).await;
    assert!(told.is_err(), "granted, and not on the disk");
    is_told_in_time(&guard).await;
    let token = guard.token();
    server.server().restart().unwrap();
    let next = acquires(two.clone()).await;
    assert!(next.token() > token, "the token rises");
    let guard = Arc::into_inner(guard).expect("the only one");
    assert!(guard.release().await.is_err(), "what is lost stays lost");
    next.check().expect("a late release does not touch it");
    next.release().await.expect("released");
    drop((one, two));
    crate::faults::nothing_is_left(&server).await;
}

/// Where one of three has no room the other two go on, even if it is the leader.
// proves: L1, F1
// FAULTS 14
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_full_disk_of_three_stops_nobody() {
    let three = ZooKeeperThree::start().unwrap();
    comes_to_lead(&three).await;
    let full = three.leader().unwrap();
    let corner = Corner::at(&three.addresses(), "/locks");
    let (one, two) = (keeper(&corner).await, keeper(&corner).await);
    let guard = Arc::new(acquires(one.clone()).await);
    let next = next_in_line(&guard, &two);
    disk_is_full(full);
    // Written by the other two, under this leader as long as it speaks, or under another one.
    let token = acquires_other(&one).await;
    let guard_lost = guard.check().is_err();
    println!("one disk is full: lost {guard_lost}, and another name has {token}");
    if guard_lost {
        ends(guard, next).await;
    } else {
        assert!(!next.is_finished(), "two holders");
        next.abort();
        let _aborted = next.await;
        drop(guard);
    }
    full.server().restart().unwrap();
    comes_to_lead(&three).await;
    drop((one, two));
    nothing_is_left(&three).await;
}

async fn acquires_other(keeper: &Keeper) -> u64 {
    let begun = Instant::now();
    loop {
        match keeper.lock("b").acquire_within(SOON).await {
            Ok(guard) => return guard.token().get(),
            Err(error) => assert!(
                error.is_unknown() && begun.elapsed() < ELECTED,
                "not acquired: {error}"
            ),
        }
        sleep(Duration::from_millis(100)).await;
    }
}
