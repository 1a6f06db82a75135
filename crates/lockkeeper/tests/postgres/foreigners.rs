//! Transactions of others that lock the same rows: in the other order, or for too long.

use std::time::Duration;

use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper::claim::Claim;
use lockkeeper_testbed::{Postgres, Setup};
use tokio_postgres::{Client, NoTls};

use crate::stage::{backend, claim, insist, order, soon, until};

/// One who does not know the rules.
async fn foreigner(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    // Of two that wait for each other the one who is not this one looks, and gives way.
    let patient = "SET deadlock_timeout = '60s'";
    client.batch_execute(patient).await.unwrap();
    client
}

async fn lock(client: &Client, table: &str, name: &str) {
    let sql = format!("SELECT FROM lockkeeper_{table} WHERE name = '{name}' FOR UPDATE");
    client.batch_execute(&sql).await.unwrap();
}

/// How many statements of keepers wait for a row.
fn waiting(server: &Postgres) -> u64 {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockkeeper' AND wait_event_type = 'Lock'";
    server.sql(sql).unwrap().parse().unwrap()
}

async fn one_waits(server: &Postgres) {
    until("a keeper's statement waits", async || waiting(server) > 0).await;
}

/// How many stand in a list and have not been told that they hold.
fn not_granted(server: &Postgres) -> String {
    let sql = "SELECT count(*) FROM lockkeeper_claims WHERE granted_at IS NULL";
    server.sql(sql).unwrap()
}

fn patient(name: &str) -> Claim {
    Claim {
        lease: Duration::from_secs(60),
        ..claim(name)
    }
}

/// The server ends the keeper's statement; it is carried out again, and everybody has what they had.
// proves: L1, L4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_with_somebody_elses_transaction_is_tried_again() {
    // Its log says what was wrong, and not with which statement: that would hide it.
    let setup = Setup::new()
        .setting("log_error_verbosity", "terse")
        .setting("log_min_error_statement", "panic");
    let server = Postgres::start_with(&setup).unwrap();
    let one = backend(&server.url()).await;
    let both = [patient("a"), patient("b")];
    let mut orders = Vec::new();
    for held in &both {
        orders.push(order(one.enter(held, Entry::Queue).await.unwrap()));
    }
    let other = foreigner(&server).await;
    other.batch_execute("BEGIN").await.unwrap();
    lock(&other, "names", "b").await;
    let renewing = tokio::spawn({
        let (one, both) = (one.clone(), both.clone());
        async move { insist(|| one.renew(&both)).await }
    });
    one_waits(&server).await;
    // The keeper's statement has this row and waits for that one.
    soon(lock(&other, "names", "a")).await;
    let log = server.server().log_tail();
    assert!(log.contains("deadlock detected"), "{log}");
    other.batch_execute("COMMIT").await.unwrap();
    let standings = soon(renewing).await.unwrap();
    let found: Vec<u64> = standings.into_iter().map(order).collect();
    assert_eq!(found, orders);
    for held in &both {
        let next = claim(held.name.as_str());
        let told = insist(|| one.enter(&next, Entry::Try)).await;
        assert_eq!(told, Standing::Gone, "granted twice");
        assert_eq!(insist(|| one.release(held)).await, Released::Freed);
    }
}

/// Whoever waits too long for the row is told that nothing is known, asks again, and has the lock once.
// proves: L1, L5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_stays_locked_is_told_and_granted_once() {
    let server = Postgres::start().unwrap();
    let one = backend(&server.url()).await;
    let first = claim("a");
    order(one.enter(&first, Entry::Queue).await.unwrap());
    assert_eq!(one.release(&first).await.unwrap(), Released::Freed);
    let other = foreigner(&server).await;
    other.batch_execute("BEGIN").await.unwrap();
    lock(&other, "names", "a").await;
    let (held, next) = (claim("a"), claim("a"));
    let told = soon(one.enter(&held, Entry::Queue)).await;
    let error = told.expect_err("the row is somebody else's");
    assert!(error.is_unknown(), "{error}");
    other.batch_execute("COMMIT").await.unwrap();
    let order_of_held = order(insist(|| one.enter(&held, Entry::Queue)).await);
    assert_eq!(
        insist(|| one.enter(&next, Entry::Try)).await,
        Standing::Gone
    );
    let rows = "SELECT string_agg(order_no::text, ',') FROM lockkeeper_locks";
    assert_eq!(server.sql(rows).unwrap(), order_of_held.to_string());
    assert_eq!(insist(|| one.release(&held)).await, Released::Freed);
}

/// The last one has begun to leave and has not seen who comes; who comes has seen the last one.
// proves: W5, L1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_while_the_last_one_leaves_is_not_forgotten() {
    let server = Postgres::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    let (last, next) = (patient("a"), patient("a"));
    let old = order(one.enter(&last, Entry::Queue).await.unwrap());
    let other = foreigner(&server).await;
    other.batch_execute("BEGIN").await.unwrap();
    lock(&other, "names", "a").await;
    let leaving = tokio::spawn(async move { insist(|| one.release(&last)).await });
    one_waits(&server).await;
    let coming = tokio::spawn(async move { insist(|| two.enter(&next, Entry::Queue)).await });
    until("both wait, or one has come", async || {
        coming.is_finished() || waiting(&server) == 2
    })
    .await;
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(soon(leaving).await.unwrap(), Released::Freed);
    if let Standing::Holds { order, .. } = soon(coming).await.unwrap() {
        assert!(order > old);
    }
    assert_eq!(not_granted(&server), "0", "it waits for nobody");
}

// proves: W5, L1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_forgotten_however_leaving_and_coming_meet() {
    let server = Postgres::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    for round in 0..300_u64 {
        let name = format!("a{round}");
        let (last, next) = (patient(&name), patient(&name));
        order(one.enter(&last, Entry::Queue).await.unwrap());
        let leaving = {
            let one = one.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(10 * (round % 100))).await;
                insist(|| one.release(&last)).await
            })
        };
        insist(|| two.enter(&next, Entry::Queue)).await;
        assert_eq!(leaving.await.unwrap(), Released::Freed);
    }
    assert_eq!(not_granted(&server), "0", "some wait for nobody");
}
