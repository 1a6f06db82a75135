//! How little is asked: nothing while nothing changes, one keep-alive for all claims, one notice per release.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::backend::{Backend, Entry, Standing};
use lockkeeper::backends::etcd::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Clock, Mode};
use lockkeeper_testbed::Etcd;
use tokio::time::{sleep, timeout};

use crate::stage::{SOON, acquires, all_leave, asked, keeper, metric, until_waiting, url, watches};

fn keep_alives(server: &Etcd) -> f64 {
    metric(server, "grpc_server_msg_received_total", "LeaseKeepAlive\"")
}

fn notices(server: &Etcd) -> f64 {
    metric(server, "etcd_debugging_mvcc_events_total", "")
}

// proves: W3, W5, W6
// bug 42, bug 43
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_ask_nothing_and_one_is_told() {
    const KEEPERS: usize = 5;
    const EACH: usize = 40;
    let server = Etcd::start().unwrap();
    let lease = Duration::from_secs(6);
    let mut keepers = Vec::new();
    for _ in 0..KEEPERS {
        keepers.push(keeper(&[server.address()]).await);
    }
    let guard = acquires(keepers[0].lock("a").fair().lease(lease)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for keeper in &keepers {
        for _ in 0..EACH {
            // The guard comes back with the result, so that the next one waits on.
            let lock = keeper.lock("a").fair().lease(lease);
            tasks.spawn(async move { lock.acquire().await.expect("granted") });
        }
    }
    until_waiting(&keepers[0], "a", KEEPERS * EACH).await;
    // Until every waiter has read the list as it is now.
    sleep(lease).await;
    let (before, kept) = (asked(&server), keep_alives(&server));
    sleep(2 * lease).await;
    let (after, kept) = (asked(&server), keep_alives(&server) - kept);
    assert_eq!(after - before, 0.0, "asked while nothing changed");
    assert!(kept >= 1.0, "nothing was kept alive");
    assert!(kept <= 12.0 * KEEPERS as f64 + 12.0, "{kept} keep-alives");

    let (before, told) = (asked(&server), notices(&server));
    guard.release().await.expect("released");
    let next = timeout(SOON, tasks.join_next()).await.expect("in time");
    let next = next.expect("there is one").expect("granted");
    sleep(Duration::from_millis(500)).await;
    // The one that is told looks, once; nobody else hears of it.
    let cost = asked(&server) - before;
    assert!(cost <= 4.0, "{cost} questions for one hand-over");
    assert!(notices(&server) - told <= 4.0, "a herd was told");
    next.check().expect("held");
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    next.release().await.expect("released");
    all_leave(keepers, &server).await;
}

fn claim(number: usize) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: format!("many/{number}").parse().unwrap(),
        mode: Mode::Exclusive,
        lease: Duration::from_secs(60),
        party: Arc::new(Party::here("test")),
    }
}

async fn enter_all(backend: &Arc<dyn Backend>, claims: &[Claim]) {
    for some in claims.chunks(100) {
        let mut tasks = tokio::task::JoinSet::new();
        for claim in some {
            let (backend, claim) = (backend.clone(), claim.clone());
            tasks.spawn(async move { backend.enter(&claim, Entry::Queue).await });
        }
        while let Some(entered) = tasks.join_next().await {
            let standing = entered.unwrap().unwrap();
            assert!(matches!(standing, Standing::Holds { .. }), "{standing:?}");
        }
    }
}

// proves: W3
// bug 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_claims_cost_one_keep_alive() {
    const CLAIMS: usize = 10_000;
    let server = Etcd::start().unwrap();
    let config = Config::from_url(&url(&[server.address()])).unwrap();
    let backend = connect(&config, Clock::system()).await.unwrap();
    let claims: Vec<Claim> = (0..CLAIMS).map(claim).collect();
    enter_all(&backend, &claims).await;
    // Others have come since each entered; the roll of their lease tells that all are there.
    let before = asked(&server);
    let batches = claims.chunks(500);
    let most = batches.len() as f64;
    for batch in batches {
        backend.renew(batch).await.unwrap();
    }
    let cost = asked(&server) - before;
    assert!(cost <= most, "{cost} questions for {most} batches");
    let (before, kept) = (asked(&server), keep_alives(&server));
    let standings = backend.renew(&claims).await.unwrap();
    let holds = |standing: &Standing| matches!(standing, Standing::Holds { .. });
    assert!(standings.iter().all(holds));
    // None, if the last batch has just had one.
    let kept = keep_alives(&server) - kept;
    assert!(kept <= 1.0, "{kept} keep-alives");
    assert_eq!(asked(&server) - before, 0.0, "and nothing else");
    // In batches, as the watchdog sends them, all at once: one or two.
    let mut tasks = tokio::task::JoinSet::new();
    let kept = keep_alives(&server);
    for batch in claims.chunks(500).map(<[Claim]>::to_vec) {
        let backend = backend.clone();
        tasks.spawn(async move { backend.renew(&batch).await });
    }
    while let Some(renewed) = tasks.join_next().await {
        assert!(renewed.unwrap().unwrap().iter().all(holds));
    }
    let kept = keep_alives(&server) - kept;
    assert!(kept <= 5.0, "{kept} keep-alives");
    drop(backend);
    let end = std::time::Instant::now() + SOON;
    while watches(&server) > 0.0 {
        assert!(std::time::Instant::now() < end, "a watch is left");
        sleep(Duration::from_millis(50)).await;
    }
    crate::stage::assert_nothing_left(&server).await;
}
