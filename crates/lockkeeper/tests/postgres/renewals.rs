//! Renewals that come between what another keeper reads and what it writes.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::backend::{Entry, Standing};
use lockkeeper_testbed::{Postgres, Proxy};

use crate::stage::{LEASE, backend, claim, insist, order, until};

/// One way through the proxy. Of a keeper behind it, `enter` sends its first statement at once, reads the list two ways
/// later, and writes two ways after that.
const WAY: Duration = Duration::from_millis(400);

// proves: L1, W1
#[tokio::test]
async fn a_renewal_that_was_in_time_is_seen_by_whoever_took_its_claim_for_dead() {
    for place in ["names", "claims"] {
        let mut was_in_time = false;
        for _ in 0..3 {
            was_in_time = was_in_time || the_renewal_is_seen(place).await;
        }
        assert!(
            was_in_time,
            "the machine stood still: no renewal was in time"
        );
    }
}

/// Of a claim that stands in its name's row, or in the list. False if the renewal itself came too late.
async fn the_renewal_is_seen(place: &str) -> bool {
    let server = Arc::new(Postgres::start().unwrap());
    let holder = backend(&server.url()).await;
    let proxy = Proxy::to(server.address()).unwrap();
    let far = server
        .url()
        .replace(&server.address().to_string(), &proxy.address().to_string());
    let other = backend(&far).await;
    // Everything is warm: connections are open, statements and the name are known.
    let (first, second) = (claim("warm"), claim("warm"));
    order(insist(|| other.enter(&first, Entry::Queue)).await);
    insist(|| other.enter(&second, Entry::Try)).await;
    let (held, mut next) = (claim("a"), claim("a"));
    order(insist(|| other.enter(&next, Entry::Queue)).await);
    insist(|| other.release(&next)).await;

    next.lease = Duration::from_secs(60);
    order(holder.enter(&held, Entry::Queue).await.unwrap());
    if place == "claims" {
        let behind = claim("a");
        holder.enter(&behind, Entry::Queue).await.unwrap();
        holder.release(&behind).await.unwrap();
    }
    tokio::time::sleep(LEASE / 2).await;
    // The renewal is decided while the lease is on, and committed when it would long have ended.
    let renewal = format!(
        "BEGIN; WITH renewed AS (UPDATE lockkeeper_{place} SET ends_at = clock_timestamp() + interval '60 s', \
         lease_us = 60000000 WHERE name = 'a' AND ends_at > clock_timestamp() RETURNING 1) \
         SELECT 'renewed ' || count(*) FROM renewed; SELECT pg_sleep(3.5); COMMIT"
    );
    let renewing = tokio::task::spawn_blocking({
        let server = server.clone();
        move || server.sql(&renewal).unwrap()
    });
    until("the renewal is under way", async || {
        let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        server.sql(sleeping).unwrap() == "1"
    })
    .await;
    // The commit falls between the other's reading, three ways from here, and its writing, five ways from here.
    tokio::time::sleep(Duration::from_millis(3500) - 4 * WAY).await;
    proxy.delay(WAY).unwrap();
    let told = insist(|| other.enter(&next, Entry::Queue)).await;
    if !renewing.await.unwrap().contains("renewed 1") {
        return false;
    }
    assert!(matches!(told, Standing::Waits { .. }), "two hold: {told:?}");
    order(holder.renew(&[held]).await.unwrap()[0]);
    true
}
