//! Session mode: the server's own locks, each on a connection of its own.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper::claim::Claim;
use lockkeeper::{Error, Mode};
use lockkeeper_testbed::{Postgres, Proxy};
use tokio_postgres::NoTls;

use crate::stage::{LEASE, SOON, backend, claim, insist, keeper, order, soon, until};

fn url(server: &Postgres) -> String {
    format!("{}?mode=session", server.url())
}

fn locks(server: &Postgres) -> String {
    server
        .sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        .unwrap()
}

// proves: S2, L7
// bug 78
#[tokio::test]
async fn a_connection_that_ends_is_told_within_a_second_and_frees_the_lock() {
    let server = Postgres::start().unwrap();
    let (one, two) = (keeper(&url(&server)).await, keeper(&url(&server)).await);
    let guard = one.lock("a").acquire().await.unwrap();
    let first = guard.token();
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'";
    server.sql(ends).unwrap();
    let start = Instant::now();
    soon(guard.lost()).await;
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    let next = two.lock("a").acquire_within(SOON).await.unwrap();
    assert!(next.token() > first);
    next.release().await.unwrap();
}

// proves: S2, L3
#[tokio::test]
async fn whoever_falls_silent_holds_for_one_lease_and_no_longer() {
    let server = Postgres::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let behind = url(&server).replace(&server.address().to_string(), &proxy.address().to_string());
    let (one, two) = (backend(&behind).await, keeper(&url(&server)).await);
    let held = claim("a");
    order(one.enter(&held, Entry::Queue).await.unwrap());
    proxy.black_hole().unwrap();
    let start = Instant::now();
    let next = two.lock("a").acquire_within(SOON).await.unwrap();
    let took = start.elapsed();
    assert!(took < LEASE + Duration::from_secs(5), "{took:?}");
    next.release().await.unwrap();
}

// bug 75, bug 77
#[tokio::test]
async fn no_connection_is_used_again_with_a_lock_on_it() {
    let server = Postgres::start().unwrap();
    let one = backend(&url(&server)).await;
    for round in 0..10 {
        let (held, waits) = (claim("a"), claim("a"));
        order(insist(|| one.enter(&held, Entry::Queue)).await);
        assert_eq!(
            one.enter(&claim("a"), Entry::Try).await.unwrap(),
            Standing::Gone
        );
        insist(|| one.enter(&waits, Entry::Queue)).await;
        // Both orders: a waiter that goes, and one that is granted just then.
        let both = if round % 2 == 0 {
            [&waits, &held]
        } else {
            [&held, &waits]
        };
        for claim in both {
            assert_eq!(insist(|| one.release(claim)).await, Released::Freed);
        }
        until("no lock stays", async || locks(&server) == "0").await;
    }
    let rows = server
        .sql("SELECT count(*) FROM lockkeeper_session_locks")
        .unwrap();
    assert_eq!(rows, "0");
}

/// A name whose row somebody has deleted: the lock is asked for once more with the row, and given back whole.
// bug 75
#[tokio::test]
async fn a_row_that_vanished_leaves_no_lock_behind() {
    let server = Postgres::start().unwrap();
    let one = backend(&url(&server)).await;
    let mut last = 0;
    for _ in 0..3 {
        let held = claim("a");
        let number = order(one.enter(&held, Entry::Queue).await.unwrap());
        assert!(number > last, "number {number} after {last}");
        last = number;
        assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
        assert_eq!(locks(&server), "0");
        server.sql("DELETE FROM lockkeeper_session_names").unwrap();
    }
}

/// A gate before the server's line: while the test has this lock, no request to wait gets to the lock that it is for.
const GATE: &str = "CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS \
    'BEGIN PERFORM pg_advisory_xact_lock_shared(42); RETURN NULL; END'; \
    CREATE TRIGGER gate BEFORE UPDATE ON lockkeeper_session_claims FOR EACH STATEMENT EXECUTE FUNCTION wait_at_gate()";

/// One who is told that it waits is in the server's line, however long its request was on the way.
// proves: L12
#[tokio::test]
async fn no_reader_overtakes_a_writer_that_was_told_that_it_waits() {
    let server = Postgres::start().unwrap();
    let (one, two) = (backend(&url(&server)).await, backend(&url(&server)).await);
    let reader = || Claim {
        mode: Mode::Shared,
        ..claim("a")
    };
    let (held, writer, late) = (reader(), claim("a"), reader());
    order(one.enter(&held, Entry::Queue).await.unwrap());
    server.sql(GATE).unwrap();
    let (gate, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let shut = "SELECT pg_advisory_lock(42)";
    gate.batch_execute(shut).await.unwrap();
    match two.enter(&writer, Entry::Queue).await {
        Err(error) => assert!(error.is_unknown(), "{error}"),
        Ok(Standing::Waits { .. }) => {
            let told = one.enter(&late, Entry::Try).await.unwrap();
            assert_eq!(told, Standing::Gone, "a reader overtook the writer");
        }
        Ok(told) => panic!("there is a reader, but the writer was told {told:?}"),
    }
    let open = "SELECT pg_advisory_unlock(42)";
    gate.batch_execute(open).await.unwrap();
    let told = insist(|| two.enter(&writer, Entry::Queue)).await;
    assert!(matches!(told, Standing::Waits { .. }), "{told:?}");
    let told = one.enter(&late, Entry::Try).await.unwrap();
    assert_eq!(told, Standing::Gone, "a reader overtook the writer");
    assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
    until("the writer holds", async || {
        let told = insist(|| two.enter(&writer, Entry::Queue)).await;
        matches!(told, Standing::Holds { .. })
    })
    .await;
}

// proves: S2, F1
#[tokio::test]
async fn a_killed_server_ends_all_holds_and_numbers_rise() {
    let server = Postgres::start_with(&lockkeeper_testbed::Setup::new().durable()).unwrap();
    let one = keeper(&url(&server)).await;
    let guard = one.lock("a").acquire().await.unwrap();
    let first = guard.token();
    server.server().kill().unwrap();
    soon(guard.lost()).await;
    server.server().restart().unwrap();
    let end = Instant::now() + SOON;
    let next = loop {
        match one.lock("a").acquire_within(SOON).await {
            Ok(guard) => break guard,
            Err(error) => assert!(error.is_unknown() && Instant::now() < end, "{error}"),
        }
    };
    assert!(next.token() > first);
}

// bug 81
#[tokio::test]
async fn two_names_of_one_key_are_refused() {
    let server = Postgres::start().unwrap();
    let one = backend(&url(&server)).await;
    let held = claim("a");
    order(one.enter(&held, Entry::Queue).await.unwrap());
    one.release(&held).await.unwrap();
    // No two names are known that collide; so the row of this one is given to another.
    server
        .sql("UPDATE lockkeeper_session_names SET name = 'another'")
        .unwrap();
    let error = one.enter(&held, Entry::Queue).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("another"), "{error}");
    until("no lock stays", async || locks(&server) == "0").await;
}

// proves: C1
#[tokio::test]
async fn more_claims_than_connections_are_refused() {
    let server = Postgres::start().unwrap();
    let one = backend(&format!("{}&connections=2", url(&server))).await;
    let all = [claim("a"), claim("b"), claim("c")];
    for claim in &all[..2] {
        order(one.enter(claim, Entry::Try).await.unwrap());
    }
    let error = one.enter(&all[2], Entry::Try).await.unwrap_err();
    assert!(error.to_string().contains("connections="), "{error}");
    one.release(&all[0]).await.unwrap();
    order(one.enter(&all[2], Entry::Try).await.unwrap());
    let mut permits = claim("p");
    permits.mode = Mode::permits(1, 2).unwrap();
    let error = one.enter(&permits, Entry::Try).await.unwrap_err();
    assert!(error.to_string().contains("mode=lease"), "{error}");
}
