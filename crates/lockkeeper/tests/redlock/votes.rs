//! Many who want the same: split votes, hand-overs, waiting.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper_testbed::{Redis, RedisFive};

use crate::stage::{Checker, LEASE, LONG, SOON, keeper, keys_left, new_set, until};

// proves: Q3, L1, F1, L9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_keepers_all_get_their_turns_and_never_two_at_once() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let checker = Arc::new(Checker::default());
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (keeper, checker) = (keeper(&url, 4 * LEASE).await, checker.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = keeper.lock("n").acquire_within(4 * SOON).await.unwrap();
                checker.work(&guard).await;
                guard.release().await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    until("nothing is left", || keys_left(&five) == 0).await;
}

// proves: W5
// bug 37
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_wakes_a_waiter_of_another_keeper() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let (one, two) = (keeper(&url, LONG).await, keeper(&url, LONG).await);
    let mut times = Vec::new();
    for _ in 0..20 {
        let guard = one.lock("n").acquire_within(SOON).await.unwrap();
        let lock = two.lock("n");
        let waiting = tokio::spawn(async move {
            let guard = lock.acquire_within(SOON).await.unwrap();
            (guard, Instant::now())
        });
        tokio::time::sleep(Duration::from_millis(25)).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        let (guard, held) = waiting.await.unwrap();
        times.push(held - released);
        guard.release().await.unwrap();
    }
    times.sort_unstable();
    println!(
        "hand-over: {:?} in the middle, {:?} at most",
        times[10], times[19]
    );
    // Without the push it would take a third of the lease: twenty seconds.
    assert!(times[10] < Duration::from_millis(100), "{times:?}");
}

// The holder was alone when it came and has the lock the quick way on all nodes.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_came_to_a_free_lock_wakes_those_who_came_after() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let (one, two) = (keeper(&url, LONG).await, keeper(&url, LONG).await);
    for name in ["a", "b", "c"] {
        let guard = one.lock(name).acquire_within(SOON).await.unwrap();
        guard.release().await.unwrap();
        let guard = one.lock(name).acquire_within(SOON).await.unwrap();
        let lock = two.lock(name);
        let waiting = tokio::spawn(async move { lock.acquire_within(SOON).await });
        let key = format!("redlock:wait:{name}");
        let waits = |node: &Redis| node.ask(&["HLEN", &key]).unwrap().text() == "1";
        until("it waits", || five.nodes().iter().all(waits)).await;
        let released = Instant::now();
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        // Without the push it would look after a third of the lease.
        assert!(released.elapsed() < LEASE, "{:?}", released.elapsed());
    }
}

// proves: W6, W5
// bug 42, bug 43
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_who_wait_ask_seldom_and_one_is_woken() {
    const WAITERS: u64 = 8;
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let holder = keeper(&url, LONG).await;
    let guard = holder.lock("n").acquire_within(SOON).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let keeper = keeper(&url, Duration::from_secs(6)).await;
        tasks.spawn(async move {
            let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
            guard.release().await.unwrap();
        });
    }
    let node = &five.nodes()[4];
    let waiting = || node.ask(&["HLEN", "redlock:wait:n"]).unwrap().text() == WAITERS.to_string();
    until("all wait", waiting).await;
    let before = calls(&five);
    tokio::time::sleep(Duration::from_secs(4)).await;
    let asked = calls(&five) - before;
    // Each renews every third of its six seconds, on each node.
    assert!(asked <= WAITERS * 5 * 4, "{asked} calls in 4 s");
    let before = calls(&five);
    guard.release().await.unwrap();
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let asked = calls(&five) - before;
    println!("{} calls per hand-over on five nodes", asked / WAITERS);
    assert!(
        asked <= WAITERS * 5 * 10,
        "{asked} calls for {WAITERS} hand-overs"
    );
}

/// How often scripts were called, over all nodes.
fn calls(five: &RedisFive) -> u64 {
    let of_node = |node: &Redis| {
        let stats = node.ask(&["INFO", "commandstats"]).unwrap().text();
        let line = stats
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"))
            .map(str::to_owned);
        let calls = line.and_then(|line| {
            let calls = line.split_once("calls=")?.1;
            calls.split(',').next()?.parse::<u64>().ok()
        });
        calls.unwrap_or(0)
    };
    five.nodes().iter().map(of_node).sum()
}
