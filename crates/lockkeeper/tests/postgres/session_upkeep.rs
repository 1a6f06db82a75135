//! Session mode over time: first uses of a name.

use futures_util::future::join_all;
use lockkeeper::backend::{Entry, Released, Standing};
use lockkeeper_testbed::Postgres;

use crate::stage::{backend, claim};

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
