//! Three servers: the loss of one, of the leader, of the majority.

use std::time::{Duration, Instant};

use lockkeeper::guarantees::Class;
use lockkeeper::{HoldState, Keeper};
use lockkeeper_testbed::{ZooKeeper, ZooKeeperThree};

use crate::stage::{Corner, SOON};

/// Long enough for an election on a busy machine.
pub(crate) const SESSION: Duration = Duration::from_secs(8);

pub(crate) async fn keeper(corner: &Corner) -> Keeper {
    let builder = Keeper::builder().label("test").lease(SESSION);
    builder.connect(&corner.url("session=8s")).await.unwrap()
}

pub(crate) async fn comes_to_lead(three: &ZooKeeperThree) {
    let begun = Instant::now();
    while three.leader().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no leader");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Nodes of claims that the servers still know.
fn claims(server: &ZooKeeper) -> usize {
    let dump = server.ask("dump").unwrap_or_default();
    dump.lines().filter(|line| line.contains("lock-")).count()
}

pub(crate) async fn nothing_is_left(three: &ZooKeeperThree) {
    let begun = Instant::now();
    loop {
        let running = three
            .nodes()
            .iter()
            .filter(|node| node.server().is_running());
        let left: usize = running.map(claims).sum();
        if left == 0 {
            return;
        }
        assert!(begun.elapsed() < SESSION + SOON, "{left} nodes are left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

// One after the other, on one ensemble: three Java machines are slow to start.
// proves: L1, L7, F1
// bug 69, bug 70
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_survives_the_loss_of_a_follower_and_of_the_leader() {
    let three = ZooKeeperThree::start().unwrap();
    let corner = Corner::on(&three.addresses());
    let (one, two) = (keeper(&corner).await, keeper(&corner).await);
    assert_eq!(one.guarantees().class, Class::Consensus);
    let mut last = None;
    for leader in [false, true] {
        let guard = one.lock("a").acquire_within(SOON).await.unwrap();
        assert!(Some(guard.token()) > last);
        let waiting = tokio::spawn(two.lock("a").acquire_within(Duration::from_secs(60)));
        tokio::time::sleep(Duration::from_millis(200)).await;
        comes_to_lead(&three).await;
        let leads = three.leader().unwrap().address();
        let victim = three
            .nodes()
            .iter()
            .find(|node| (node.address() == leads) == leader);
        let victim = victim.unwrap();
        victim.server().kill().unwrap();
        comes_to_lead(&three).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(
            !matches!(guard.state(), HoldState::Lost(_)),
            "leader {leader}: lost"
        );
        assert!(!waiting.is_finished(), "two holders");
        let begun = Instant::now();
        while guard.state() != HoldState::Held {
            assert!(begun.elapsed() < SESSION, "{:?}", guard.state());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let token = guard.token();
        guard.release().await.unwrap();
        let next = waiting.await.unwrap().unwrap();
        assert!(next.token() > token);
        last = Some(next.token());
        next.release().await.unwrap();
        victim.server().restart().unwrap();
        comes_to_lead(&three).await;
    }
    nothing_is_left(&three).await;
}

// proves: L1, L7, W2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_grants_nothing_and_its_holders_learn_that_they_lost() {
    let three = ZooKeeperThree::start().unwrap();
    comes_to_lead(&three).await;
    let leads = three.leader().unwrap().address();
    // The client knows one follower only, which is then cut off from the two others.
    let (alone, others): (Vec<_>, Vec<_>) = {
        let follower = three
            .nodes()
            .iter()
            .position(|node| node.address() != leads);
        let alone = follower.unwrap();
        let nodes = three.nodes().iter().enumerate();
        let (alone, others): (Vec<_>, Vec<_>) = nodes.partition(|(index, _)| *index == alone);
        (
            alone.into_iter().map(|(_, node)| node).collect(),
            others.into_iter().map(|(_, node)| node).collect(),
        )
    };
    let corner = Corner::on(&[alone[0].address()]);
    let cut_off = keeper(&corner).await;
    let guard = cut_off.lock("a").acquire_within(SOON).await.unwrap();
    for node in &others {
        node.server().pause().unwrap();
    }
    let paused = Instant::now();
    let granted = cut_off
        .lock("b")
        .acquire_within(Duration::from_secs(3))
        .await;
    assert!(granted.is_err(), "a minority granted");
    tokio::time::timeout(SESSION + SOON, guard.lost())
        .await
        .expect("told");
    assert!(
        paused.elapsed() < SESSION + Duration::from_millis(500),
        "{:?}",
        paused.elapsed()
    );
    for node in &others {
        node.server().resume().unwrap();
    }
    comes_to_lead(&three).await;
    let again = loop {
        match cut_off.lock("a").acquire_within(SOON).await {
            Ok(again) => break again,
            // Three Java machines that were stopped need their time to elect a leader again.
            Err(error) if error.is_unknown() && paused.elapsed() < 12 * SOON => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert!(again.token() > guard.token());
    again.release().await.unwrap();
    drop(guard);
    nothing_is_left(&three).await;
}
