//! Lease mode: what one statement does, and what many do at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper::backend::{Backend, Entry, Released, Standing};
use lockkeeper::claim::Claim;
use lockkeeper_testbed::{Postgres, Setup};

use crate::stage::{backend, claim, insist, keeper, order, soon, until};

fn statements(server: &Postgres) -> u64 {
    let sql = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'";
    server
        .sql(&format!("SELECT pg_stat_force_next_flush(); {sql}"))
        .unwrap()
        .lines()
        .last()
        .unwrap()
        .parse()
        .unwrap()
}

// proves: S1
#[tokio::test]
async fn a_lock_that_is_free_costs_one_statement_to_take_and_one_to_release() {
    let server = Postgres::start().unwrap();
    let one = backend(&server.url()).await;
    // The first use of each statement prepares it.
    let warm = claim("warm");
    one.enter(&warm, Entry::Queue).await.unwrap();
    one.release(&warm).await.unwrap();
    // A backend tells its counts when it is idle for a while.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let before = statements(&server);
    for number in 0..200 {
        let claim = claim(&format!("free/{number}"));
        order(one.enter(&claim, Entry::Queue).await.unwrap());
        assert_eq!(one.release(&claim).await.unwrap(), Released::Freed);
    }
    // Seldom: those that look at the counts are counted too.
    let mut looks = 0;
    let after = loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        looks += 1;
        assert!(looks < 20, "the counts never arrive");
        let after = statements(&server) - before;
        if after >= 400 {
            break after;
        }
    };
    let most = 440 + 10 * looks;
    assert!(
        after < most,
        "{after} statements for 200 pairs and {looks} looks"
    );
}

/// Queues, and asks until it holds.
async fn comes_to_hold(one: &dyn Backend, claim: &Claim) -> u64 {
    let mut standing = insist(|| one.enter(claim, Entry::Queue)).await;
    while let Standing::Waits { .. } = standing {
        tokio::time::sleep(Duration::from_millis(3)).await;
        standing = insist(|| one.renew(std::slice::from_ref(claim))).await[0];
    }
    order(standing)
}

// proves: L1, F1
// bug 18, bug 30
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_on_one_name_never_makes_two_holders() {
    let many = Setup::new().setting("max_connections", "200");
    let server = Arc::new(Postgres::start_with(&many).unwrap());
    let (inside, last) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let one = backend(&server.url()).await;
        let (inside, last) = (inside.clone(), last.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..40 {
                let claim = claim("one");
                let number = comes_to_hold(&*one, &claim).await;
                assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
                assert!(
                    last.fetch_max(number, Ordering::SeqCst) < number,
                    "a number fell"
                );
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                assert_eq!(insist(|| one.release(&claim)).await, Released::Freed);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(
        server.sql("SELECT count(*) FROM lockkeeper_locks").unwrap(),
        "0"
    );
}

/// Whoever holds counts from before it asked, so its row must not end before that and a lease, however long the statement
/// had to wait; nor later than a lease after the answer, and a renewal makes it whole again.
// bug 29, bug 30
#[tokio::test]
async fn a_statement_that_had_to_wait_never_dates_from_before_it_was_sent() {
    let server = Arc::new(Postgres::start().unwrap());
    let one = backend(&server.url()).await;
    let (first, mut second) = (claim("a"), claim("a"));
    second.lease = Duration::from_secs(15);
    order(one.enter(&first, Entry::Queue).await.unwrap());
    one.release(&first).await.unwrap();
    // Once by one that knows the name, once by one that does not.
    for one in [one, backend(&server.url()).await] {
        let sql = "BEGIN; SELECT 1 FROM lockkeeper_names FOR UPDATE; SELECT pg_sleep(2); COMMIT";
        let locker = tokio::task::spawn_blocking({
            let server = server.clone();
            move || server.sql(sql).unwrap()
        });
        until("the row is locked", async || {
            let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            server.sql(sleeping).unwrap() == "1"
        })
        .await;
        let sent = server.sql("SELECT clock_timestamp()").unwrap();
        let number = order(one.enter(&second, Entry::Queue).await.unwrap());
        let told = server.sql("SELECT clock_timestamp()").unwrap();
        locker.await.unwrap();
        let dated = format!(
            "SELECT entered_at BETWEEN '{sent}' AND '{told}', \
             ends_at BETWEEN '{sent}'::timestamptz + '15s' AND '{told}'::timestamptz + '15s' FROM lockkeeper_locks"
        );
        assert_eq!(server.sql(&dated).unwrap(), "t|t");
        let again = one.renew(std::slice::from_ref(&second)).await.unwrap();
        assert_eq!(order(again[0]), number);
        let whole =
            format!("SELECT ends_at >= '{told}'::timestamptz + '15s' FROM lockkeeper_locks");
        assert_eq!(server.sql(&whole).unwrap(), "t");
        one.release(&second).await.unwrap();
    }
}

// proves: W3
#[tokio::test]
async fn a_thousand_leases_are_renewed_in_two_statements() {
    let server = Postgres::start().unwrap();
    let one = backend(&server.url()).await;
    let long = |number| {
        let mut claim = claim(&format!("many/{number}"));
        claim.lease = Duration::from_secs(600);
        claim
    };
    let claims: Vec<_> = (0..1000).map(long).collect();
    for claim in &claims {
        order(insist(|| one.enter(claim, Entry::Try)).await);
    }
    let updated = "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'lockkeeper_names'";
    let standings = one.renew(&claims).await.unwrap();
    assert!(
        standings
            .iter()
            .all(|standing| matches!(standing, Standing::Holds { .. }))
    );
    until("all rows are renewed once", async || {
        let count: u64 = server.sql(updated).unwrap().parse().unwrap();
        // An entry that was asked twice is a renewal too.
        assert!(count < 1500, "{count} rows were written for 1000 renewals");
        count >= 1000
    })
    .await;
}

// proves: W5
#[tokio::test]
async fn the_next_in_line_is_told_and_need_not_ask() {
    let server = Postgres::start().unwrap();
    let (one, two) = (keeper(&server.url()).await, keeper(&server.url()).await);
    let first = one.lock("a").acquire().await.unwrap();
    let next = tokio::spawn(async move { two.lock("a").acquire().await.map(|guard| (guard, two)) });
    let waits = "SELECT count(*) FROM lockkeeper_claims WHERE granted_at IS NULL";
    until("it waits", async || server.sql(waits).unwrap() == "1").await;
    let released = std::time::Instant::now();
    first.release().await.unwrap();
    let (guard, _two) = soon(next).await.unwrap().unwrap();
    // Without the news it would have looked again at the end of the lease.
    assert!(
        released.elapsed() < Duration::from_secs(1),
        "{:?}",
        released.elapsed()
    );
    guard.release().await.unwrap();
}
