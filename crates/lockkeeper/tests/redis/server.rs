//! Servers that restart, forget, fill up, or have their clock set.

use std::time::{Duration, Instant};

use lockkeeper::guarantees::Class;
use lockkeeper::{Error, Purpose};
use lockkeeper_testbed::{Redis, Setup};

use crate::stage::{
    LEASE, LONG, SOON, backend, calls, claim, exclusive, insist, keeper, order, soon,
};
use lockkeeper::Mode;
use lockkeeper::backend::{Backend, Entry, Released, Standing};

// proves: F1, F2, L7
#[tokio::test]
async fn an_empty_restart_loses_the_hold_and_repeats_no_token() {
    let server = Redis::start().unwrap();
    let keeper = keeper(&server.url(), LEASE).await;
    let guard = keeper.lock("n").acquire().await.unwrap();
    let old = guard.token().get();
    server.server().kill().unwrap();
    server.server().restart().unwrap();
    soon(guard.lost()).await;
    let next = keeper.lock("n").acquire_within(SOON).await.unwrap();
    assert!(next.token().get() > old);
    next.check().unwrap();
}

// proves: L3, F1, C1
#[tokio::test]
async fn a_durable_server_keeps_grants_and_tokens_over_a_crash() {
    let server = Redis::durable().unwrap();
    let one = backend(&server.url()).await;
    assert_eq!(one.guarantees().class, Class::Durable);
    let held = exclusive("n");
    let old = order(one.enter(&held, Entry::Queue).await.unwrap());
    let waits = exclusive("n");
    one.enter(&waits, Entry::Queue).await.unwrap();
    server.server().kill().unwrap();
    server.server().restart().unwrap();
    let both = [held.clone(), waits.clone()];
    let standings = insist(|| one.renew(&both)).await;
    assert_eq!(order(standings[0]), old);
    assert!(matches!(standings[1], Standing::Waits { ahead: 1, .. }));
    assert_eq!(insist(|| one.release(&held)).await, Released::Freed);
    assert!(order(insist(|| one.renew(&both)).await[1]) > old);
    let correct = lockkeeper::Keeper::builder().purpose(Purpose::Correctness);
    correct.connect(&server.url()).await.unwrap();
}

// proves: C1
#[tokio::test]
async fn only_a_durable_server_serves_correctness() {
    let server = Redis::start().unwrap();
    let correct = lockkeeper::Keeper::builder().purpose(Purpose::Correctness);
    let refused = correct.connect(&server.url()).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("appendonly"), "{refused}");
    for (setting, value) in [
        ("appendfsync", "everysec"),
        ("no-appendfsync-on-rewrite", "yes"),
        // bug 73
        ("maxmemory-policy", "allkeys-lru"),
    ] {
        let setup = Setup::new().durable().setting(setting, value);
        let server = Redis::start_with(&setup).unwrap();
        let weak = backend(&server.url()).await;
        assert_eq!(weak.guarantees().class, Class::BestEffort);
        let reason = &weak.guarantees().class_reason;
        assert!(reason.contains(setting), "{reason}");
    }
}

// proves: L7, F1
// bug 4
#[tokio::test]
async fn flushall_under_a_holder_is_noticed_at_the_next_renewal() {
    let server = Redis::start().unwrap();
    let keeper = keeper(&server.url(), LEASE).await;
    let guard = keeper.lock("n").acquire().await.unwrap();
    server.ask(&["FLUSHALL"]).unwrap();
    let flushed = Instant::now();
    soon(guard.lost()).await;
    assert!(flushed.elapsed() < LEASE, "within a renewal");
    let next = keeper.lock("n").acquire_within(SOON).await.unwrap();
    assert!(next.token() > guard.token());
    // The one after the loss is renewed as ever.
    tokio::time::sleep(2 * LEASE).await;
    next.check().unwrap();
}

// proves: L7, F1
// bug 31
#[tokio::test]
async fn a_clock_set_forward_loses_holds_and_a_clock_set_back_repeats_no_token() {
    let server = Redis::start_with(&Setup::new().movable_clock()).unwrap();
    let clock = server.server().clock().unwrap();
    let keeper = keeper(&server.url(), LEASE).await;
    let guard = keeper.lock("n").acquire().await.unwrap();
    clock.forward(Duration::from_secs(3600)).unwrap();
    soon(guard.lost()).await;
    let second = keeper.lock("n").acquire_within(SOON).await.unwrap();
    assert!(second.token() > guard.token());
    clock.back(Duration::from_secs(7200)).unwrap();
    // By the server's clock the lease is two hours longer now; nobody else may hold before it is given
    // back or renewed.
    let other = crate::stage::keeper(&server.url(), LEASE).await;
    assert!(other.lock("n").try_acquire().await.unwrap().is_none());
    tokio::time::sleep(LEASE).await;
    second.check().unwrap();
    let old = second.token();
    second.release().await.unwrap();
    let third = other.lock("n").acquire_within(SOON).await.unwrap();
    assert!(third.token() > old, "the counter outlasts the clock");
}

/// Takes the name and gives it back so many times; the last number.
async fn cycles(backend: &dyn Backend, times: usize) -> u64 {
    let mut last = 0;
    for _ in 0..times {
        let claim = exclusive("n");
        let next = order(insist(|| backend.enter(&claim, Entry::Queue)).await);
        assert!(next > last, "{next} after {last}");
        last = next;
        assert_eq!(backend.release(&claim).await.unwrap(), Released::Freed);
    }
    last
}

/// As if the server had its data from an hour ago, under whoever is connected.
fn set_counters_back(server: &Redis) {
    let back = "for _, key in ipairs(redis.call('KEYS', '*:order')) do redis.call('DECRBY', key, 3600000000) end";
    server.ask(&["EVAL", back, "0"]).unwrap();
}

// proves: F1, F2
#[tokio::test]
async fn numbers_are_counted_on_and_lifted_to_the_time_before_old_data_can_repeat_one() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    cycles(&*one, 1).await;
    let asked_for_time = calls(&server, &["time"]);
    let old = cycles(&*one, 200).await;
    let times = calls(&server, &["time"]) - asked_for_time;
    assert!(
        times < 50,
        "the time was asked for {times} times in 200 cycles"
    );

    // Under an existing connection the counter is raised to the time 50 ms after it last was.
    set_counters_back(&server);
    tokio::time::sleep(Duration::from_millis(60)).await;
    let raised = cycles(&*one, 2).await;
    assert!(raised > old, "{raised} after {old}");

    // A server that has lost everything, the moment before.
    server.ask(&["FLUSHALL"]).unwrap();
    let emptied = cycles(&*one, 2).await;
    assert!(emptied > raised, "{emptied} after {raised}");

    // A new connection, however soon.
    set_counters_back(&server);
    server.ask(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
    let reconnected = cycles(&*one, 2).await;
    assert!(reconnected > emptied, "{reconnected} after {emptied}");
}

/// Whatever becomes of counters and clocks, nobody overtakes who holds.
// proves: L1, F1
#[tokio::test]
async fn a_counter_that_went_back_lets_nobody_overtake() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let line = [(); 4].map(|()| exclusive("n"));
    for claim in &line[..2] {
        one.enter(claim, Entry::Queue).await.unwrap();
    }
    // By the quick way, as this takes less than 50 ms;
    set_counters_back(&server);
    one.enter(&line[2], Entry::Queue).await.unwrap();
    // and by the long one, behind numbers that are ahead of the clock.
    let ahead = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
      redis.call('ZINCRBY', KEYS[1], 3600000000, id) end";
    let queue = server.ask(&["KEYS", "lk:{*}:q:n"]).unwrap().text();
    server.ask(&["EVAL", ahead, "1", queue.trim()]).unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    one.enter(&line[3], Entry::Queue).await.unwrap();
    let standings = one.renew(&line).await.unwrap();
    order(standings[0]);
    for (place, standing) in standings.into_iter().enumerate().skip(1) {
        assert!(
            matches!(standing, Standing::Waits { ahead, .. } if ahead == place),
            "{place}: {standing:?}"
        );
    }
}

// A full server refuses to take more, and lets go of what it has.
// proves: L8
#[tokio::test]
async fn a_full_server_takes_no_more_but_renews_and_releases() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let (alone, first, second) = (exclusive("alone"), exclusive("n"), exclusive("n"));
    one.enter(&alone, Entry::Queue).await.unwrap();
    one.enter(&first, Entry::Queue).await.unwrap();
    one.enter(&second, Entry::Queue).await.unwrap();
    let reader = claim("r", Mode::Exclusive, LONG);
    one.enter(&reader, Entry::Queue).await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    for name in ["fresh", "n", "alone"] {
        let refused = one.enter(&exclusive(name), Entry::Queue).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("maxmemory"), "{refused}");
    }
    let all = [alone.clone(), first.clone(), second.clone()];
    let standings = one.renew(&all).await.unwrap();
    assert!(matches!(
        standings[..],
        [
            Standing::Holds { .. },
            Standing::Holds { .. },
            Standing::Waits { .. }
        ]
    ));
    order(one.downgrade(&reader).await.unwrap());
    assert_eq!(one.release(&alone).await.unwrap(), Released::Freed);
    assert_eq!(one.release(&first).await.unwrap(), Released::Freed);
    order(one.renew(std::slice::from_ref(&second)).await.unwrap()[0]);
    assert_eq!(one.release(&second).await.unwrap(), Released::Freed);
    assert_eq!(one.release(&reader).await.unwrap(), Released::Freed);
    assert_eq!(crate::stage::keys_left(&server), Vec::<String>::new());
}

/// A head says until when nobody can die. It is not written anew by who has nothing else to write: a full server would refuse
/// that, and with it the renewal.
// proves: L8
#[tokio::test]
async fn a_full_server_keeps_a_line_whose_first_lease_has_ended() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let [first, behind] = [(); 2].map(|()| exclusive("n"));
    let short = claim("n", Mode::Exclusive, Duration::from_millis(300));
    for claim in [&first, &short, &behind] {
        one.enter(claim, Entry::Queue).await.unwrap();
    }
    assert_eq!(one.release(&short).await.unwrap(), Released::Freed);
    tokio::time::sleep(short.lease * 2).await;
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let gone = exclusive("n");
    for _ in 0..2 {
        let all = [gone.clone(), first.clone(), behind.clone()];
        let standings = one.renew(&all).await.unwrap();
        assert!(matches!(
            standings[..],
            [
                Standing::Gone,
                Standing::Holds { .. },
                Standing::Waits { ahead: 1, .. }
            ]
        ));
    }
    assert_eq!(one.release(&first).await.unwrap(), Released::Freed);
    order(one.renew(std::slice::from_ref(&behind)).await.unwrap()[0]);
    assert_eq!(one.release(&behind).await.unwrap(), Released::Freed);
    assert_eq!(crate::stage::keys_left(&server), Vec::<String>::new());
}

// bug 73: what eviction does, so that the caveat is no guess.
#[tokio::test]
async fn eviction_takes_locks_away_and_that_is_noticed() {
    let setup = Setup::new().setting("maxmemory-policy", "allkeys-lru");
    let server = Redis::start_with(&setup).unwrap();
    let keeper = keeper(&server.url(), LEASE).await;
    let guard = keeper.lock("n").acquire().await.unwrap();
    server.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let _evicts = server.ask(&["SET", "x", "y"]);
    soon(guard.lost()).await;
}

// bug 21, bug 35
#[tokio::test]
async fn leases_of_any_length_are_kept_and_none_deletes() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    for (lease, least) in [
        (Duration::from_secs(120), 119_000),
        (Duration::from_millis(500), 300),
        (Duration::MAX, 900_000_000),
    ] {
        let claim = claim("n", Mode::Shared, lease);
        order(one.enter(&claim, Entry::Queue).await.unwrap());
        order(one.renew(std::slice::from_ref(&claim)).await.unwrap()[0]);
        let key = crate::stage::keys_left(&server);
        let left: i64 = server
            .ask(&["PTTL", &key[0]])
            .unwrap()
            .text()
            .parse()
            .unwrap();
        assert!(left > least, "{lease:?}: {left}");
        // Another reader with a short lease shortens nobody's.
        let short = crate::stage::claim("n", Mode::Shared, Duration::from_millis(50));
        order(one.enter(&short, Entry::Queue).await.unwrap());
        tokio::time::sleep(Duration::from_millis(80)).await;
        order(one.renew(std::slice::from_ref(&claim)).await.unwrap()[0]);
        assert_eq!(one.release(&claim).await.unwrap(), Released::Freed);
    }
}
