//! Every kind of server starts, answers over its own protocol, and is restarted in place with the
//! data that it promises to keep.

use std::time::{Duration, Instant};

use lockkeeper_testbed::{
    Etcd, EtcdThree, MariaDb, Postgres, Redis, RedisCluster, RedisFive, Sentinels, Setup,
    ZooKeeper, ZooKeeperThree,
};

/// Waits for what an engine does in its own time, such as a failover.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn redis_keeps_nothing_unless_durable() {
    for (redis, kept) in [
        (Redis::start().unwrap(), ""),
        (Redis::durable().unwrap(), "A"),
    ] {
        assert_eq!(redis.ask(&["SET", "lock", "A", "NX"]).unwrap().text(), "OK");
        let address = redis.address();
        redis.server().restart().unwrap();
        assert_eq!(redis.address(), address);
        assert_eq!(redis.ask(&["GET", "lock"]).unwrap().text(), kept);
    }
}

#[test]
fn redis_takes_settings_of_its_own() {
    let redis = Redis::start_with(&Setup::new().setting("maxmemory", "2mb")).unwrap();
    let answer = redis.ask(&["CONFIG", "GET", "maxmemory"]).unwrap();
    assert_eq!(answer.text(), "maxmemory\n2097152\n");
    assert!(
        redis
            .ask(&["NONSENSE"])
            .unwrap_err()
            .to_string()
            .contains("unknown command")
    );
}

#[test]
fn five_redis_are_independent() {
    let five = RedisFive::start().unwrap();
    five.nodes()[0].ask(&["SET", "lock", "A"]).unwrap();
    let seen: Vec<String> = five
        .nodes()
        .iter()
        .map(|node| node.ask(&["GET", "lock"]).unwrap().text())
        .collect();
    assert_eq!(seen, ["A", "", "", "", ""]);
}

#[test]
fn sentinels_promote_the_replica_when_the_master_dies() {
    let set = Sentinels::start().unwrap();
    assert_eq!(set.current_master().unwrap(), set.master().address());
    set.master().ask(&["SET", "lock", "A"]).unwrap();
    eventually("replication", || {
        set.replica().ask(&["GET", "lock"]).unwrap().text() == "A"
    });
    set.master().server().kill().unwrap();
    eventually("failover", || {
        set.current_master()
            .is_ok_and(|is| is == set.replica().address())
    });
    eventually("promotion", || {
        set.replica().ask(&["SET", "lock", "B"]).is_ok()
    });
}

#[test]
fn the_redis_cluster_serves_every_slot() {
    let cluster = RedisCluster::start().unwrap();
    let placed = cluster
        .nodes()
        .iter()
        .map(|node| node.ask(&["SET", "lock", "A"]));
    let (stored, moved): (Vec<_>, Vec<_>) = placed.partition(Result::is_ok);
    assert_eq!((stored.len(), moved.len()), (1, 2));
    assert!(
        moved
            .iter()
            .all(|answer| format!("{answer:?}").contains("MOVED"))
    );
}

#[test]
fn etcd_answers_and_keeps_its_data() {
    let etcd = Etcd::start().unwrap();
    assert_eq!(etcd.ctl(&["put", "lock", "A"]).unwrap(), "OK\n");
    etcd.server().restart().unwrap();
    assert_eq!(
        etcd.ctl(&["get", "lock", "--print-value-only"]).unwrap(),
        "A\n"
    );
}

#[test]
fn three_etcd_survive_the_loss_of_the_leader() {
    let three = EtcdThree::start().unwrap();
    three.nodes()[0].ctl(&["put", "lock", "A"]).unwrap();
    let leader = three.leader().unwrap();
    leader.server().kill().unwrap();
    let other = three
        .nodes()
        .iter()
        .find(|node| node.server().is_running())
        .unwrap();
    eventually("a new leader", || three.leader().is_some());
    assert_eq!(
        other.ctl(&["get", "lock", "--print-value-only"]).unwrap(),
        "A\n"
    );
    leader.server().restart().unwrap();
    assert_eq!(
        leader.ctl(&["get", "lock", "--print-value-only"]).unwrap(),
        "A\n"
    );
}

/// One test for both: four Java machines at once are too much for two cores.
#[test]
fn zookeeper_alone_and_as_an_ensemble() {
    let alone = ZooKeeper::start().unwrap();
    assert_eq!(alone.ask("ruok").unwrap(), "imok");
    assert!(alone.ask("srvr").unwrap().contains("Mode: standalone"));
    drop(alone);

    let three = ZooKeeperThree::start().unwrap();
    let modes: Vec<String> = three
        .nodes()
        .iter()
        .map(|node| node.ask("srvr").unwrap())
        .collect();
    let followers = modes
        .iter()
        .filter(|mode| mode.contains("Mode: follower"))
        .count();
    assert_eq!(followers, 2);
    three.leader().unwrap().server().kill().unwrap();
    eventually("a new leader", || three.leader().is_some());
}

#[test]
fn postgres_answers_and_survives_a_crash() {
    let postgres = Postgres::start_with(&Setup::new().durable()).unwrap();
    postgres.sql("CREATE TABLE locks (name text)").unwrap();
    postgres.sql("INSERT INTO locks VALUES ('A')").unwrap();
    postgres.server().restart().unwrap();
    assert_eq!(postgres.sql("SELECT name FROM locks").unwrap(), "A");
    assert!(
        postgres
            .sql("SELECT nonsense")
            .unwrap_err()
            .to_string()
            .contains("nonsense")
    );
}

#[test]
fn mariadb_answers_and_survives_a_crash() {
    let mariadb = MariaDb::start_with(&Setup::new().durable()).unwrap();
    mariadb
        .sql("CREATE DATABASE lk; CREATE TABLE lk.locks (name varchar(9))")
        .unwrap();
    mariadb.sql("INSERT INTO lk.locks VALUES ('A')").unwrap();
    mariadb.server().restart().unwrap();
    assert_eq!(mariadb.sql("SELECT name FROM lk.locks").unwrap(), "A");
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let error = Redis::start_with(&Setup::new().setting("no-such-setting", "1")).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("redis ended with exit status: 1"), "{text}");
    assert!(text.contains("Bad directive"), "{text}");
}
