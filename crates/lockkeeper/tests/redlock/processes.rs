//! Holders that are other processes: paused, killed.

use std::time::Instant;

use lockkeeper_testbed::RedisFive;

use crate::stage::{LEASE, SOON, keeper, new_set, play};

// proves: L3, L7, F1, Q6
// bug 15
#[tokio::test]
async fn a_paused_holder_learns_that_it_has_lost_and_its_token_is_old() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let holder = play("hold", &url);
    let old = holder.says("holds");
    holder.stop();
    let keeper = keeper(&url, LEASE).await;
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    assert!(guard.token().get() > old);
    holder.go_on();
    holder.says("lost");
    // What it does on waking, a renewal or a release, is not for the claim of its successor.
    guard.check().unwrap();
    guard.release().await.unwrap();
}

// proves: L3
#[tokio::test]
async fn a_killed_holder_blocks_for_its_lease_and_no_longer() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s");
    let mut holder = play("hold", &url);
    let old = holder.says("holds");
    let keeper = keeper(&url, LEASE).await;
    holder.kill();
    let killed = Instant::now();
    let guard = keeper.lock("n").acquire_within(SOON).await.unwrap();
    let took = killed.elapsed();
    assert!(took < 2 * LEASE, "{took:?}");
    assert!(guard.token().get() > old);
}
