//! A port that accepts connections and never sends a byte: connecting to it ends, on every engine.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use lockkeeper::Keeper;

/// What docs/guarantees.md says, and time for a busy machine.
const AT_MOST: Duration = Duration::from_secs(15);

// proves: L6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_to_a_silent_port_ends_on_every_engine() {
    // The kernel accepts for as long as the listener's queue has room; there is no reader.
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [at, second, third] = listeners.each_ref().map(|one| one.local_addr().unwrap());
    let urls = [
        format!("postgres://postgres@{at}/postgres"),
        format!("postgres://postgres@{at}/postgres?mode=session"),
        format!("postgres://postgres@{at}/postgres?tls=on"),
        format!("mysql://root@{at}/test"),
        format!("mysql://root@{at}/test?mode=session"),
        format!("redis://{at}"),
        format!("redlock://{at},{second},{third}"),
        format!("etcd://{at}"),
        format!("zookeeper://{at}"),
    ];
    let mut calls = Vec::new();
    for url in urls {
        calls.push(tokio::spawn(async move {
            let start = Instant::now();
            let connected = tokio::time::timeout(AT_MOST, use_it(&url)).await;
            (url, start.elapsed(), connected)
        }));
    }
    let mut wrong = Vec::new();
    for call in calls {
        let (url, took, ended) = call.await.unwrap();
        println!("{url}: {took:?} {ended:?}");
        if ended.is_err() {
            wrong.push(url);
        }
    }
    assert!(wrong.is_empty(), "no end within {AT_MOST:?}: {wrong:?}");
}

/// Connects and, where that succeeds without the server, tries to lock.
async fn use_it(url: &str) -> String {
    let keeper = match Keeper::connect(url).await {
        Ok(keeper) => keeper,
        Err(error) => return error.to_string(),
    };
    match keeper.lock("a").try_acquire().await {
        Ok(guard) => panic!("{url}: granted by a silent port: {}", guard.is_some()),
        Err(error) => error.to_string(),
    }
}
