//! What the other processes of the network engines' tests do. A role is a test that does nothing unless the stage asks
//! for it.

use std::io::Write;
use std::time::{Duration, Instant};

use lockkeeper::Keeper;

use crate::stage::{ROLE_LEASE, SOON};

fn say(what: &str) {
    // One write, so that lines of several tasks do not mix.
    let line = format!("\nsays: {what}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

#[test]
fn play() {
    let Ok(role) = std::env::var("LOCKKEEPER_TEST_ROLE") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let name = std::env::var("LOCKKEEPER_TEST_NAME").unwrap();
        let url = std::env::var("LOCKKEEPER_TEST_URL").unwrap();
        let builder = Keeper::builder().label("role").lease(lease());
        let keeper = builder.connect(&url).await.unwrap();
        match role.as_str() {
            "hold" => hold(&keeper, &name).await,
            "wait" => wait(&keeper, &name).await,
            role => panic!("no role {role}"),
        }
    });
}

/// What the stage asks for, where that is not the usual.
fn lease() -> Duration {
    match std::env::var("LOCKKEEPER_TEST_LEASE_MS") {
        Ok(millis) => Duration::from_millis(millis.parse().unwrap()),
        Err(_) => ROLE_LEASE,
    }
}

/// Holds the name, and says so when it does not any more; or that it slept through its lease and believes on.
async fn hold(keeper: &Keeper, name: &str) {
    let guard = keeper.lock(name).acquire_within(SOON).await.unwrap();
    say(&format!("holds {}", guard.token().get()));
    // A busy machine may keep this thread waiting while others renew, but not for so long.
    let longest = lease().max(Duration::from_secs(2));
    let mut last_look = Instant::now();
    loop {
        let look = Instant::now();
        // The sleep comes before the check: the first thing after a pause is to look.
        if guard.check().is_err() {
            return say("lost");
        }
        if look - last_look > longest {
            return say("believes");
        }
        last_look = look;
        std::thread::sleep(Duration::from_millis(5));
        tokio::task::yield_now().await;
    }
}

/// Waits for the name for ever.
async fn wait(keeper: &Keeper, name: &str) {
    let lock = keeper.lock(name);
    say("waits");
    let guard = lock.acquire().await.unwrap();
    say(&format!("holds {}", guard.token().get()));
    std::future::pending().await
}
