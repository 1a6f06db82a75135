//! What Redisson has and the simple clients have not: hold counts, and its own watchdog.

use std::time::Duration;

use lockkeeper::Moment;
use lockkeeper_testbed::Reply;

use crate::stage::{LOCK, PATIENCE, REDISSON, Stage, is_busy, keeper, takes};

// proves: L1, L10
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_holds_are_counted() {
    let Some(mut stage) = Stage::with(&REDISSON) else {
        return;
    };
    let keeper = stage.keeper().await;
    stage.foreign.takes();
    stage.foreign.takes();
    assert!(stage.foreign.frees());
    // Once more than released: it still holds.
    assert!(is_busy(&keeper).await, "two holders");
    assert!(stage.foreign.frees());
    takes(&keeper).await.release().await.unwrap();
}

// proves: L3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_under_its_own_watchdog_is_respected() {
    let Some(mut stage) = Stage::with(&REDISSON) else {
        return;
    };
    let keeper = stage.keeper().await;
    assert!(stage.foreign.gets(PATIENCE, Duration::ZERO));
    let told = keeper.lock(LOCK).acquire_within(Duration::from_secs(1));
    assert!(told.await.is_err(), "two holders");
    assert!(stage.foreign.frees());
    takes(&keeper).await.release().await.unwrap();
}

/// What we write is what Redisson would: it counts our hold, and may ask who holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_hold_looks_like_one_of_its_own() {
    let Some(mut stage) = Stage::with(&REDISSON) else {
        return;
    };
    let shape = |reply: Reply| {
        let text = reply.text();
        let lines: Vec<&str> = text.lines().collect();
        let [field, count] = lines[..] else {
            panic!("not one field: {text}");
        };
        let (client, thread) = field.split_once(':').expect("client:thread");
        assert!(thread.parse::<u32>().is_ok(), "{field}");
        let dashes: Vec<usize> = client.match_indices('-').map(|(at, _)| at).collect();
        (client.len(), dashes, count.to_owned())
    };
    let look = |stage: &Stage| shape(stage.redis.ask(&["HGETALL", LOCK]).unwrap());
    stage.foreign.takes();
    let its = look(&stage);
    assert!(stage.foreign.frees());
    let keeper = stage.keeper().await;
    let guard = takes(&keeper).await;
    assert_eq!(look(&stage), its);
    guard.release().await.unwrap();
    assert_eq!(stage.redis.ask(&["EXISTS", LOCK]).unwrap().text(), "0");
}

/// Redisson takes the part in braces for the hash tag of the lock's channel, as it is or put around.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_in_braces_have_the_same_channel() {
    let Some(mut stage) = Stage::with(&REDISSON) else {
        return;
    };
    let keeper = keeper(&format!("{}&prefix=app:", stage.url())).await;
    for name in ["plain", "{tag}/1", "half{open"] {
        assert!(stage.foreign.gets_named(&format!("app:{name}"), PATIENCE));
        let (waiting, lock) = (keeper.clone(), name.to_owned());
        let waiting = tokio::spawn(async move {
            let lock = waiting.lock(lock).acquire_within(PATIENCE);
            lock.await.map(drop)
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!waiting.is_finished(), "two holders of {name}");
        assert!(stage.foreign.frees());
        waiting.await.unwrap().unwrap();
    }
}

/// Leases are two minutes, and nobody looks for forty seconds: only a message can be as quick as this.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_wake_across_at_once() {
    let Some(mut stage) = Stage::with(&REDISSON) else {
        return;
    };
    let keeper = stage.keeper().await;
    let (mut to_it, mut to_us) = (Vec::new(), Vec::new());
    let mut guard = takes(&keeper).await;
    for _ in 0..10 {
        stage.foreign.begins_to_wait();
        let freed = stage.now();
        guard.release().await.unwrap();
        stage.foreign.has_got();
        to_it.push(since(&stage, freed));

        let waiting = keeper.clone();
        let waiting = tokio::spawn(async move { takes(&waiting).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let freed = stage.now();
        assert!(stage.foreign.frees());
        guard = waiting.await.unwrap();
        to_us.push(since(&stage, freed));
    }
    guard.release().await.unwrap();
    for (whom, took) in [("Redisson", &mut to_it), ("us", &mut to_us)] {
        took.sort();
        println!("{whom}: median {:?}, longest {:?}", took[5], took[9]);
        assert!(took[5] < Duration::from_secs(1), "{whom}: {took:?}");
    }
}

fn since(stage: &Stage, then: Moment) -> Duration {
    stage.now() - then
}
