//! Servers that crash, restart, run out of connections, are read-only, or are members of a cluster.

use std::time::Duration;

use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper::guarantees::Class;
use lockkeeper::{Error, Keeper, Purpose};
use lockkeeper_testbed::{MariaDb, Setup};

use crate::stage::{Corner, LEASE, LONG, SOON, claim, insist, order, server, soon};

// proves: L3, F1, C1, S1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_keeps_claims_and_tokens() {
    let server = MariaDb::start_with(&Setup::new().durable()).unwrap();
    let corner = Corner::lease(server.address());
    let one = corner.backend().await;
    assert_eq!(one.guarantees().class, Class::Durable);
    let (held, waits) = (claim("n"), claim("n"));
    let old = order(one.enter(&held, Entry::Queue).await.unwrap());
    one.enter(&waits, Entry::Queue).await.unwrap();
    server.server().kill().unwrap();
    server.server().restart().unwrap();
    let both = [held.clone(), waits.clone()];
    let standings = insist(|| one.renew(&both)).await;
    assert_eq!(order(standings[0]), old);
    assert!(matches!(standings[1], Standing::Waits { ahead: 1, .. }));
    assert_eq!(insist(|| one.release(&held)).await, Released::Freed);
    assert!(order(insist(|| one.renew(&both)).await[1]) > old);
    let correct = Keeper::builder().purpose(Purpose::Correctness);
    correct.connect(&corner.url()).await.unwrap();
}

// proves: C1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_flush_serves_no_correctness() {
    let corner = Corner::lease(server().address());
    let correct = Keeper::builder().purpose(Purpose::Correctness);
    let refused = correct.connect(&corner.url()).await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, Error::Refused { .. }), "{text}");
    assert!(text.contains("innodb_flush_log_at_trx_commit"), "{text}");
}

/// Every lock is free after it, every holder is told within a second, and the number goes on.
// proves: F1, L7, S2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_session_mode_a_crash_of_the_server_ends_every_hold_and_tells() {
    let server = MariaDb::start_with(&Setup::new().durable()).unwrap();
    let corner = Corner::session(server.address());
    let keeper = corner.keeper().await;
    let guard = keeper.lock("n").lease(LONG).acquire().await.unwrap();
    server.server().kill().unwrap();
    soon(guard.lost()).await;
    server.server().restart().unwrap();
    let next = keeper.lock("n").acquire_within(SOON).await.unwrap();
    assert!(next.token() > guard.token(), "the token rises");
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_connections_is_told_apart_and_used_when_it_has_some() {
    let server = MariaDb::start_with(&Setup::new().setting("max_connections", "10")).unwrap();
    let corner = Corner::lease(server.address());
    drop(corner.backend().await);
    let mut others = Vec::new();
    let error = loop {
        match corner.connect().await {
            Ok(backend) => others.push(backend),
            Err(error) => break error,
        }
        assert!(others.len() < 50, "it has no end");
    };
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("max_connections"), "{error}");
    others.clear();
    let backend = insist(|| corner.connect()).await;
    let held = claim("n");
    order(insist(|| backend.enter(&held, Entry::Queue)).await);
    insist(|| backend.release(&held)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_server_is_told_of_and_refused_to_whoever_connects() {
    let server = MariaDb::start().unwrap();
    let corner = Corner::lease(server.address());
    server
        .sql("CREATE USER locks@'127.0.0.1'; GRANT ALL ON mysql.* TO locks@'127.0.0.1'")
        .unwrap();
    // Administrators may write all the same.
    let url = corner.url().replace("root@", "locks@");
    let keeper = Keeper::builder().lease(LEASE).connect(&url).await.unwrap();
    let guard = keeper.lock("n").acquire().await.unwrap();
    server.sql("SET GLOBAL read_only = 1").unwrap();
    // What was asked before without an answer may have been done: that it is not done now says nothing about it.
    let unknown = keeper.lock("other").try_acquire().await.unwrap_err();
    assert!(unknown.is_unknown(), "{unknown}");
    assert!(unknown.to_string().contains("read-only"), "{unknown}");
    soon(guard.lost()).await;
    let refused = Keeper::connect(&url).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("standby"), "{refused}");
    server.sql("SET GLOBAL read_only = 0").unwrap();
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    guard.release().await.unwrap();
}

/// Its members keep row locks and session locks each for itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn galera_is_refused() {
    let setup = Setup::new()
        .setting("wsrep_on", "ON")
        .setting("binlog_format", "ROW");
    let server = MariaDb::start_with(&setup).unwrap();
    for corner in [
        Corner::lease(server.address()),
        Corner::session(server.address()),
    ] {
        let refused = corner.connect().await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        assert!(refused.to_string().contains("Galera"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_server_ends_no_call_late_and_nobody_believes_for_longer_than_the_lease() {
    let server = MariaDb::start().unwrap();
    for corner in [
        Corner::lease(server.address()),
        Corner::session(server.address()),
    ] {
        let keeper = corner.keeper().await;
        let guard = keeper.lock("n").acquire().await.unwrap();
        server.server().pause().unwrap();
        let told = keeper
            .lock("m")
            .acquire_within(Duration::from_millis(300))
            .await;
        assert!(told.as_ref().is_err_and(Error::is_unknown), "{told:?}");
        soon(guard.lost()).await;
        server.server().resume().unwrap();
        let next = keeper.lock("n").acquire_within(SOON).await.unwrap();
        assert!(next.token() > guard.token());
        next.release().await.unwrap();
    }
}
