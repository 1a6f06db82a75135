//! What the other processes do. A role is a test that does nothing unless the stage asks for it.

use std::io::Write;

use crate::stage::{LEASE, keeper};

fn say(what: &str) {
    let line = format!("\nsays: {what}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

#[test]
fn play() {
    let Ok(role) = std::env::var("LOCKKEEPER_TEST_ROLE") else {
        return;
    };
    assert_eq!(role, "hold", "the only role");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let url = std::env::var("LOCKKEEPER_TEST_URL").unwrap();
        hold(&url).await;
    });
    runtime.shutdown_background();
}

/// Holds the name until it is lost.
async fn hold(url: &str) {
    let keeper = keeper(url, LEASE).await;
    let guard = keeper.lock("n").acquire().await.unwrap();
    say(&format!("holds {}", guard.token().get()));
    guard.lost().await;
    say("lost");
}
