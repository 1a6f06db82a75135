//! Session mode: whose connection it is, and when it ends.

use std::time::{Duration, Instant};

use lockkeeper::Error;
use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper_testbed::{MariaDb, Setup};

use crate::stage::{Corner, LEASE, LONG, SOON, claim, order, server, soon, until};

/// The connection that has the one lock of these tables.
fn holding_connection(corner: &Corner) -> String {
    let sql = format!(
        "SELECT COALESCE(MAX(IS_USED_LOCK(lock_name)), 0) FROM mysql.{}_names",
        corner.prefix
    );
    server().sql(&sql).unwrap()
}

/// How many session locks of these tables there are, and claims that wait.
fn left(corner: &Corner) -> String {
    let prefix = &corner.prefix;
    let sql = format!(
        "SELECT (SELECT COUNT(*) FROM mysql.{prefix}_names WHERE IS_USED_LOCK(lock_name) IS NOT NULL) + \
         (SELECT COUNT(*) FROM mysql.{prefix}_claims WHERE wait_lock IS NOT NULL)"
    );
    server().sql(&sql).unwrap()
}

/// An administrator ends the connection: the holder is told within a second, and the server has freed the lock.
// proves: S2, L7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_killed_is_a_loss_that_is_told() {
    let corner = Corner::session(server().address());
    let (one, two) = (corner.keeper().await, corner.keeper().await);
    let mut fastest = Duration::MAX;
    // The best of several: a busy machine may be late once, what is not told is late each time.
    for _ in 0..3 {
        let guard = one
            .lock("n")
            .lease(LONG)
            .acquire_within(SOON)
            .await
            .unwrap();
        let connection = holding_connection(&corner);
        let killed = Instant::now();
        server().sql(&format!("KILL {connection}")).unwrap();
        soon(guard.lost()).await;
        fastest = fastest.min(killed.elapsed());
        let next = two.lock("n").acquire_within(SOON).await.unwrap();
        assert!(next.token() > guard.token(), "the token rises");
        next.release().await.unwrap();
    }
    assert!(fastest < Duration::from_secs(1), "told after {fastest:?}");
}

/// The server ends silent sessions soon; the keeper is never silent for that long.
// bug 78
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_holder_outlives_the_servers_wait_timeout() {
    let server = MariaDb::start_with(&Setup::new().setting("wait_timeout", "1")).unwrap();
    let corner = Corner::session(server.address());
    let (keeper, other) = (corner.keeper().await, corner.keeper().await);
    let guard = keeper.lock("n").lease(LONG).acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    guard.check().expect("held");
    assert!(
        other.lock("n").try_acquire().await.unwrap().is_none(),
        "two holders"
    );
    guard.release().await.unwrap();
    // What rested meanwhile is ended by the server, and is not relied on.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    guard.release().await.unwrap();
}

/// The lock is freed on the connection that took it, and a connection goes back without any.
// bug 75, bug 76, bug 77
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_lock_stays_on_a_connection_that_is_used_again() {
    let corner = Corner::session(server().address());
    let (one, two) = (corner.keeper().await, corner.keeper().await);
    let lock = |keeper: &lockkeeper::Keeper| keeper.lock("n").lease(LONG);
    for round in 0..20_u64 {
        let guard = lock(&one).acquire().await.unwrap();
        let patience = Duration::from_millis(5);
        let waiting = tokio::spawn(lock(&two).acquire_within(patience));
        tokio::time::sleep(Duration::from_micros(4_000 + 100 * round)).await;
        guard.release().await.unwrap();
        match waiting.await.unwrap() {
            Ok(guard) => guard.release().await.unwrap(),
            Err(error) => assert!(
                matches!(error, Error::Timeout { .. } | Error::Unreachable { .. }),
                "{error}"
            ),
        }
        // Dropped in the middle of asking.
        drop(tokio::time::timeout(Duration::from_micros(300 * round), lock(&one).acquire()).await);
        until("everything is given back", || left(&corner) == "0").await;
    }
}

/// Signs of life, releases and renewals of one claim never meet on its connection.
// bug 82
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proofs_and_a_release_do_not_race() {
    let corner = Corner::session(server().address());
    let backend = corner.backend().await;
    for _ in 0..20 {
        let held = claim("n");
        let old = order(backend.enter(&held, Entry::Queue).await.unwrap());
        let batch = std::slice::from_ref(&held);
        let (one, two, released, three) = tokio::join!(
            backend.renew(batch),
            backend.renew(batch),
            backend.release(&held),
            backend.renew(batch),
        );
        for told in [one, two, three] {
            let told = told.unwrap()[0];
            let right = matches!(told, Standing::Gone) || order(told) == old;
            assert!(right, "{told:?}");
        }
        assert_eq!(released.unwrap(), Released::Freed);
        assert_eq!(left(&corner), "0");
    }
}

/// Two names of one key are refused, not mixed up: here the row says that the key is another name's.
// bug 81
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_collide_are_refused() {
    let corner = Corner::session(server().address());
    let backend = corner.backend().await;
    let held = claim("n");
    order(backend.enter(&held, Entry::Queue).await.unwrap());
    let other = format!("UPDATE mysql.{}_names SET name = 'other'", corner.prefix);
    // While it is held, and when it is free.
    server().sql(&other).unwrap();
    for entry in [Entry::Try, Entry::Queue] {
        let told = backend.enter(&claim("n"), entry).await.unwrap_err();
        assert!(matches!(told, Error::Refused { .. }), "{told}");
        assert!(told.to_string().contains("other"), "{told}");
    }
    backend.release(&held).await.unwrap();
    let newcomer = corner.backend().await;
    let told = newcomer.enter(&claim("n"), Entry::Try).await.unwrap_err();
    assert!(matches!(told, Error::Refused { .. }), "{told}");
    until("nothing stays locked", || left(&corner) == "0").await;
}

/// A wait in the server goes in turns; the end of one is no grant.
// proves: L1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_of_several_turns_ends_with_the_lock_and_not_before() {
    let corner = Corner::session(server().address());
    let (one, two) = (corner.keeper().await, corner.keeper().await);
    let guard = one.lock("n").lease(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(two.lock("n").lease(LEASE).acquire_within(SOON));
    // A turn is half a lease: one second.
    tokio::time::sleep(LEASE * 2).await;
    assert!(!waiting.is_finished(), "two holders");
    let token = guard.token();
    guard.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > token, "the token rises");
    next.release().await.unwrap();
}

/// Rows that count no more go: soon after a release, and those of a process that died with the next who uses the name.
// proves: S1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_count_no_more_go() {
    let corner = Corner::session(server().address());
    let rows = || {
        let sql = format!("SELECT COUNT(*) FROM mysql.{}_claims", corner.prefix);
        server().sql(&sql).unwrap()
    };
    let backend = corner.backend().await;
    let mut last = 0;
    for _ in 0..200 {
        let held = claim("n");
        let number = order(backend.enter(&held, Entry::Queue).await.unwrap());
        assert!(number > last, "{number} after {last}");
        last = number;
        backend.release(&held).await.unwrap();
    }
    let left: usize = rows().parse().unwrap();
    assert!(left < 150, "{left} rows of 200 claims");
    until("what was given back goes", || rows() == "0").await;
    let of_the_dead = format!(
        "INSERT INTO mysql.{prefix}_claims (lock_name, wait_lock, waited_no, connection, lease_us, since_at, label, host, pid) \
         SELECT lock_name, wait, 0, 999999, 1, UTC_TIMESTAMP(6), '', '', 1 FROM mysql.{prefix}_names, \
         (SELECT NULL AS wait UNION SELECT 'lockkeeper.wait.dead') AS waits",
        prefix = corner.prefix
    );
    server().sql(&of_the_dead).unwrap();
    let (newcomer, held) = (corner.backend().await, claim("n"));
    let number = order(newcomer.enter(&held, Entry::Queue).await.unwrap());
    assert!(number > last, "{number} after {last}");
    until("only the holder's is left", || rows() == "1").await;
    newcomer.release(&held).await.unwrap();
}

/// Whoever takes the names out of the table does not shut those out who have used them before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_taken_out_is_met_again() {
    let corner = Corner::session(server().address());
    let backend = corner.backend().await;
    let held = claim("n");
    order(backend.enter(&held, Entry::Queue).await.unwrap());
    let names = format!("mysql.{}_names", corner.prefix);
    server().sql(&format!("DELETE FROM {names}")).unwrap();
    let told = backend.enter(&claim("n"), Entry::Try).await.unwrap();
    assert_eq!(told, Standing::Gone);
    let rows = server().sql(&format!("SELECT COUNT(*) FROM {names}"));
    assert_eq!(rows.unwrap(), "1");
    backend.release(&held).await.unwrap();
}

// bug 80
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_names_are_locks_of_their_own() {
    let corner = Corner::session(server().address());
    let backend = corner.backend().await;
    let long = "x".repeat(255);
    let (one, two) = (claim(&format!("{long}1")), claim(&format!("{long}2")));
    order(backend.enter(&one, Entry::Try).await.unwrap());
    order(backend.enter(&two, Entry::Try).await.unwrap());
    let again = backend
        .enter(&claim(&format!("{long}1")), Entry::Try)
        .await
        .unwrap();
    assert_eq!(again, Standing::Gone);
    backend.release(&one).await.unwrap();
    backend.release(&two).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_claims_than_connections_are_refused() {
    let corner = Corner::session(server().address());
    let url = format!("{}&connections=3", corner.url());
    let keeper = lockkeeper::Keeper::connect(&url).await.unwrap();
    let mut guards = Vec::new();
    for name in ["a", "b", "c"] {
        guards.push(keeper.lock(name).lease(LEASE).acquire().await.unwrap());
    }
    let refused = keeper.lock("d").try_acquire().await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("connections=N"), "{refused}");
    for guard in guards {
        guard.release().await.unwrap();
    }
    keeper
        .lock("d")
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

/// An operator breaks a claim and is slow: its keeper has given it back meanwhile, and its connection could be another
/// claim's.
// proves: S2, L1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn breaking_a_claim_never_hits_the_next_one_on_its_connection() {
    let corner = Corner::session(server().address());
    let (one, operator) = (corner.backend().await, corner.backend().await);
    let (held, next) = (claim("a"), claim("b"));
    let number = order(one.enter(&held, Entry::Queue).await.unwrap());
    // Breaking leaves a note, which has to wait.
    let prefix = &corner.prefix;
    let lock = format!("LOCK TABLES mysql.{prefix}_broken WRITE; DO SLEEP(2), 'of {prefix}'");
    let locking = tokio::task::spawn_blocking(move || server().sql(&lock).unwrap());
    let seen = |what: &str| {
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '{what}%' AND INFO LIKE '%{prefix}%'"
        );
        server().sql(&sql).unwrap() != "0"
    };
    until("the notes are locked", || seen("DO SLEEP")).await;
    let breaking = tokio::spawn(async move {
        let name = "a".parse().unwrap();
        operator.evict(&name, number, "test").await
    });
    until("the note waits", || seen("INSERT INTO")).await;
    assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
    let number = order(one.enter(&next, Entry::Queue).await.unwrap());
    soon(breaking).await.unwrap().unwrap();
    soon(locking).await.unwrap();
    let standings = one.renew(std::slice::from_ref(&next)).await.unwrap();
    assert_eq!(order(standings[0]), number, "its connection was ended");
    assert_eq!(one.release(&next).await.unwrap(), Released::Freed);
}
