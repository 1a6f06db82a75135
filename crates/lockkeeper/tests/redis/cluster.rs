//! Slots that move while locks are held, and nodes that fail.

use std::time::Duration;

use lockkeeper::backend::{Entry, Query, Released, Standing};
use lockkeeper::{Error, HoldState, Mode};
use lockkeeper_testbed::{Redis, RedisCluster};

use crate::stage::{
    LONG, SOON, backend, claim, exclusive, insist, keeper, keys_left, name, order, soon,
    try_backend,
};

fn url(cluster: &RedisCluster) -> String {
    let hosts = cluster.addresses();
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    format!("redis+cluster://{}", hosts.join(","))
}

/// One slot on its way from one node to another.
struct Move<'a> {
    slot: String,
    from: &'a Redis,
    to: &'a Redis,
    all: &'a [Redis],
}

impl<'a> Move<'a> {
    /// Of the slot with the claims of this name.
    fn of(cluster: &'a RedisCluster, name: &str) -> Self {
        let keys = |node: &Redis| {
            node.ask(&["KEYS", &format!("lk:*:k:{name}")])
                .unwrap()
                .text()
        };
        let all = cluster.nodes();
        let from = all.iter().find(|node| !keys(node).is_empty()).unwrap();
        let to = all.iter().find(|node| keys(node).is_empty()).unwrap();
        let key = keys(from).trim().to_owned();
        let slot = from.ask(&["CLUSTER", "KEYSLOT", &key]).unwrap().text();
        Self {
            slot,
            from,
            to,
            all,
        }
    }

    fn begin(&self) {
        let id = |node: &Redis| node.ask(&["CLUSTER", "MYID"]).unwrap().text();
        let set = |node: &Redis, how: &str, id: &str| {
            node.ask(&["CLUSTER", "SETSLOT", &self.slot, how, id])
                .unwrap();
        };
        set(self.to, "IMPORTING", &id(self.from));
        set(self.from, "MIGRATING", &id(self.to));
    }

    /// Moves one key; false when there is none left.
    fn step(&self) -> bool {
        let keys = self
            .from
            .ask(&["CLUSTER", "GETKEYSINSLOT", &self.slot, "1"])
            .unwrap()
            .text();
        let Some(key) = keys.lines().next() else {
            return false;
        };
        self.carry(key);
        true
    }

    fn carry(&self, key: &str) {
        let port = self.to.address().port().to_string();
        self.from
            .ask(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"])
            .unwrap();
    }

    fn finish(&self) {
        let id = self.to.ask(&["CLUSTER", "MYID"]).unwrap().text();
        for node in [self.to, self.from].into_iter().chain(self.all) {
            node.ask(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id])
                .unwrap();
        }
    }
}

// proves: L1, F1, W1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_while_locks_are_held_and_waited_for() {
    let cluster = RedisCluster::start().unwrap();
    let url = url(&cluster);
    let lease = Duration::from_secs(4);
    let (one, other) = (keeper(&url, lease).await, keeper(&url, lease).await);
    let thief = keeper(&url, lease).await;
    let alone = one.lock("alone").acquire().await.unwrap();
    let held = one.lock("busy").acquire().await.unwrap();
    let waiter = other.clone();
    let waits = tokio::spawn(async move { waiter.lock("busy").acquire().await });
    let query = Query::One(name("busy"));
    while one.inspect(&query).await.unwrap()[0].waiters.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for name in ["alone", "busy"] {
        let moving = Move::of(&cluster, name);
        moving.begin();
        // Long enough for every claim to be renewed between two steps.
        tokio::time::sleep(lease / 2).await;
        while moving.step() {
            let stolen = thief.lock(name).try_acquire().await;
            assert!(!matches!(stolen, Ok(Some(_))), "{name} was given away");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        moving.finish();
    }
    tokio::time::sleep(lease).await;
    alone.check().unwrap();
    held.check().unwrap();
    assert!(!waits.is_finished(), "nobody else holds meanwhile");
    let old = held.token();
    soon(held.release()).await.unwrap();
    let next = soon(waits).await.unwrap().unwrap();
    assert!(next.token() > old);
    soon(alone.release()).await.unwrap();
    soon(next.release()).await.unwrap();
}

/// The keys of a list vanish with its last claim, and a script may not touch what is not there in a slot that moves.
// proves: L1, L12
#[tokio::test]
async fn the_last_claim_of_a_list_goes_while_its_slot_moves() {
    let cluster = RedisCluster::start().unwrap();
    let one = backend(&url(&cluster)).await;
    let brief = Duration::from_millis(300);
    let both = |name: &str, lease| [(); 2].map(|()| claim(name, Mode::Exclusive, lease));
    let (freed, ended) = (both("freed", LONG), both("ended", brief));
    for claim in freed.iter().chain(&ended) {
        insist(|| one.enter(claim, Entry::Queue)).await;
    }
    assert_eq!(one.release(&freed[0]).await.unwrap(), Released::Freed);
    for name in ["freed", "ended"] {
        Move::of(&cluster, name).begin();
    }
    assert_eq!(one.release(&freed[1]).await.unwrap(), Released::Freed);
    tokio::time::sleep(brief).await;
    let told = insist(|| one.renew(&ended)).await;
    assert_eq!(told, [Standing::Gone; 2]);
    for node in cluster.nodes() {
        assert_eq!(keys_left(node), Vec::<String>::new());
    }
}

/// Whichever key of a list has moved already: a release that is refused has done nothing, so that asked again it lets go and
/// tells the next.
// proves: L5, W1
#[tokio::test]
async fn a_release_is_whole_or_not_at_all_while_a_slot_moves() {
    let cluster = RedisCluster::start().unwrap();
    let one = backend(&url(&cluster)).await;
    for part in ["r", "q", "e"] {
        let name = format!("without-{part}");
        let [first, next, last] = [(); 3].map(|()| exclusive(&name));
        for claim in [&first, &next, &last] {
            insist(|| one.enter(claim, Entry::Queue)).await;
        }
        let moving = Move::of(&cluster, &name);
        let keys = moving.from.ask(&["KEYS", &format!("lk:*:{part}:{name}")]);
        moving.begin();
        moving.carry(keys.unwrap().text().trim());
        let refused = tokio::time::timeout(Duration::from_millis(300), one.release(&first)).await;
        assert!(!matches!(refused, Ok(Ok(_))), "{part} is elsewhere");
        while moving.step() {}
        moving.finish();
        let released = insist(|| one.release(&first)).await;
        assert_eq!(released, Released::Freed, "with {part} moved");
        let told = insist(|| one.renew(std::slice::from_ref(&next))).await;
        order(told[0]);
        for claim in [&next, &last] {
            let released = insist(|| one.release(claim)).await;
            assert_eq!(released, Released::Freed);
        }
    }
}

/// A node that is wrong about a slot, as one that was cut off: here it names another master than the one that serves it.
#[tokio::test]
async fn a_node_with_an_old_map_is_not_believed_for_ever() {
    let cluster = RedisCluster::start().unwrap();
    let one = backend(&url(&cluster)).await;
    let all = cluster.nodes();
    let wrong = (0..3)
        .min_by_key(|index| all[*index].address().port())
        .unwrap();
    // The younger of the others' claims on a slot counts, so the elder does not set the wrong one right.
    let others: Vec<usize> = (0..3).filter(|index| *index != wrong).collect();
    let (serves, named) = (&all[others[0]], &all[others[1]]);
    let mut numbers = 0..;
    let claim = loop {
        let claim = exclusive(&format!("n{}", numbers.next().unwrap()));
        one.enter(&claim, Entry::Queue).await.unwrap();
        if !keys_left(serves).is_empty() {
            break claim;
        }
    };
    let slot = serves
        .ask(&["CLUSTER", "KEYSLOT", &keys_left(serves)[0]])
        .unwrap();
    let id = named.ask(&["CLUSTER", "MYID"]).unwrap().text();
    all[wrong]
        .ask(&["CLUSTER", "SETSLOT", &slot.text(), "NODE", &id])
        .unwrap();
    // The wrong one is asked first, and believed.
    let mut hosts = cluster.addresses();
    hosts.rotate_left(wrong);
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let fresh = backend(&format!("redis+cluster://{}", hosts.join(","))).await;
    let told = soon(fresh.renew(std::slice::from_ref(&claim))).await;
    order(told.expect("found where it is")[0]);
}

/// A node that has forgotten its peers knows its own slots only.
#[tokio::test]
async fn a_node_that_knows_nobody_is_not_taken_for_the_cluster() {
    let cluster = RedisCluster::start().unwrap();
    let [lonely, others @ ..] = cluster.nodes() else {
        unreachable!()
    };
    for other in others {
        let id = other.ask(&["CLUSTER", "MYID"]).unwrap().text();
        lonely.ask(&["CLUSTER", "FORGET", &id]).unwrap();
    }
    let all = soon(try_backend(&url(&cluster))).await.map(drop);
    let told = all.map_err(|error| format!("{error:?}"));
    let refused_by_it = |said: &String| said.contains("CLUSTERDOWN");
    assert!(told.as_ref().err().is_none_or(refused_by_it), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_fails_and_comes_back_is_used_again() {
    let cluster = RedisCluster::start().unwrap();
    let one = backend(&url(&cluster)).await;
    let held: Vec<_> = (0..6)
        .map(|number| exclusive(&format!("n{number}")))
        .collect();
    for claim in &held {
        one.enter(claim, Entry::Try).await.unwrap();
    }
    cluster.nodes()[1].server().kill().unwrap();
    let mut unknown = 0;
    for claim in &held {
        let asked = one.renew(std::slice::from_ref(claim));
        match tokio::time::timeout(SOON, asked)
            .await
            .expect("told in time")
        {
            Ok(_) => {}
            Err(Error::Unreachable { .. }) => unknown += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(unknown > 0, "some are on the node that failed");
    cluster.nodes()[1].server().restart().unwrap();
    // The nodes take a moment to agree again.
    for number in 0..6 {
        let fresh = exclusive(&format!("again{number}"));
        insist(|| one.enter(&fresh, Entry::Queue)).await;
        insist(|| one.release(&fresh)).await;
    }
}

// proves: W2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_node_costs_nobody_elses_lease() {
    let cluster = RedisCluster::start().unwrap();
    for node in cluster.nodes() {
        node.ask(&["CONFIG", "SET", "cluster-require-full-coverage", "no"])
            .unwrap();
    }
    let lease = Duration::from_secs(3);
    let keeper = keeper(&url(&cluster), lease).await;
    let mut guards = Vec::new();
    for number in 0..12 {
        let lock = keeper.lock(format!("n{number}"));
        guards.push((number, lock.acquire_within(SOON).await.unwrap()));
    }
    let silent = &cluster.nodes()[1];
    let keys = silent.ask(&["KEYS", "lk:*:k:n*"]).unwrap().text();
    let there: Vec<&str> = keys
        .lines()
        .filter_map(|key| key.rsplit(':').next())
        .collect();
    assert!((1..12).contains(&there.len()), "{keys}");
    silent.server().pause().unwrap();
    tokio::time::sleep(2 * lease).await;
    for (number, guard) in &guards {
        let lost = there.contains(&format!("n{number}").as_str());
        let state = guard.state();
        assert_eq!(
            matches!(state, HoldState::Lost(_)),
            lost,
            "n{number}: {state:?}"
        );
    }
    silent.server().resume().unwrap();
}

#[tokio::test]
async fn a_node_of_a_cluster_is_no_server_of_its_own() {
    let cluster = RedisCluster::start().unwrap();
    let told = try_backend(&cluster.nodes()[0].url()).await.unwrap_err();
    assert!(matches!(told, Error::Refused { .. }), "{told}");
    assert!(told.to_string().contains("redis+cluster://"), "{told}");
}
