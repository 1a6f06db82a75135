//! Connections that end, hang, or are not to be had.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Query, Released, Standing};
use lockkeeper::{Error, HoldState};
use lockkeeper_testbed::{PgBouncer, Postgres, Proxy, ReplyLoss, Setup};

use crate::stage::{LEASE, SOON, backend, claim, insist, keeper, order, soon, try_backend, until};

const END_ALL: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'lockkeeper'";

// proves: L5, L3
#[tokio::test]
async fn connections_that_an_administrator_ends_cost_nothing() {
    let server = Postgres::start().unwrap();
    let one = keeper(&server.url()).await;
    let guard = one.lock("a").acquire().await.unwrap();
    for _ in 0..3 {
        server.sql(END_ALL).unwrap();
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    tokio::time::sleep(LEASE).await;
    guard.check().unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    let next = one.lock("b").acquire_within(SOON).await.unwrap();
    next.release().await.unwrap();
    guard.release().await.unwrap();
}

// proves: L5, L9
// bug 6
#[tokio::test]
async fn an_answer_that_is_lost_is_found_by_asking_again() {
    let server = Postgres::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let one = backend(
        &server
            .url()
            .replace(&server.address().to_string(), &proxy.address().to_string()),
    )
    .await;
    let warm = claim("warm");
    insist(|| one.enter(&warm, Entry::Queue)).await;
    insist(|| one.release(&warm)).await;
    for number in 0..5 {
        let held = claim(&format!("a{number}"));
        proxy.lose(ReplyLoss::next(1)).unwrap();
        let first = one.enter(&held, Entry::Queue).await;
        assert!(first.is_err_and(|error| error.is_unknown()));
        let found = order(insist(|| one.enter(&held, Entry::Queue)).await);
        assert_eq!(order(insist(|| one.enter(&held, Entry::Try)).await), found);
        let rows = server.sql("SELECT count(*) FROM lockkeeper_locks").unwrap();
        assert_eq!(rows, "1", "the same claim twice");
        proxy.lose(ReplyLoss::next(1)).unwrap();
        assert!(
            one.release(&held)
                .await
                .is_err_and(|error| error.is_unknown())
        );
        insist(|| one.release(&held)).await;
        assert_eq!(
            server.sql("SELECT count(*) FROM lockkeeper_locks").unwrap(),
            "0"
        );
    }
}

// proves: L7, L3
#[tokio::test]
async fn a_black_hole_loses_the_hold_in_time_and_frees_the_name() {
    let server = Postgres::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let behind = server
        .url()
        .replace(&server.address().to_string(), &proxy.address().to_string());
    let (one, two) = (keeper(&behind).await, keeper(&server.url()).await);
    let guard = one.lock("a").acquire().await.unwrap();
    let first = guard.token();
    proxy.black_hole().unwrap();
    let start = Instant::now();
    soon(guard.lost()).await;
    assert!(
        start.elapsed() <= LEASE + Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    let next = two.lock("a").acquire_within(SOON).await.unwrap();
    assert!(next.token() > first);
    proxy.heal().unwrap();
    assert!(guard.check().is_err());
    next.check().unwrap();
    next.release().await.unwrap();
}

// proves: L9
#[tokio::test]
async fn no_connection_left_is_said_and_passes() {
    let few = Setup::new().setting("max_connections", "12");
    let server = Postgres::start_with(&few).unwrap();
    let url = server.url();
    let mut all = Vec::new();
    let error = loop {
        match try_backend(&url).await {
            Ok(one) => all.push(one),
            Err(error) => break error,
        }
        assert!(all.len() < 20, "the server has no limit");
    };
    assert!(error.is_unknown(), "{error}");
    assert!(error.to_string().contains("connection"), "{error}");
    // Whoever is connected goes on.
    let held = claim("a");
    order(all[0].enter(&held, Entry::Try).await.unwrap());
    assert_eq!(all[0].release(&held).await.unwrap(), Released::Freed);
    drop(all);
    let again = insist(|| try_backend(&url)).await;
    assert!(again.inspect(&Query::All).await.unwrap().is_empty());
}

// bug 19
#[tokio::test]
async fn somebody_who_locks_the_table_delays_and_harms_nobody() {
    let server = Arc::new(Postgres::start().unwrap());
    let one = backend(&server.url()).await;
    let held = claim("a");
    order(one.enter(&held, Entry::Queue).await.unwrap());
    let sql = "BEGIN; LOCK TABLE lockkeeper_names; SELECT pg_sleep(2); COMMIT";
    let locker = tokio::task::spawn_blocking({
        let server = server.clone();
        move || server.sql(sql).unwrap()
    });
    until("the table is locked", async || {
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        server.sql(sleeping).unwrap() == "1"
    })
    .await;
    let standings = insist(|| one.renew(std::slice::from_ref(&held))).await;
    assert!(matches!(
        standings[0],
        Standing::Holds { .. } | Standing::Gone
    ));
    locker.await.unwrap();
    insist(|| one.release(&held)).await;
    let next = claim("a");
    order(insist(|| one.enter(&next, Entry::Try)).await);
}

#[tokio::test]
async fn a_wrong_password_or_database_is_told_without_the_password() {
    let server = Postgres::start().unwrap();
    let address = server.address();
    let error = try_backend(&format!("postgres://postgres:hunter2@{address}/nowhere"))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    let error2 = try_backend(&format!("postgres://nobody:hunter2@{address}/postgres"))
        .await
        .unwrap_err();
    assert!(matches!(error2, Error::Denied { .. }), "{error2}");
    for error in [error, error2] {
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    // security S1: a server without TLS is refused, not spoken to in plain text.
    let error = try_backend(&format!("postgres://postgres@{address}/postgres?tls=on"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
}

// bug 74
#[tokio::test]
async fn a_pooler_that_hands_sessions_about_is_refused() {
    let server = Postgres::start().unwrap();
    backend(&server.url()).await;
    for settings in [
        // As it comes: it refuses settings of a session.
        "",
        // Told to drop them.
        "ignore_startup_parameters = options",
        // With the same settings given on its own side.
        "ignore_startup_parameters = options\nserver_round_robin = 0\n\
         server_reset_query_always = 0",
    ] {
        let pooler = PgBouncer::before(&server, settings).unwrap();
        for mode in ["lease", "session&prefix=other"] {
            let url = format!("{}?mode={mode}", pooler.url());
            let error = try_backend(&url).await.unwrap_err();
            assert!(
                matches!(error, Error::Refused { .. }),
                "{settings}: {error}"
            );
            assert!(error.to_string().contains("pooler"), "{settings}: {error}");
        }
        // What would hide the dropped settings: the role has them.
        if settings.contains("round_robin") {
            server
                .sql("ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'")
                .unwrap();
            let pooler = PgBouncer::before(&server, settings).unwrap();
            let error = try_backend(&pooler.url()).await.unwrap_err();
            assert!(error.to_string().contains("pooler"), "{error}");
        }
    }
}
