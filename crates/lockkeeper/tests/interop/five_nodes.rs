//! The npm package redlock and ours on the same five nodes: its resource is our key on each of them.

use std::time::Duration;

use lockkeeper::Keeper;
use lockkeeper_testbed::foreign::{self, Acquired, Client, Released};
use lockkeeper_testbed::{Redis, RedisFive};
use tokio::task::block_in_place;

use crate::stage::{LOCK, PATIENCE, is_busy, takes};

/// Long enough for a loaded machine, short enough to be waited for: nobody tells us of its release.
const LEASE: Duration = Duration::from_secs(6);

// proves: L1, L4, Q2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quorum_is_shared_with_npm_redlock() {
    let five = RedisFive::start().unwrap();
    let addresses: Vec<_> = five.nodes().iter().map(Redis::address).collect();
    let client = block_in_place(|| Client::npm_redlock(&addresses));
    let Some(mut foreign) = foreign::present(client).unwrap() else {
        return;
    };
    let hosts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let url = format!("redlock://{}?fresh=yes&tls=off", hosts.join(","));
    let builder = Keeper::builder().label("interop").lease(LEASE);
    let keeper = builder.connect(&url).await.unwrap();
    let resource = format!("redlock:lock:{LOCK}");
    let mut ask = |wait| block_in_place(|| foreign.acquire(&resource, wait, LEASE)).unwrap();
    let short = Duration::from_millis(400);

    let guard = takes(&keeper).await;
    let first = guard.token();
    assert_eq!(ask(short), Acquired::Busy, "two holders");
    guard.check().unwrap();
    guard.release().await.unwrap();

    assert_eq!(ask(PATIENCE), Acquired::Got);
    assert!(is_busy(&keeper).await, "two holders");
    let waiting = keeper.clone();
    let waiting = tokio::spawn(async move { takes(&waiting).await });
    tokio::time::sleep(short).await;
    assert!(!waiting.is_finished(), "two holders");
    let freed = block_in_place(|| foreign.release()).unwrap();
    assert_eq!(
        freed,
        Released::Freed,
        "it was freed under the other client"
    );
    let guard = waiting.await.unwrap();
    assert!(guard.token() > first);
    guard.release().await.unwrap();
}
