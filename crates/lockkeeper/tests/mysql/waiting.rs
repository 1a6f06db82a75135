//! Waiting in lease mode: how one who waits is told, and what its waiting costs the server.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Standing, Wake};

use crate::stage::{Corner, LONG, SOON, claim, order, server, soon};

/// Statements that the server has carried out.
fn questions(server: &lockkeeper_testbed::MariaDb) -> u64 {
    let row = server.sql("SHOW GLOBAL STATUS LIKE 'Questions'").unwrap();
    row.split_whitespace().last().unwrap().parse().unwrap()
}

/// Told by a push, with the number, long before it would have looked by itself.
// proves: W5, W6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_is_told_that_it_holds_by_whoever_leaves() {
    let corner = Corner::lease(server().address());
    let (one, two) = (corner.backend().await, corner.backend().await);
    let mut fastest = Duration::MAX;
    for _ in 0..5 {
        let (held, waits) = (claim("n"), claim("n"));
        order(one.enter(&held, Entry::Queue).await.unwrap());
        let mut wakes = two.wakes();
        let standing = two.enter(&waits, Entry::Queue).await.unwrap();
        assert!(matches!(standing, Standing::Waits { .. }), "{standing:?}");
        // Until it sleeps in the server.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let left = Instant::now();
        one.release(&held).await.unwrap();
        let told = soon(wakes.next()).await.unwrap();
        fastest = fastest.min(left.elapsed());
        let Wake::Holds { claim, order: told } = told else {
            panic!("{told:?}");
        };
        assert_eq!(claim, waits.id);
        assert_eq!(
            order(two.renew(std::slice::from_ref(&waits)).await.unwrap()[0]),
            told
        );
        two.release(&waits).await.unwrap();
    }
    // By itself it looks every two seconds.
    assert!(
        fastest < Duration::from_millis(500),
        "told after {fastest:?}"
    );
}

/// Users may not end each other's statements; those who wait find out by themselves.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_that_is_not_allowed_costs_two_seconds_not_a_lease() {
    let corner = Corner::lease(server().address());
    let one = corner.backend().await;
    let users =
        "CREATE USER IF NOT EXISTS other@'127.0.0.1'; GRANT ALL ON mysql.* TO other@'127.0.0.1'";
    server().sql(users).unwrap();
    let url = corner.url().replace("root@", "other@");
    let other = lockkeeper::Keeper::builder()
        .lease(LONG)
        .connect(&url)
        .await
        .unwrap();
    let guard = other.lock("n").acquire().await.unwrap();
    let waits = claim("n");
    let mut wakes = one.wakes();
    one.enter(&waits, Entry::Queue).await.unwrap();
    let left = Instant::now();
    guard.release().await.unwrap();
    let told = soon(wakes.next()).await.unwrap();
    assert!(matches!(told, Wake::Holds { .. }), "{told:?}");
    assert!(left.elapsed() < SOON / 2, "{:?}", left.elapsed());
    one.release(&waits).await.unwrap();
}

/// Twenty keepers that wait ask the server less than twice a second each.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_costs_little() {
    const WAITERS: u64 = 20;
    const WATCHED: Duration = Duration::from_secs(6);
    let server = lockkeeper_testbed::MariaDb::start().unwrap();
    let corner = Corner::lease(server.address());
    let holder = corner.keeper().await;
    let guard = holder.lock("n").lease(LONG).acquire().await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..WAITERS {
        let keeper = corner.keeper().await;
        waiters.spawn(async move {
            let guard = keeper.lock("n").lease(LONG).acquire().await.unwrap();
            guard.release().await.unwrap();
        });
    }
    let begun = Instant::now();
    while waiting(&holder, &guard).await < WAITERS as usize {
        assert!(begun.elapsed() < SOON, "they never stood in line");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (before, begun) = (questions(&server), Instant::now());
    tokio::time::sleep(WATCHED).await;
    let asked = questions(&server) - before;
    let each = asked as f64 / begun.elapsed().as_secs_f64() / WAITERS as f64;
    assert!(each < 2.0, "{each} statements a second for each");
    guard.release().await.unwrap();
    while let Some(ended) = soon(waiters.join_next()).await {
        ended.unwrap();
    }
}

async fn waiting(keeper: &lockkeeper::Keeper, guard: &lockkeeper::Guard) -> usize {
    let query = lockkeeper::backend::Query::One(guard.name().clone());
    let views = keeper.inspect(&query).await.unwrap();
    views.first().map_or(0, |view| view.waiters.len())
}
