//! Clocks: the server's alone counts, and it is read by the statement that needs it.

use std::time::Duration;

use lockkeeper::backend::{Entry, Query, Released, Standing};
use lockkeeper_testbed::{MariaDb, Setup};

use crate::stage::{Corner, LEASE, LONG, SOON, claim, order, server, soon};

const HOUR: Duration = Duration::from_secs(3600);

// proves: L7, F1
// bug 31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_clock_that_is_set_forward_loses_holds_and_back_prolongs_none() {
    let server = MariaDb::start_with(&Setup::new().movable_clock()).unwrap();
    let clock = server.server().clock().unwrap();
    let corner = Corner::lease(server.address());
    let (keeper, other) = (corner.keeper().await, corner.keeper().await);
    let guard = keeper.lock("n").acquire().await.unwrap();
    clock.forward(HOUR).unwrap();
    soon(guard.lost()).await;
    let second = keeper.lock("n").acquire_within(SOON).await.unwrap();
    assert!(second.token() > guard.token());
    clock.back(2 * HOUR).unwrap();
    assert!(
        other.lock("n").try_acquire().await.unwrap().is_none(),
        "two holders"
    );
    tokio::time::sleep(LEASE).await;
    second.check().expect("renewed as ever");
    let old = second.token();
    // Whoever dies now is not remembered for two hours more.
    let backend = corner.backend().await;
    second.release().await.unwrap();
    let mut dead = claim("n");
    dead.lease = LEASE;
    order(backend.enter(&dead, Entry::Queue).await.unwrap());
    clock.back(HOUR).unwrap();
    let third = other.lock("n").acquire_within(SOON).await.unwrap();
    assert!(third.token() > old);
    third.release().await.unwrap();
}

/// The server's own locks know no clock that can be set.
// proves: L7
// bug 31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_session_mode_no_clock_matters() {
    let server = MariaDb::start_with(&Setup::new().movable_clock()).unwrap();
    let clock = server.server().clock().unwrap();
    let corner = Corner::session(server.address());
    let (keeper, other) = (corner.keeper().await, corner.keeper().await);
    let guard = keeper.lock("n").acquire().await.unwrap();
    for jump in 0..2 {
        match jump {
            0 => clock.forward(HOUR).unwrap(),
            _ => clock.back(2 * HOUR).unwrap(),
        }
        tokio::time::sleep(2 * LEASE).await;
        guard.check().expect("held");
        assert!(
            other.lock("n").try_acquire().await.unwrap().is_none(),
            "two holders"
        );
    }
    guard.release().await.unwrap();
}

/// The end of a lease is computed by the server, in the statement that writes it, in no time zone.
// bug 28, bug 29, bug 30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_zones_and_old_transactions_have_no_effect() {
    // Berlin's clocks go back an hour every autumn; the server lives in a zone, and another client in its own.
    let server = MariaDb::start_with(&Setup::new().setting("default-time-zone", "-11:30")).unwrap();
    let corner = Corner::lease(server.address());
    let backend = corner.backend().await;
    let held = claim("n");
    order(backend.enter(&held, Entry::Queue).await.unwrap());
    let left = format!(
        "SET time_zone = '+13:00'; SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), ends_at) FROM mysql.{}_names",
        corner.prefix
    );
    let left: u64 = server.sql(&left).unwrap().parse().unwrap();
    assert!((60..=LONG.as_secs()).contains(&left), "{left}");
    let view = backend.inspect(&Query::All).await.unwrap();
    assert!(view[0].holders[0].since < SOON, "{view:?}");
    // Somebody's transaction of long ago keeps the name's row: the lease counts from when it is written.
    let name = format!("mysql.{}_names", corner.prefix);
    assert_eq!(backend.release(&held).await.unwrap(), Released::Freed);
    let blocker = format!("BEGIN; SELECT * FROM {name} FOR UPDATE; SELECT SLEEP(2); COMMIT");
    let late = claim("n");
    std::thread::scope(|scope| {
        scope.spawn(|| server.sql(&blocker).unwrap());
        std::thread::sleep(Duration::from_millis(500));
    });
    let standing = backend.enter(&late, Entry::Queue).await.unwrap();
    let Standing::Holds { lease_left, .. } = standing else {
        panic!("{standing:?}");
    };
    assert!(lease_left > LONG / 2, "{lease_left:?}");
}

/// Each claim has its own length, whoever looks at it.
// bug 32
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shorter_lease_of_another_ends_nobody() {
    for corner in [
        Corner::lease(server().address()),
        Corner::session(server().address()),
    ] {
        let (one, two) = (corner.backend().await, corner.backend().await);
        let long = claim("n");
        let held = order(one.enter(&long, Entry::Queue).await.unwrap());
        let mut short = claim("n");
        short.lease = LEASE;
        assert!(matches!(
            two.enter(&short, Entry::Queue).await.unwrap(),
            Standing::Waits { .. }
        ));
        tokio::time::sleep(2 * LEASE).await;
        assert_eq!(two.renew(&[short]).await.unwrap(), [Standing::Gone]);
        assert_eq!(
            order(one.renew(std::slice::from_ref(&long)).await.unwrap()[0]),
            held
        );
        one.release(&long).await.unwrap();
    }
}
