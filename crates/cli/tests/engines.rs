//! The same program on every engine that has a server: one day of an operator, and what goes wrong.

mod place;

use lockkeeper_testbed as testbed;
use place::{Place, until};

/// Two commands want one name; one runs, is seen, is broken; the other follows with a higher token.
fn a_day_on(engine: &str, url: &str) {
    let place = Place::on(url);
    let told = place.run(&["guarantees"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.stdout.contains(engine), "{told:?}");
    assert_eq!(place.json(&["ls", "--json"]), serde_json::json!([]));

    let holder = place.holder("orders/42", &["--lease", "10s"]);
    let busy = place.run(&["run", "orders/42", "--try", "--", "true"]);
    assert_eq!(busy.code, 75, "{busy:?}");
    let script = "echo waiting > $DIR/waiting; exec $LK run orders/42 --wait 60s -- sh -c 'echo $LOCKKEEPER_TOKEN'";
    let waiter = place::Job::start(&mut place.shell(script));
    until("it was started", || place.file("waiting").exists());

    let seen = &place.json(&["ls", "--json"])[0];
    assert_eq!(seen["name"], "orders/42");
    let held = &seen["holders"][0];
    assert_eq!(held["pid"], holder.pid().as_raw_pid());
    let token = held["token"].as_u64().unwrap();
    let sequencer = format!("lk1:x:{token}:orders/42");
    assert_eq!(place.run(&["check", &sequencer]).code, 0);

    let broken = place.run(&["break", "orders/42", "--reason", "INC-7", "--yes"]);
    assert_eq!(broken.code, 0, "{broken:?}");
    let next = waiter.finish();
    assert_eq!(next.code, 0, "{next:?}");
    let next: u64 = next.stdout.trim().parse().unwrap();
    assert!(next > token, "{next} after {token}");
    assert_eq!(place.run(&["check", &sequencer]).code, 1);

    let lost = holder.finish();
    assert_eq!(lost.code, 76, "{lost:?}");
    assert!(place.is_free("orders/42"));
}

/// Nobody is there: a clear word, an exit status of its own, and no secret in it.
fn nobody_at(url: &str) {
    let place = Place::on(url);
    for args in [
        &["ls"][..],
        &["run", "n", "--wait", "1s", "--", "true"][..],
        &["guarantees"][..],
    ] {
        let finished = place.run(args);
        assert_eq!(finished.code, 69, "{url}: {finished:?}");
        assert!(!finished.stderr.contains("hunter2"), "{finished:?}");
        assert!(finished.stderr.contains("did not answer"), "{finished:?}");
    }
}

fn list<A: ToString>(addresses: &[A]) -> String {
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    all.join(",")
}

// proves: U2, U3, L8, F1
#[test]
fn on_redis() {
    let redis = testbed::Redis::start().unwrap();
    a_day_on("redis", &redis.url());
    redis.server().kill().unwrap();
    nobody_at(&format!("redis://lk:hunter2@{}", redis.address()));
}

// proves: U2, U3, L8, F1
#[test]
fn on_redlock() {
    let five = testbed::RedisFive::start().unwrap();
    let nodes = list(&five.addresses());
    a_day_on("redlock", &format!("redlock://{nodes}?fresh=yes"));
    for node in five.nodes() {
        node.server().kill().unwrap();
    }
    nobody_at(&format!("redlock://lk:hunter2@{nodes}"));
}

// proves: U2, U3, L8, F1
#[test]
fn on_etcd() {
    let etcd = testbed::Etcd::start().unwrap();
    a_day_on("etcd", &format!("etcd://{}", etcd.address()));
    etcd.server().kill().unwrap();
    nobody_at(&format!("etcd://lk:hunter2@{}", etcd.address()));
}

// proves: U2, U3, L8, F1
#[test]
fn on_zookeeper() {
    let zookeeper = testbed::ZooKeeper::start().unwrap();
    a_day_on(
        "zookeeper",
        &format!("zookeeper://{}/locks?session=4s", zookeeper.address()),
    );
    zookeeper.server().kill().unwrap();
    nobody_at(&format!("zookeeper://lk:hunter2@{}", zookeeper.address()));
}

// proves: U2, U3, L8, F1, S1
#[test]
fn on_postgres() {
    let postgres = testbed::Postgres::start().unwrap();
    a_day_on("postgres", &postgres.url());
    let session = format!("{}?mode=session", postgres.url());
    a_day_on("postgres", &session);
    postgres.server().kill().unwrap();
    let address = postgres.address();
    nobody_at(&format!("postgres://lk:hunter2@{address}/postgres"));
}

// proves: S1
#[test]
fn an_operator_makes_tables_and_sweeps_them() {
    let postgres = testbed::Postgres::start().unwrap();
    let place = Place::on(format!("{}?create=no", postgres.url()));
    let refused = place.run(&["ls"]);
    assert_eq!(refused.code, 77, "{refused:?}");
    assert!(refused.stderr.contains("lockkeeper init"), "{refused:?}");
    let printed = place.run(&["init", "--print"]);
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(printed.stdout.contains("CREATE TABLE"), "{printed:?}");
    assert!(printed.stdout.contains("GRANT"), "{printed:?}");
    assert_eq!(place.run(&["ls"]).code, 77, "printing made them");
    for _ in 0..2 {
        let made = place.run(&["init"]);
        assert_eq!(made.code, 0, "{made:?}");
    }
    assert_eq!(place.run(&["run", "n", "--", "true"]).code, 0);
    let swept = place.run(&["gc"]);
    assert_eq!(swept.code, 0, "{swept:?}");
    assert!(
        swept
            .stdout
            .contains("0 claims of the dead, 1 unused names"),
        "{swept:?}"
    );
    let elsewhere = Place::on("memory:").run(&["gc"]);
    assert_eq!(elsewhere.code, 78, "{elsewhere:?}");
}
