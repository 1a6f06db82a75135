//! Session mode over time: first uses of a name, long waits, lost connections, and the sweep.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use lockkeeper::Upkeep;
use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper_testbed::Postgres;

use crate::stage::{SOON, backend, claim, insist, keeper, order, soon, until};

fn url(server: &Postgres) -> String {
    format!("{}?mode=session", server.url())
}

/// The server checks the name and the key of a new row one after the other: a client whose insert meets that of another
/// client for the same name must not take it for a collision of keys.
// bug 81
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_first_uses_of_a_name_are_no_collision() {
    let server = Postgres::start().unwrap();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(backend(&url(&server)).await);
    }
    for round in 0..150 {
        let name = format!("new/{round}");
        let uses = clients.iter().map(|client| {
            let (client, claim) = (client.clone(), claim(&name));
            tokio::spawn(async move {
                let entered = client.enter(&claim, Entry::Try).await;
                let released = client.release(&claim).await;
                (entered, released)
            })
        });
        let mut holders = 0;
        for used in join_all(uses).await {
            let (entered, released) = used.unwrap();
            let entered = entered.unwrap_or_else(|error| panic!("round {round}: {error}"));
            if let Standing::Holds { .. } = entered {
                assert_eq!(released.unwrap(), Released::Freed);
                holders += 1;
            }
        }
        assert!(holders > 0, "round {round}: no client was granted the lock");
    }
    let rows = "SELECT count(*), count(DISTINCT lock_key) FROM lockkeeper_session_names";
    assert_eq!(server.sql(rows).unwrap(), "150|150");
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
    assert_eq!(server.sql(locks).unwrap(), "0");
}

/// The oldest transaction that the waiting session may still see: vacuum keeps every row that was deleted since.
fn oldest_seen(server: &Postgres) -> String {
    let sql = "SELECT a.backend_xmin FROM pg_locks l JOIN pg_stat_activity a USING (pid) \
               WHERE l.locktype = 'advisory' AND NOT l.granted";
    server.sql(sql).unwrap()
}

/// The loss of a connection is noticed by the end of its socket, not by the next renewal.
// proves: S2, L7
// bug 78
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_connection_ended_knows_it_about_when_the_next_is_granted() {
    let server = Postgres::start().unwrap();
    let (one, two) = (keeper(&url(&server)).await, keeper(&url(&server)).await);
    let mut longest = Duration::ZERO;
    for round in 0..20 {
        let name = format!("lost/{round}");
        let guard = one.lock(&name).acquire().await.unwrap();
        let lock = two.lock(&name);
        let waiter = tokio::spawn(async move {
            let next = lock.acquire_within(SOON).await.unwrap();
            (next, Instant::now())
        });
        until("it waits", async || !oldest_seen(&server).is_empty()).await;
        let lost = async {
            guard.lost().await;
            Instant::now()
        };
        let end = "SELECT pg_terminate_backend(pid) FROM pg_locks \
                   WHERE locktype = 'advisory' AND granted";
        let ((), lost, granted) = tokio::join!(
            async { drop(server.sql(end).unwrap()) },
            soon(lost),
            soon(waiter)
        );
        let (next, granted) = granted.unwrap();
        longest = longest.max(lost.saturating_duration_since(granted));
        next.release().await.unwrap();
    }
    assert!(longest < Duration::from_millis(100), "{longest:?}");
    for keeper in [&one, &two] {
        let said = keeper.guarantees().caveats.join("; ");
        assert!(said.contains("connection is lost"), "{said}");
        let survives = keeper.guarantees().survives.join("; ");
        assert!(!survives.contains("connection"), "{survives}");
    }
}

// proves: S2, F1
#[tokio::test]
async fn a_sweep_takes_names_without_claims_and_no_number_comes_again() {
    let server = Postgres::start().unwrap();
    let (one, two) = (backend(&url(&server)).await, backend(&url(&server)).await);
    let mut last = 0;
    // The second time, the claim stands in its name's row; its connection stays open after the release.
    for _ in 0..2 {
        let unused = claim("unused");
        last = order(one.enter(&unused, Entry::Queue).await.unwrap());
        assert_eq!(one.release(&unused).await.unwrap(), Released::Freed);
    }
    // One holder in the list with a waiter behind it, one in its name's row.
    let (held, waits) = (claim("held"), claim("held"));
    order(one.enter(&held, Entry::Queue).await.unwrap());
    two.enter(&waits, Entry::Queue).await.unwrap();
    let (before, alone) = (claim("alone"), claim("alone"));
    order(one.enter(&before, Entry::Queue).await.unwrap());
    one.release(&before).await.unwrap();
    let number = order(one.enter(&alone, Entry::Queue).await.unwrap());
    let swept = Upkeep::of(&url(&server)).unwrap().gc().await.unwrap();
    assert_eq!((swept.claims, swept.names), (0, 1));
    let names = "SELECT string_agg(name, ',' ORDER BY name) FROM lockkeeper_session_names";
    assert_eq!(server.sql(names).unwrap(), "alone,held");
    assert_eq!(order(one.renew(&[alone]).await.unwrap()[0]), number);
    let next = claim("unused");
    let again = order(one.enter(&next, Entry::Try).await.unwrap());
    assert!(
        again > last && again > number,
        "number {again} after {last}"
    );
    assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
    until("the waiter holds", async || {
        let standing = insist(|| two.enter(&waits, Entry::Queue)).await;
        matches!(standing, Standing::Holds { .. })
    })
    .await;
}

/// Clients that use names while these are swept again and again.
// proves: S2, L1, F1
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sweeps_disturb_no_client() {
    let server = Postgres::start().unwrap();
    let address = url(&server);
    let mut workers = Vec::new();
    for _ in 0..4 {
        let keeper = keeper(&address).await;
        workers.push(tokio::spawn(async move {
            let mut last = std::collections::HashMap::new();
            for turn in 0..120 {
                let name = format!("busy/{}", turn % 3);
                let guard = keeper.lock(&name).acquire_within(SOON).await.unwrap();
                let before = last.insert(name, guard.token());
                assert!(before.is_none_or(|before| guard.token() > before));
                guard.release().await.unwrap();
            }
        }));
    }
    let working = join_all(workers);
    tokio::pin!(working);
    let upkeep = Upkeep::of(&address).unwrap();
    let mut names = 0;
    loop {
        tokio::select! {
            biased;
            ended = &mut working => {
                ended.into_iter().for_each(|worker| worker.unwrap());
                break;
            }
            swept = upkeep.gc() => names += swept.unwrap().names,
        }
    }
    assert!(names > 0, "no sweep took a name");
}
