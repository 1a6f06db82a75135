//! Many tasks at once, while somebody flushes scripts and kills connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockkeeper::{Error, Keeper};
use lockkeeper_testbed::Redis;

use crate::stage::{Checker, SOON, keeper, keys_left, soon};

/// One for each of two names.
type Checkers = [Arc<Checker>; 2];

/// How often somebody was inside.
fn entries(checkers: &Checkers) -> usize {
    let entries = checkers.iter().map(|c| c.entries.load(Ordering::SeqCst));
    entries.sum()
}

/// Lets keepers contend for two names until told to stop.
async fn contend(keepers: Vec<Keeper>, checkers: &Checkers, stop: Arc<AtomicBool>) {
    let mut tasks = Vec::new();
    for (number, keeper) in keepers.into_iter().enumerate() {
        let checker = checkers[number % 2].clone();
        let stop = stop.clone();
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let name = format!("n{}", number % 2);
                match keeper.lock(&name).acquire_within(SOON).await {
                    Ok(guard) => {
                        checker.work(&guard).await;
                        let told = guard.release().await;
                        assert!(
                            told.as_ref().err().is_none_or(Error::is_unknown),
                            "{told:?}"
                        );
                    }
                    Err(error) => assert!(error.is_unknown(), "{error}"),
                }
            }
            keeper.close().await
        }));
    }
    for task in tasks {
        let closing = soon(task).await.unwrap();
        assert!(closing.not_released.is_empty(), "{closing:?}");
    }
}

// proves: L1, F1
// bug 72
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_and_killed_connections_never_make_two_holders() {
    let server = Arc::new(Redis::start().unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let mut keepers = Vec::new();
    for _ in 0..8 {
        keepers.push(keeper(&server.url(), Duration::from_secs(5)).await);
    }
    let checkers = Checkers::default();
    let (vandal, until, seen) = (server.clone(), stop.clone(), checkers.clone());
    let vandal = tokio::task::spawn_blocking(move || {
        // A busy machine takes longer to get somebody inside between two acts.
        for act in 0..2000 {
            if act >= 100 && entries(&seen) > 100 {
                break;
            }
            vandal.ask(&["SCRIPT", "FLUSH"]).unwrap();
            std::thread::sleep(Duration::from_millis(10));
            vandal.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        until.store(true, Ordering::Relaxed);
    });
    contend(keepers, &checkers, stop).await;
    vandal.await.unwrap();
    let entries = entries(&checkers);
    assert!(entries > 100, "only {entries} times inside");
    assert_eq!(keys_left(&server), Vec::<String>::new());
}

// proves: L9
// bug 51
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_cancelled_acquires_leave_nothing() {
    let server = Redis::start().unwrap();
    let keeper = keeper(&server.url(), Duration::from_secs(60)).await;
    let guard = keeper.lock("busy").acquire().await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..200_u64 {
        let keeper = keeper.clone();
        tasks.push(tokio::spawn(async move {
            let name = if number % 2 == 0 {
                "busy".to_owned()
            } else {
                format!("n{number}")
            };
            let patience = Duration::from_micros(number * 37 % 4000);
            let acquire = keeper.lock(&name).acquire();
            let _cut_off = tokio::time::timeout(patience, acquire).await;
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    guard.release().await.unwrap();
    let clean = async {
        while !keys_left(&server).is_empty() || keeper.load().releases > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(clean).await;
}
