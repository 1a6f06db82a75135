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

/// Until a statement of a keeper waits for a row.
async fn one_waits(server: &Postgres) {
    until("a keeper's statement waits", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockkeeper' AND wait_event_type = 'Lock'";
        server.sql(sql).unwrap() != "0"
    })
    .await;
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
    lock(&other, "claims", "b").await;
    let renewing = tokio::spawn({
        let (one, both) = (one.clone(), both.clone());
        async move { insist(|| one.renew(&both)).await }
    });
    one_waits(&server).await;
    // The keeper's statement has this row and waits for that one.
    soon(lock(&other, "claims", "a")).await;
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
    let rows = "SELECT string_agg(order_no::text, ',') FROM lockkeeper_claims";
    assert_eq!(server.sql(rows).unwrap(), order_of_held.to_string());
    assert_eq!(insist(|| one.release(&held)).await, Released::Freed);
}
