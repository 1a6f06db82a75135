//! Who is alone in a list stands in the name's row, and moves to the claims when somebody else comes.

use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper::Upkeep;
use lockkeeper::backend::{Backend, Entry, Query, Released, Standing};
use lockkeeper_testbed::Postgres;
use tokio_postgres::NoTls;

use crate::stage::{LEASE, backend, claim, insist, order, try_backend, until};

/// The state of the only name, and how many are among the claims.
fn row(server: &Postgres) -> String {
    let sql = "SELECT state, (SELECT count(*) FROM lockkeeper_claims) FROM lockkeeper_names";
    server.sql(sql).unwrap()
}

async fn renewed(one: &dyn Backend, claim: &lockkeeper::claim::Claim) -> Standing {
    one.renew(std::slice::from_ref(claim)).await.unwrap()[0]
}

// proves: L1, L4, F1
#[tokio::test]
async fn one_who_is_alone_moves_when_somebody_comes_and_keeps_number_and_lease() {
    for renews in [false, true] {
        let server = Postgres::start().unwrap();
        let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
        let (mut held, next, third) = (claim("n"), claim("n"), claim("n"));
        held.lease = Duration::from_secs(600);
        let first = order(one.enter(&held, Entry::Queue).await.unwrap());
        assert_eq!(row(&server), "alone|0");
        let tried = two.enter(&next, Entry::Try).await.unwrap();
        assert_eq!(tried, Standing::Gone);
        assert_eq!(row(&server), "alone|0", "a try changes nothing");
        let waits = two.enter(&next, Entry::Queue).await.unwrap();
        let Standing::Waits {
            ahead: 1,
            look_again_in,
        } = waits
        else {
            panic!("{waits:?}");
        };
        assert!(look_again_in > Duration::from_secs(500), "its lease");
        assert_eq!(row(&server), "list|2");
        let shown = one.inspect(&Query::One(held.name.clone())).await.unwrap();
        assert_eq!((shown[0].holders.len(), shown[0].waiters.len()), (1, 1));
        if renews {
            assert_eq!(order(renewed(&*one, &held).await), first, "where it is now");
        }
        assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
        let second = order(renewed(&*two, &next).await);
        assert_eq!(two.release(&next).await.unwrap(), Released::Freed);
        assert_eq!(row(&server), "free|0");
        let last = order(one.enter(&third, Entry::Try).await.unwrap());
        assert_eq!(row(&server), "alone|0", "alone again");
        assert_eq!(one.release(&third).await.unwrap(), Released::Freed);
        assert_eq!(one.release(&third).await.unwrap(), Released::Gone);
        assert!(first < second && second < last, "{first} {second} {last}");
        assert_eq!(row(&server), "free|0");
    }
}

/// Nobody is followed before the end of its lease; somebody who is, is told.
// proves: L1, L3, L8
#[tokio::test]
async fn one_who_is_alone_and_dead_is_followed_and_told() {
    let server = Postgres::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    let (dead, next) = (claim("n"), claim("n"));
    let old = order(one.enter(&dead, Entry::Queue).await.unwrap());
    assert_eq!(two.enter(&next, Entry::Try).await.unwrap(), Standing::Gone);
    tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
    assert_eq!(renewed(&*one, &dead).await, Standing::Gone, "it has ended");
    assert!(order(two.enter(&next, Entry::Try).await.unwrap()) > old);
    assert_eq!(renewed(&*one, &dead).await, Standing::Gone);
    assert_eq!(one.release(&dead).await.unwrap(), Released::Gone);
    order(renewed(&*two, &next).await);
    // One that has ended and was followed by nobody is told, too.
    assert_eq!(two.release(&next).await.unwrap(), Released::Freed);
    let last = claim("n");
    order(two.enter(&last, Entry::Try).await.unwrap());
    tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
    assert_eq!(two.release(&last).await.unwrap(), Released::Gone);
}

/// For names that were never used and for those that were.
// proves: L1, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_who_come_at_once_one_holds() {
    let server = Postgres::start().unwrap();
    let url = server.url();
    let backends = join_all((0..4).map(|_| backend(&url))).await;
    let mut last = 0;
    for round in 0..60_u64 {
        let name = format!("n{}", round / 3);
        let claims: Vec<_> = backends.iter().map(|_| claim(&name)).collect();
        let all = backends.iter().zip(&claims);
        let all = all.map(|(one, claim)| insist(move || one.enter(claim, Entry::Try)));
        let told = join_all(all).await;
        let holds = (0..told.len()).filter(|place| told[*place] != Standing::Gone);
        let holds: Vec<usize> = holds.collect();
        assert_eq!(holds.len(), 1, "round {round}: {told:?}");
        let number = order(told[holds[0]]);
        assert!(number > last, "number {number} after {last}");
        last = number;
        let released = backends[holds[0]].release(&claims[holds[0]]).await.unwrap();
        assert_eq!(released, Released::Freed);
    }
}

/// Somebody on the way to a row that is not there has a number already: names stay until it has arrived.
// proves: F1
#[tokio::test]
async fn names_are_not_forgotten_while_somebody_is_on_the_way_to_one() {
    let server = Postgres::start().unwrap();
    let one = backend(&server.url()).await;
    let used = claim("n");
    order(one.enter(&used, Entry::Queue).await.unwrap());
    one.release(&used).await.unwrap();
    let (other, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let coming = "BEGIN; INSERT INTO lockkeeper_names (name, version) VALUES ('other', nextval('lockkeeper_order'))";
    other.batch_execute(coming).await.unwrap();
    let upkeep = Upkeep::of(&server.url()).unwrap();
    assert_eq!(upkeep.gc().await.unwrap().names, 0);
    other.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(upkeep.gc().await.unwrap().names, 1);
    // The keeper remembers the name; it is made again.
    order(one.enter(&used, Entry::Queue).await.unwrap());
    assert_eq!(row(&server), "list|1");
    one.release(&used).await.unwrap();
    assert_eq!(row(&server), "free|0");
}

/// Tables of version 1 are refused, and what the decision tells operators to do carries their numbers over.
// proves: F1
#[tokio::test]
async fn the_numbers_of_version_1_are_carried_over_as_is_told() {
    let server = Postgres::start().unwrap();
    let old = "CREATE SEQUENCE lockkeeper_order START 42; \
        CREATE TABLE lockkeeper_names (name text PRIMARY KEY, version bigint NOT NULL, lock_key bigint UNIQUE); \
        CREATE TABLE lockkeeper_claims (name text NOT NULL, order_no bigint NOT NULL, PRIMARY KEY (name, order_no)); \
        CREATE TABLE lockkeeper_broken (broken_at timestamptz NOT NULL, name text NOT NULL, order_no bigint NOT NULL, \
            label text NOT NULL, host text NOT NULL, pid bigint NOT NULL, why text NOT NULL); \
        CREATE TABLE lockkeeper_meta (only_row boolean PRIMARY KEY, version integer NOT NULL, kind text NOT NULL); \
        INSERT INTO lockkeeper_names VALUES ('n', 41, NULL); INSERT INTO lockkeeper_meta VALUES (true, 1, 'lease')";
    server.sql(old).unwrap();
    let upkeep = Upkeep::of(&server.url()).unwrap();
    for refused in [
        try_backend(&server.url()).await.map(drop),
        upkeep.init().await,
    ] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("version 1"), "{refused}");
        assert!(refused.contains("0044"), "{refused}");
    }
    let decision =
        include_str!("../../../../docs/decisions/0044-postgres-who-is-alone-stands-in-the-row.md");
    let told = decision.split("```").find_map(|it| it.strip_prefix("sql"));
    let (told, _) = told.unwrap().split_once("-- now: lockkeeper init").unwrap();
    server.sql(told).unwrap();
    upkeep.init().await.unwrap();
    let one = backend(&server.url()).await;
    let next = claim("n");
    assert!(order(one.enter(&next, Entry::Try).await.unwrap()) >= 42);
}

/// Broken while it is alone, with a lease or with a lock of the server's own.
// proves: U3
#[tokio::test]
async fn one_who_is_alone_is_seen_and_broken() {
    let server = Postgres::start().unwrap();
    for mode in ["lease", "session"] {
        let url = format!("{}?mode={mode}&prefix={mode}", server.url());
        let (one, two) = (backend(&url).await, backend(&url).await);
        // Not the first use of the name.
        for _ in 0..2 {
            let held = claim("n");
            order(insist(|| one.enter(&held, Entry::Queue)).await);
            one.release(&held).await.unwrap();
        }
        let locks = format!("SELECT order_no, label, pid FROM {mode}_locks");
        assert_eq!(server.sql(&locks).unwrap(), "");
        let held = claim("n");
        let number = order(one.enter(&held, Entry::Queue).await.unwrap());
        let state = format!("SELECT state FROM {mode}_names");
        assert_eq!(server.sql(&state).unwrap(), "alone");
        let told = format!("{number}|test|{}", std::process::id());
        assert_eq!(server.sql(&locks).unwrap(), told);
        let other = two.evict(&held.name, number + 1, "not it").await.unwrap();
        assert_eq!(other, Released::Gone);
        let broken = two.evict(&held.name, number, "it hangs").await.unwrap();
        assert_eq!(broken, Released::Freed);
        let broken = format!("SELECT order_no, why FROM {mode}_broken");
        assert_eq!(server.sql(&broken).unwrap(), format!("{number}|it hangs"));
        until("it is gone", async || {
            renewed(&*one, &held).await == Standing::Gone
        })
        .await;
        assert_eq!(server.sql(&locks).unwrap(), "");
        let next = claim("n");
        assert!(order(insist(|| two.enter(&next, Entry::Try)).await) > number);
    }
}

/// Somebody breaks a claim and has to wait for its row. Meanwhile the claim leaves, and its connection is wanted for another,
/// which must not be ended in its place.
// proves: L1, U3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn breaking_one_who_has_left_does_no_harm_to_whoever_has_its_connection() {
    let server = Postgres::start().unwrap();
    let url = format!("{}?mode=session", server.url());
    let (one, two) = (backend(&url).await, backend(&url).await);
    for after in ["a", "b"] {
        // Not the first use of the names.
        for name in ["a", "b"] {
            let used = claim(name);
            order(insist(|| one.enter(&used, Entry::Queue)).await);
            assert_eq!(one.release(&used).await.unwrap(), Released::Freed);
        }
        let (mut held, mut next) = (claim("a"), claim(after));
        (held.lease, next.lease) = (Duration::from_secs(60), Duration::from_secs(60));
        let number = order(one.enter(&held, Entry::Queue).await.unwrap());
        let (other, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        let lock = "BEGIN; SELECT FROM lockkeeper_session_names WHERE name = 'a' FOR UPDATE";
        other.batch_execute(lock).await.unwrap();
        let waiting = || {
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            server.sql(sql).unwrap().parse::<u64>().unwrap()
        };
        let breaking = tokio::spawn({
            let (two, name) = (two.clone(), held.name.clone());
            async move { insist(|| two.evict(&name, number, "it hangs")).await }
        });
        until("it waits for the row", async || waiting() == 1).await;
        assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
        let entering = tokio::spawn({
            let (one, next) = (one.clone(), next.clone());
            async move { insist(|| one.enter(&next, Entry::Queue)).await }
        });
        until("it holds, or waits for the row, too", async || {
            entering.is_finished() || waiting() == 2
        })
        .await;
        other.batch_execute("COMMIT").await.unwrap();
        breaking.await.unwrap();
        let told = order(entering.await.unwrap());
        let renewed = renewed(&*one, &next).await;
        assert_eq!(order(renewed), told, "ended in another's place");
        assert_eq!(one.release(&next).await.unwrap(), Released::Freed);
    }
}
