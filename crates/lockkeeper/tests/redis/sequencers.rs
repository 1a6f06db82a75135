//! What `Keeper::check` says about a sequencer whose claim has ended.

use std::time::Duration;

use lockkeeper::Validity;
use lockkeeper_testbed::{Proxy, Redis};

use crate::stage::{LONG, at, keeper, soon};

/// Puts every counter an hour ahead of the clock, so that each number is one more than the last.
fn set_counters_ahead(server: &Redis) {
    let ahead = "for _, key in ipairs(redis.call('KEYS', 'lk:{*}:order')) do
      redis.call('INCRBY', key, 3600000000) end";
    server.ask(&["EVAL", ahead, "0"]).unwrap();
}

/// The next holder's claim is stored while its reply is still on the way. It must never be visible under the number of a
/// holder that has left, since that holder's sequencer would count as valid again.
// proves: F5, L5
#[tokio::test]
async fn a_stale_sequencer_is_never_valid_while_the_next_claim_is_numbered() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let slow = keeper(&at(proxy.address()), LONG).await;
    let quick = keeper(&server.url(), LONG).await;
    slow.lock("n")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    set_counters_ahead(&server);
    for round in 0..5 {
        // From here on, `quick` takes no number of which `slow` could know, and gets the next one after that of `slow`.
        tokio::time::sleep(Duration::from_millis(60)).await;
        slow.lock("n")
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
        let guard = quick.lock("n").acquire().await.unwrap();
        let sequencer = guard.sequencer();
        guard.release().await.unwrap();
        proxy.delay_replies(Duration::from_millis(100)).unwrap();
        let next = slow.lock("n");
        let next = tokio::spawn(async move { next.acquire().await });
        let end = tokio::time::Instant::now() + Duration::from_millis(80);
        while tokio::time::Instant::now() < end {
            let validity = quick.check(&sequencer).await.unwrap();
            assert_eq!(validity, Validity::Stale, "round {round}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        proxy.heal().unwrap();
        let guard = soon(next).await.unwrap().unwrap();
        assert!(guard.token() > sequencer.token());
        let validity = quick.check(&guard.sequencer()).await.unwrap();
        assert_eq!(validity, Validity::Valid);
        guard.release().await.unwrap();
    }
}
