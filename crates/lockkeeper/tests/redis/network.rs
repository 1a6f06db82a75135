//! Replies that are lost, servers that fall silent, pushes that never come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper::backend::{Backend, Entry, Query, Released, Standing};
use lockkeeper::conformance::wrappers::Lesser;
use lockkeeper::{Error, Keeper};
use lockkeeper_testbed::{Proxy, Redis, ReplyLoss};

use crate::stage::{
    LEASE, SOON, at, backend, exclusive, insist, keeper, keys_left, name, order, soon,
};

/// A connection through a proxy, and one past it.
async fn proxied(server: &Redis) -> (Proxy, Arc<dyn Backend>, Arc<dyn Backend>) {
    let proxy = Proxy::to(server.address()).unwrap();
    let through = backend(&at(proxy.address())).await;
    (proxy, through, backend(&server.url()).await)
}

/// The next reply is lost after the server has applied the question.
async fn lost<T: std::fmt::Debug>(proxy: &Proxy, asked: impl Future<Output = Result<T, Error>>) {
    let before = proxy.lost_replies();
    proxy.lose(ReplyLoss::next(1).reset()).unwrap();
    let told = asked.await.expect_err("the reply is lost");
    assert!(told.is_unknown(), "{told}");
    assert_eq!(proxy.lost_replies(), before + 1);
    proxy.heal().unwrap();
}

// proves: L4, L5
// bug 58, bug 64, bug 65
#[tokio::test]
async fn every_verb_may_lose_its_reply_and_be_asked_again() {
    let server = Redis::start().unwrap();
    let (proxy, one, other) = proxied(&server).await;
    let (a, b) = (exclusive("n"), exclusive("n"));
    // The server knows the scripts from here on: else the lost reply is that it does not.
    let known = exclusive("known");
    order(other.enter(&known, Entry::Queue).await.unwrap());
    order(other.downgrade(&known).await.unwrap());
    order(other.renew(std::slice::from_ref(&known)).await.unwrap()[0]);
    other.evict(&known.name, 1, "nobody").await.unwrap();
    other.release(&known).await.unwrap();

    lost(&proxy, one.enter(&a, Entry::Queue)).await;
    let first = order(insist(|| one.enter(&a, Entry::Queue)).await);
    lost(&proxy, one.enter(&b, Entry::Queue)).await;
    let waits = insist(|| one.enter(&b, Entry::Queue)).await;
    assert!(
        matches!(waits, Standing::Waits { ahead: 1, .. }),
        "{waits:?}"
    );

    lost(&proxy, one.renew(std::slice::from_ref(&a))).await;
    assert_eq!(
        order(insist(|| one.renew(std::slice::from_ref(&a))).await[0]),
        first
    );
    lost(&proxy, one.downgrade(&a)).await;
    assert_eq!(order(insist(|| one.downgrade(&a)).await), first);

    lost(&proxy, one.release(&a)).await;
    assert_eq!(insist(|| one.release(&a)).await, Released::Gone);
    let second = order(insist(|| one.renew(std::slice::from_ref(&b))).await[0]);
    assert!(second > first, "one grant each");

    lost(&proxy, one.inspect(&Query::All)).await;
    assert_eq!(insist(|| one.inspect(&Query::All)).await.len(), 1);
    lost(&proxy, one.evict(&a.name, second, "why")).await;
    let again = insist(|| one.evict(&a.name, second, "why")).await;
    assert_eq!(again, Released::Gone);
    assert!(other.inspect(&Query::All).await.unwrap().is_empty());
    assert_eq!(keys_left(&server), Vec::<String>::new());
}

// A claim whose every answer is lost is one claim, and is given back once.
// bug 64
#[tokio::test]
async fn an_acquire_whose_replies_are_lost_holds_once_and_leaves_nothing() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let keeper = keeper(&at(proxy.address()), LEASE).await;
    for _ in 0..10 {
        proxy.lose(ReplyLoss::next(1).reset()).unwrap();
        let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
        proxy.heal().unwrap();
        proxy.lose(ReplyLoss::next(1).reset()).unwrap();
        // Freed by the question whose answer was lost: nobody can say, and that is what is told.
        let told = guard.release().await;
        assert!(
            told.as_ref().err().is_none_or(Error::is_unknown),
            "{told:?}"
        );
        proxy.heal().unwrap();
    }
    let clean = async {
        while !keys_left(&server).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(clean).await;
}

/// No call outlives its deadline by more than this.
const GRACE: Duration = Duration::from_millis(100);

// proves: L9
// bug 41
#[tokio::test]
async fn a_server_in_a_black_hole_ends_no_call_late() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let keeper = keeper(&at(proxy.address()), LEASE).await;
    let held = keeper.lock("held").acquire().await.unwrap();
    proxy.black_hole().unwrap();
    let hole = Instant::now();
    for patience in [0, 50, 400, 1500].map(Duration::from_millis) {
        let start = Instant::now();
        let told = keeper.lock("n").acquire_within(patience).await;
        let took = start.elapsed();
        assert!(told.is_err());
        assert!(took <= patience + GRACE, "{patience:?} took {took:?}");
    }
    soon(held.lost()).await;
    assert!(hole.elapsed() < LEASE + 4 * LEASE, "{:?}", hole.elapsed());
    let start = Instant::now();
    assert!(keeper.lock("fresh").try_acquire().await.is_err());
    assert!(
        start.elapsed() <= LEASE / 3 + GRACE,
        "{:?}",
        start.elapsed()
    );
    proxy.heal().unwrap();
    let back = keeper.lock("n").acquire_within(SOON).await.unwrap();
    back.check().unwrap();
}

#[tokio::test]
async fn a_hold_in_a_black_hole_is_lost_by_its_own_deadline() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let keeper = keeper(&at(proxy.address()), LEASE).await;
    let held = keeper.lock("held").acquire().await.unwrap();
    proxy.black_hole().unwrap();
    let hole = Instant::now();
    soon(held.lost()).await;
    assert!(hole.elapsed() <= LEASE + GRACE, "{:?}", hole.elapsed());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_once() {
    let server = Redis::start().unwrap();
    let url = server.url();
    server.server().kill().unwrap();
    let start = Instant::now();
    let told = Keeper::connect(&url).await.unwrap_err();
    assert!(told.is_unknown(), "{told}");
    assert!(start.elapsed() < Duration::from_secs(3));
}

// proves: W5
// bug 37
#[tokio::test]
async fn without_any_push_a_hand_over_takes_a_third_of_a_lease_at_most() {
    let server = Redis::start().unwrap();
    let holds = keeper(&server.url(), LEASE).await;
    let deaf = Lesser::deaf(backend(&server.url()).await);
    let deaf = Keeper::builder().lease(LEASE).on(deaf).unwrap();
    for _ in 0..3 {
        let guard = holds.lock("n").acquire_within(SOON).await.unwrap();
        let waiter = deaf.clone();
        let waits = tokio::spawn(async move { waiter.lock("n").acquire_within(SOON).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let start = Instant::now();
        guard.release().await.unwrap();
        let guard = waits.await.unwrap().unwrap();
        let took = start.elapsed();
        assert!(took < LEASE / 3 + Duration::from_millis(200), "{took:?}");
        guard.release().await.unwrap();
    }
}

// proves: W5
// bug 39, bug 44
#[tokio::test]
async fn pushes_come_again_after_a_hundred_cuts() {
    let server = Redis::start().unwrap();
    let (holds, waits) = (
        keeper(&server.url(), Duration::from_secs(60)).await,
        keeper(&server.url(), Duration::from_secs(60)).await,
    );
    for round in 0..100 {
        let guard = soon(holds.lock("n").acquire()).await.unwrap();
        let waiter = waits.clone();
        let task = tokio::spawn(async move { waiter.lock("n").acquire().await });
        let query = Query::One(name("n"));
        loop {
            let views = holds.inspect(&query).await;
            if views.is_ok_and(|views| views.iter().any(|view| !view.waiters.is_empty())) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
        while server
            .ask(&["PUBSUB", "CHANNELS"])
            .unwrap()
            .text()
            .lines()
            .count()
            < 2
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // Long before the lease of a minute makes the waiter ask.
        let start = Instant::now();
        soon(guard.release()).await.unwrap();
        let next = soon(task).await.unwrap().unwrap();
        let took = start.elapsed();
        assert!(took < Duration::from_secs(2), "round {round}: {took:?}");
        next.release().await.unwrap();
    }
}
