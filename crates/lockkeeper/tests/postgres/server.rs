//! Servers that crash, stop being writable, or have their clock set.

use std::time::Duration;

use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper::guarantees::Class;
use lockkeeper::{Error, Keeper, Purpose};
use lockkeeper_testbed::{Postgres, Setup};

use crate::stage::{LEASE, SOON, backend, claim, insist, keeper, order, soon, try_backend};

const HOUR: Duration = Duration::from_secs(3600);

// proves: L3, F1, C1
#[tokio::test]
async fn grants_waiters_and_numbers_survive_a_killed_server() {
    let server = Postgres::start_with(&Setup::new().durable()).unwrap();
    let one = backend(&server.url()).await;
    assert_eq!(one.guarantees().class, Class::Durable);
    let (mut held, mut waits) = (claim("a"), claim("a"));
    (held.lease, waits.lease) = (HOUR, HOUR);
    let number = order(one.enter(&held, Entry::Queue).await.unwrap());
    one.enter(&waits, Entry::Queue).await.unwrap();
    server.server().kill().unwrap();
    server.server().restart().unwrap();
    let both = [held.clone(), waits.clone()];
    let standings = insist(|| one.renew(&both)).await;
    assert_eq!(order(standings[0]), number);
    assert!(matches!(standings[1], Standing::Waits { ahead: 1, .. }));
    assert_eq!(insist(|| one.release(&held)).await, Released::Freed);
    assert!(order(insist(|| one.renew(&both)).await[1]) > number);
    let correct = Keeper::builder().purpose(Purpose::Correctness);
    correct.connect(&server.url()).await.unwrap();
}

// proves: C1
#[tokio::test]
async fn a_server_that_does_not_flush_serves_no_correctness() {
    let server = Postgres::start().unwrap();
    let correct = Keeper::builder().purpose(Purpose::Correctness);
    let error = correct.connect(&server.url()).await.unwrap_err();
    assert!(error.to_string().contains("fsync"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_read_only_is_refused() {
    let setup = Setup::new().setting("default_transaction_read_only", "on");
    let server = Postgres::start_with(&setup).unwrap();
    let error = try_backend(&server.url()).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert!(error.to_string().contains("read-only"), "{error}");
}

/// It would only be heard of when the first lock is asked for, and a fail-over forgets what has not reached it.
#[tokio::test]
async fn a_standby_is_refused_and_passed_over_for_the_server_that_is_written_to() {
    let primary = Postgres::start().unwrap();
    let one = keeper(&primary.url()).await;
    let guard = one.lock("a").acquire().await.unwrap();
    let standby = primary.standby().unwrap();
    for mode in ["lease", "session"] {
        let url = format!("{}?mode={mode}", standby.url());
        let error = try_backend(&url).await.unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains("standby"), "{error}");
    }
    let hosts = format!("{},{}", standby.address(), primary.address());
    let two = keeper(&format!("postgres://postgres@{hosts}/postgres")).await;
    assert!(two.lock("a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let next = two.lock("a").acquire_within(SOON).await.unwrap();
    next.release().await.unwrap();
}

// proves: L7, F1
// bug 31
#[tokio::test]
async fn a_clock_that_jumps_forward_is_told_as_a_loss_and_numbers_rise() {
    let server = Postgres::start_with(&Setup::new().movable_clock()).unwrap();
    let one = keeper(&server.url()).await;
    let guard = one.lock("a").acquire().await.unwrap();
    let first = guard.token();
    server.server().clock().unwrap().forward(HOUR).unwrap();
    soon(guard.lost()).await;
    let next = one.lock("a").acquire_within(SOON).await.unwrap();
    assert!(next.token() > first);
}

// proves: L3
// bug 28, bug 31, bug 32
#[tokio::test]
async fn a_clock_that_jumps_back_keeps_the_dead_for_one_lease_and_no_longer() {
    let server = Postgres::start_with(&Setup::new().movable_clock()).unwrap();
    let (dead, one) = (backend(&server.url()).await, keeper(&server.url()).await);
    order(dead.enter(&claim("a"), Entry::Queue).await.unwrap());
    let guard = one.lock("b").acquire().await.unwrap();
    server.server().clock().unwrap().back(HOUR).unwrap();
    // Longer than two leases of waiting would mean that the hour counts.
    let next = one.lock("a").acquire_within(SOON).await.unwrap();
    next.check().unwrap();
    // Who lives notices nothing.
    tokio::time::sleep(LEASE).await;
    guard.check().unwrap();
}

// proves: L3
#[tokio::test]
async fn a_paused_server_ends_no_hold_that_it_answers_for_in_time() {
    let server = Postgres::start().unwrap();
    let one = keeper(&server.url()).await;
    let guard = one.lock("a").acquire().await.unwrap();
    server.server().pause().unwrap();
    tokio::time::sleep(LEASE / 3).await;
    server.server().resume().unwrap();
    tokio::time::sleep(LEASE).await;
    guard.check().unwrap();
    guard.release().await.unwrap();
}
