//! What the other processes of the network engines' tests do. A role is a test that does nothing unless the stage asks
//! for it.

use std::io::Write;
use std::time::Duration;

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
        let builder = Keeper::builder().label("role").lease(ROLE_LEASE);
        let keeper = builder.connect(&url).await.unwrap();
        match role.as_str() {
            "hold" => hold(&keeper, &name).await,
            "wait" => wait(&keeper, &name).await,
            role => panic!("no role {role}"),
        }
    });
}

/// Holds the name, and says so when it does not any more.
async fn hold(keeper: &Keeper, name: &str) {
    let guard = keeper.lock(name).acquire_within(SOON).await.unwrap();
    say(&format!("holds {}", guard.token().get()));
    loop {
        // The sleep comes before the check: the first thing after a pause is to look.
        if guard.check().is_err() {
            return say("lost");
        }
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
