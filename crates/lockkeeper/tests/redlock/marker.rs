//! What a node remembers of itself, and when that is not enough for it to vote.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Standing};
use lockkeeper::backends::redlock::{Config, connect};
use lockkeeper::{Clock, Error};
use lockkeeper_testbed::{Redis, RedisFive, Setup};

use crate::scripts::{SEED, greet};
use crate::stage::{
    LEASE, LONG, SOON, backend, claim, insist, keeper, new_set, order, reconnect, try_backend,
    until, url,
};

const NODE: &str = "redlock:node";
const LOCK: &str = "redlock:lock:n";

/// Three nodes and the URL of their set.
fn three() -> (Vec<Redis>, String) {
    let nodes: Vec<Redis> = (0..3).map(|_| Redis::start().unwrap()).collect();
    let addresses: Vec<_> = nodes.iter().map(Redis::address).collect();
    (nodes, url(&addresses, "longest-lease=60s&fresh=yes"))
}

// proves: Q5, L1, L7
#[tokio::test]
async fn a_record_from_before_the_loss_is_no_vote() {
    comes_back_with_an_old_record(Clock::system()).await;
}

// What a keeper says of the time is for people.
// proves: Q5, L1, L7
#[tokio::test]
async fn nor_is_one_from_a_keeper_whose_clock_is_ahead() {
    let clock = Clock::manual();
    clock.advance(Duration::from_secs(200 * 365 * 86_400));
    comes_back_with_an_old_record(clock).await;
}

/// A node comes back from an older log: the record of a claim that was broken since is there again.
async fn comes_back_with_an_old_record(clock: Clock) {
    let (nodes, url) = three();
    let config = Config::from_url(&url).unwrap();
    let (first, second) = (connect(&config, clock).await.unwrap(), backend(&url).await);
    let (a, b) = (claim(LONG), claim(LONG));
    // The second time nodes give their votes the quick way.
    for _ in 0..2 {
        insist(|| first.release(&a)).await;
        order(insist(|| first.enter(&a, Entry::Try)).await);
    }
    until("all have it", || {
        nodes
            .iter()
            .all(|node| node.ask(&["EXISTS", LOCK]).unwrap().text() == "1")
    })
    .await;
    nodes[2].ask(&["COPY", LOCK, "earlier"]).unwrap();
    // Broken on a majority; the node in the middle was not reached.
    for node in [&nodes[0], &nodes[2]] {
        node.ask(&["DEL", LOCK]).unwrap();
    }
    order(insist(|| second.enter(&b, Entry::Try)).await);
    nodes[2].ask(&["COPY", "earlier", LOCK, "REPLACE"]).unwrap();
    nodes[2].ask(&["HSET", NODE, "run", "another"]).unwrap();
    reconnect(&nodes[2]);
    until("it was greeted", || {
        nodes[2].ask(&["HEXISTS", NODE, "floor"]).unwrap().text() == "0"
    })
    .await;
    let limit = Instant::now() + SOON;
    let claims = [a.clone()];
    while insist(|| first.renew(&claims)).await[0] != Standing::Gone {
        assert!(Instant::now() < limit, "both hold");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let again = first.enter(&a, Entry::Try).await;
    assert!(!matches!(again, Ok(Standing::Holds { .. })), "{again:?}");
}

// Its connection is not broken, and the node knew its scripts all along.
// proves: Q5
#[tokio::test]
async fn a_keeper_that_did_not_see_the_rest_begin_gets_no_vote() {
    let (nodes, url) = three();
    let first = backend(&url).await;
    for _ in 0..2 {
        let a = claim(LONG);
        order(insist(|| first.enter(&a, Entry::Try)).await);
        insist(|| first.release(&a)).await;
    }
    for node in &nodes[1..] {
        node.ask(&["HSET", NODE, "run", "another"]).unwrap();
    }
    let _second = backend(&url).await;
    let error = first.enter(&claim(LONG), Entry::Try).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(
        nodes[1..]
            .iter()
            .all(|node| node.ask(&["EXISTS", LOCK]).unwrap().text() == "0")
    );
}

// proves: Q5
#[tokio::test]
async fn a_keeper_with_another_longest_lease_is_refused() {
    let five = RedisFive::start().unwrap();
    backend(&new_set(&five, "60s")).await;
    let refused = try_backend(&new_set(&five, "5s")).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
    assert!(
        refused.to_string().contains("longest-lease=60000ms"),
        "{refused}"
    );
}

// proves: Q5
#[tokio::test]
async fn how_a_node_wrote_before_its_restart_is_what_counts() {
    let strict = Setup::new().durable();
    let lax = Setup::new()
        .durable()
        .setting("no-appendfsync-on-rewrite", "yes");
    for (setup, sync) in [(strict, "everysec"), (lax, "always")] {
        let five = RedisFive::start_with(&setup).unwrap();
        for node in five.nodes() {
            node.ask(&["CONFIG", "SET", "appendfsync", sync]).unwrap();
        }
        let url = new_set(&five, "60s");
        drop(backend(&url).await);
        for node in five.nodes() {
            // From its file it has `appendfsync always` again.
            node.server().restart().unwrap();
        }
        let after = backend(&url).await;
        let error = after.enter(&claim(LONG), Entry::Try).await.unwrap_err();
        assert!(
            error.to_string().contains("abstains for another"),
            "{error}"
        );
    }
}

// proves: Q5
#[tokio::test]
async fn a_node_with_a_replica_does_not_keep_its_data() {
    let five = RedisFive::start_with(&Setup::new().durable()).unwrap();
    let [host, port] = [0, 1].map(|part| {
        let address = five.nodes()[0].address();
        if part == 0 {
            address.ip().to_string()
        } else {
            address.port().to_string()
        }
    });
    let replica = Redis::start().unwrap();
    replica.ask(&["REPLICAOF", &host, &port]).unwrap();
    until("it has a replica", || {
        let info = five.nodes()[0]
            .ask(&["INFO", "replication"])
            .unwrap()
            .text();
        info.contains("connected_slaves:1")
    })
    .await;
    backend(&new_set(&five, "60s")).await;
    let keeps = |place: usize| {
        five.nodes()[place]
            .ask(&["HGET", NODE, "keeps"])
            .unwrap()
            .text()
    };
    assert_eq!((keeps(0), keeps(1)), ("0".into(), "1".into()));
}

// proves: Q5
// bug 73
#[tokio::test]
async fn a_node_that_may_drop_locks_has_no_vote() {
    let five = RedisFive::start().unwrap();
    for node in &five.nodes()[..3] {
        node.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
            .unwrap();
    }
    let set = try_backend(&new_set(&five, "2s")).await;
    let refused = match set {
        Err(error) => error,
        Ok(set) => set
            .enter(&claim(Duration::from_secs(1)), Entry::Try)
            .await
            .unwrap_err(),
    };
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("noeviction"), "{refused}");
}

// A keeper that lived for a moment greeted the emptied nodes; the one that stays must see to the rest.
// proves: Q5, L9
#[tokio::test]
async fn a_node_does_not_abstain_for_ever() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "2s");
    let stays = keeper(&url, LEASE).await;
    let guard = stays.lock("n").acquire_within(SOON).await.unwrap();
    guard.release().await.unwrap();
    for node in &five.nodes()[..3] {
        node.ask(&["FLUSHALL"]).unwrap();
    }
    drop(backend(&url).await);
    let guard = insist(|| stays.lock("n").acquire_within(SOON)).await;
    guard.release().await.unwrap();
}

fn greeted(node: &Redis) -> String {
    greet(node, NODE, "60000");
    node.ask(&["HGET", NODE, "until"]).unwrap().text()
}

// proves: Q5, Q6
#[test]
fn a_seed_for_an_earlier_rest_is_not_taken() {
    let node = Redis::start().unwrap();
    let seed = |rest: &str| {
        let told = node.ask(&["EVAL", SEED, "1", NODE, "d", "7", rest, "1"]);
        told.unwrap().text()
    };
    let earlier = greeted(&node);
    node.ask(&["FLUSHALL"]).unwrap();
    std::thread::sleep(Duration::from_millis(5));
    let present = greeted(&node);
    assert_ne!(earlier, present);
    assert_eq!(seed(&earlier), "0");
    // Nor is a rest cut short on a node that has given numbers.
    node.ask(&["HSET", NODE, "saved", "9"]).unwrap();
    assert_eq!(seed(&present), "0");
    node.ask(&["HSET", NODE, "saved", "0"]).unwrap();
    assert_eq!(seed(&present), "1");
}
