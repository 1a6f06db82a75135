//! One server, and what happens to it, to the way to it, and to the processes that use it.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper::{Error, HoldState};
use lockkeeper_testbed::{Proxy, ReplyLoss, Setup, ZooKeeper};

use crate::stage::{Corner, SESSION, SOON, exclusive, insists, order, server, standing, takes};

/// What a session may take longer to end than its timeout: the server looks once per tick, of 200 ms,
/// and a busy machine is late.
const LATE: Duration = Duration::from_millis(1500);

/// Waits until the server has no watch and no session but the asker's.
pub(crate) async fn nothing_is_left(server: &ZooKeeper) {
    let begun = Instant::now();
    loop {
        let watches = server.ask("wchs").unwrap();
        let nodes = server.ask("dump").unwrap();
        // The tests' own plain client has a session without nodes.
        let claims = nodes.lines().filter(|line| line.contains("lock")).count();
        if watches.contains("Total watches:0") && claims == 0 {
            return;
        }
        assert!(begun.elapsed() < SOON, "left behind: {watches} {nodes}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

// proves: L5
// bug 58, bug 64
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_making_was_not_answered_is_found_again() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let direct = corner.through(&[server().address()]);
    let (ours, stranger) = (corner.connect("session=10s").await, direct.stranger().await);
    // The first claim makes the way: the replies lost below are those of a claim's own node.
    let first = exclusive("a");
    takes(&ours, &first).await;
    assert_eq!(ours.release(&first).await.unwrap(), Released::Freed);
    for entry in [Entry::Queue, Entry::Try] {
        let held = exclusive("a");
        proxy.lose(ReplyLoss::next(1).reset()).unwrap();
        let told = ours.enter(&held, entry).await;
        assert!(
            matches!(&told, Err(error) if error.is_unknown()),
            "{told:?}"
        );
        assert_eq!(
            corner.children(&stranger, "a").await.len(),
            1,
            "it was made"
        );
        proxy.heal().unwrap();
        order(insists(|| ours.enter(&held, entry)).await);
        assert_eq!(corner.children(&stranger, "a").await.len(), 1, "made twice");
        assert_eq!(ours.release(&held).await.unwrap(), Released::Freed);
        assert!(corner.children(&stranger, "a").await.is_empty());
    }
}

// proves: L8, L9
// bug 51, bug 52, bug 58
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_making_was_not_answered_can_be_released() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let direct = corner.through(&[server().address()]);
    let (ours, stranger) = (corner.connect("session=10s").await, direct.stranger().await);
    let first = exclusive("a");
    takes(&ours, &first).await;
    assert_eq!(ours.release(&first).await.unwrap(), Released::Freed);
    let held = exclusive("a");
    proxy.lose(ReplyLoss::next(1).reset()).unwrap();
    assert!(ours.enter(&held, Entry::Queue).await.is_err());
    proxy.heal().unwrap();
    assert_eq!(insists(|| ours.release(&held)).await, Released::Freed);
    assert!(corner.children(&stranger, "a").await.is_empty());
    assert_eq!(standing(&ours, &held).await, Standing::Gone);
}

// A call that its caller gave up while there was no connection is carried out when there is one again;
// the release that follows it must come after it.
// proves: L9
// bug 52, bug 60, bug 63
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_given_up_without_a_connection_leaves_nothing() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let direct = corner.through(&[server().address()]);
    let (ours, stranger) = (corner.connect("session=10s").await, direct.stranger().await);
    for _ in 0..5 {
        let given_up = exclusive("a");
        proxy.cut().unwrap();
        let call = ours.enter(&given_up, Entry::Queue);
        let _dropped = tokio::time::timeout(Duration::from_millis(50), call).await;
        proxy.heal().unwrap();
        insists(|| ours.release(&given_up)).await;
        assert_eq!(standing(&ours, &given_up).await, Standing::Gone);
        corner.comes_to(&stranger, "a", 0).await;
    }
}

// proves: L8
// bug 17, bug 18, bug 60
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_was_not_answered_is_repeated() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let direct = corner.through(&[server().address()]);
    let (ours, stranger) = (corner.connect("session=10s").await, direct.stranger().await);
    let held = exclusive("a");
    takes(&ours, &held).await;
    // Carried out, the answer lost.
    proxy.lose(ReplyLoss::next(1).reset()).unwrap();
    assert!(
        ours.release(&held)
            .await
            .is_err_and(|error| error.is_unknown())
    );
    assert!(corner.children(&stranger, "a").await.is_empty());
    proxy.heal().unwrap();
    assert_eq!(insists(|| ours.release(&held)).await, Released::Gone);
    // Not carried out: it is not forgotten for that.
    let held = exclusive("a");
    insists(|| ours.enter(&held, Entry::Queue)).await;
    proxy.black_hole().unwrap();
    let call = ours.release(&held);
    assert!(
        tokio::time::timeout(Duration::from_millis(100), call)
            .await
            .is_err()
    );
    assert_eq!(corner.children(&stranger, "a").await.len(), 1);
    proxy.heal().unwrap();
    insists(|| ours.release(&held)).await;
    corner.comes_to(&stranger, "a", 0).await;
}

// proves: W5, L9
// bug 39, bug 44
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_on_a_flapping_link_gets_its_turn() {
    let server = ZooKeeper::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let corner = Corner::on(&[server.address()]);
    let (steady, flapping) = (corner.keeper().await, corner.through(&[proxy.address()]));
    let flapping = flapping.patient_keeper().await;
    let stranger = corner.stranger().await;
    let guard = steady.lock("a").acquire().await.unwrap();
    let first = guard.token();
    let waiting = tokio::spawn(flapping.lock("a").acquire_within(Duration::from_secs(40)));
    corner.comes_to(&stranger, "a", 2).await;
    let mut guard = Some(guard);
    for flap in 0..20 {
        proxy.cut().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.heal().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if flap == 10 {
            guard.take().unwrap().release().await.unwrap();
        }
    }
    let second = waiting.await.unwrap().unwrap();
    assert!(second.token() > first);
    second.check().unwrap();
    second.release().await.unwrap();
    drop((steady, flapping));
    nothing_is_left(&server).await;
}

// proves: L7, W2
// bug 3, bug 45, bug 69
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_longer_than_the_lease_means_lost_in_time() {
    let server = ZooKeeper::start().unwrap();
    let corner = Corner::on(&[server.address()]);
    let keeper = corner.keeper().await;
    let guard = keeper.lock("a").acquire().await.unwrap();
    let token = guard.token();
    server.server().pause().unwrap();
    let stalled = Instant::now();
    tokio::time::timeout(SOON, guard.lost())
        .await
        .expect("told");
    let told = stalled.elapsed();
    assert!(told < SESSION + Duration::from_millis(300), "{told:?}");
    let refused = keeper.lock("b").acquire_within(SESSION / 2).await;
    assert!(refused.is_err(), "nobody answers");
    tokio::time::sleep(SESSION).await;
    server.server().resume().unwrap();
    let again = keeper.lock("a").acquire_within(SOON).await.unwrap();
    assert!(again.token() > token);
    again.release().await.unwrap();
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    drop(keeper);
    nothing_is_left(&server).await;
}

// proves: L7
// bug 28, bug 31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_jump_of_the_servers_wall_clock_has_no_effect() {
    let server = ZooKeeper::start_with(&Setup::new().movable_clock()).unwrap();
    let corner = Corner::on(&[server.address()]);
    let (keeper, other) = (corner.keeper().await, corner.keeper().await);
    let guard = keeper.lock("a").acquire().await.unwrap();
    let hour = Duration::from_secs(3600);
    let clock = server.server().clock().unwrap();
    for jump in 0..3 {
        match jump {
            0 => clock.forward(hour).unwrap(),
            1 => clock.back(2 * hour).unwrap(),
            _ => clock.set_true().unwrap(),
        }
        tokio::time::sleep(SESSION + Duration::from_millis(500)).await;
        assert_eq!(guard.state(), HoldState::Held);
        assert!(other.lock("a").try_acquire().await.unwrap().is_none());
    }
    let token = guard.token();
    guard.release().await.unwrap();
    assert!(other.lock("a").acquire_within(SOON).await.unwrap().token() > token);
}

// proves: L3, L7, F1
// bug 33
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_sleeps_through_its_session_knows_at_once() {
    let corner = Corner::shared();
    let keeper = corner.keeper().await;
    let holder = corner.play("hold", "a");
    let first = holder.says("holds");
    let stopped = Instant::now();
    holder.stop();
    let guard = keeper.lock("a").acquire_within(SOON).await.unwrap();
    let took = stopped.elapsed();
    assert!(took < SESSION + LATE, "{took:?}");
    assert!(guard.token().get() > first);
    holder.go_on();
    holder.says("lost");
    guard.check().unwrap();
    guard.release().await.unwrap();
}

// proves: L3, L9, L11
// bug 48, bug 51
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_are_out_when_their_sessions_end() {
    let corner = Corner::shared();
    let (keeper, stranger) = (corner.keeper().await, corner.stranger().await);
    let mut holder = corner.play("hold", "a");
    holder.says("holds");
    let mut waiter = corner.play("wait", "a");
    waiter.says("waits");
    corner.comes_to(&stranger, "a", 2).await;
    let waiting = tokio::spawn(keeper.lock("a").acquire_within(SOON));
    corner.comes_to(&stranger, "a", 3).await;
    let killed = holder.kill();
    waiter.kill();
    let guard = waiting.await.unwrap().unwrap();
    assert!(killed.elapsed() < SESSION + LATE, "{:?}", killed.elapsed());
    assert_eq!(corner.children(&stranger, "a").await.len(), 1);
    guard.release().await.unwrap();
    assert!(corner.children(&stranger, "a").await.is_empty());
}

// A connection that is lost, and found again within the session, loses nothing.
// proves: W2
// bug 7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_cut_is_a_risk_and_no_loss() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let keeper = corner.patient_keeper().await;
    let guard = keeper.lock("a").acquire().await.unwrap();
    // Cut off for longer than the time between two renewals.
    for _ in 0..2 {
        let begun = Instant::now();
        proxy.cut().unwrap();
        while guard.state() == HoldState::Held {
            assert!(begun.elapsed() < SOON, "not at risk");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(guard.state(), HoldState::AtRisk);
        proxy.heal().unwrap();
        while guard.state() != HoldState::Held {
            assert!(begun.elapsed() < SOON, "{:?}", guard.state());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    guard.release().await.unwrap();
}

// The session ends while the process lives: everything of it is lost, and later claims get a new one.
// proves: W2, W5
// bug 45, bug 60
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_lost_session_there_is_a_new_one() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let direct = corner.through(&[server().address()]);
    let (keeper, other) = (corner.keeper().await, direct.keeper().await);
    let stranger = direct.stranger().await;
    let guard = keeper.lock("a").acquire().await.unwrap();
    proxy.black_hole().unwrap();
    let next = other.lock("a").acquire_within(SOON).await.unwrap();
    // Whoever comes after it comes when it knows.
    assert!(matches!(guard.state(), HoldState::Lost(_)), "two believe");
    assert!(next.token() > guard.token());
    proxy.heal().unwrap();
    let waiting = tokio::spawn(keeper.lock("a").acquire_within(SOON));
    corner.comes_to(&stranger, "a", 2).await;
    next.release().await.unwrap();
    let again = waiting.await.unwrap().unwrap();
    again.release().await.unwrap();
    corner.comes_to(&stranger, "a", 0).await;
}

// proves: F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_over_restarts_of_the_server_and_of_the_names_node() {
    let server = ZooKeeper::start_with(&Setup::new().durable()).unwrap();
    let corner = Corner::on(&[server.address()]);
    let keeper = corner.patient_keeper().await;
    let mut last = None;
    for _ in 0..3 {
        let guard = keeper.lock("a").acquire_within(SOON).await.unwrap();
        assert!(Some(guard.token()) > last);
        last = Some(guard.token());
        guard.release().await.unwrap();
        // As the server does some time after it is empty: the numbers start anew, the tokens do not.
        let stranger = corner.stranger().await;
        stranger
            .delete(&format!("{}/a", corner.path), None)
            .await
            .unwrap();
        drop(stranger);
        server.server().kill().unwrap();
        server.server().restart().unwrap();
    }
}

// A try whose node was made but not answered does not wait when it asks again.
// proves: L5, L9
// bug 41
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_for_a_busy_name_whose_answer_was_lost_does_not_wait() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let direct = corner.through(&[server().address()]);
    let (ours, other) = (corner.connect("session=10s").await, direct.backend().await);
    let stranger = direct.stranger().await;
    let (held, hasty) = (exclusive("a"), exclusive("a"));
    takes(&other, &held).await;
    proxy.lose(ReplyLoss::next(1).reset()).unwrap();
    assert!(ours.enter(&hasty, Entry::Try).await.is_err());
    assert_eq!(
        corner.children(&stranger, "a").await.len(),
        2,
        "it was made"
    );
    proxy.heal().unwrap();
    let told = insists(|| ours.enter(&hasty, Entry::Try)).await;
    assert_eq!(told, Standing::Gone);
    assert_eq!(corner.children(&stranger, "a").await.len(), 1);
    assert_eq!(other.release(&held).await.unwrap(), Released::Freed);
}
