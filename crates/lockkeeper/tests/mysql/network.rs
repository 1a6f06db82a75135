//! Replies that are lost, links that are cut or swallow everything, and proxies that hand connections about.

use std::time::{Duration, Instant};

use lockkeeper::Error;
use lockkeeper::backend::{Entry, Query, Released, Standing};
use lockkeeper_testbed::{Proxy, ReplyLoss};

use crate::stage::{Corner, LEASE, SOON, claim, insist, order, server, soon};

/// Asks until the reply was lost after the server had applied the question: others on the link lose theirs too.
async fn lost<T, F>(proxy: &Proxy, asked: impl Fn() -> F)
where
    F: Future<Output = Result<T, Error>>,
{
    for _ in 0..50 {
        proxy.lose(ReplyLoss::next(1).reset()).unwrap();
        let told = asked().await;
        proxy.heal().unwrap();
        if let Err(error) = told {
            assert!(error.is_unknown(), "{error}");
            return;
        }
    }
    panic!("no reply is ever lost");
}

// proves: L4, L5
// bug 58, bug 64, bug 65
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_may_lose_its_reply_and_be_asked_again() {
    let proxy = Proxy::to(server().address()).unwrap();
    let direct = Corner::lease(server().address());
    let other = direct.backend().await;
    let one = direct.through(proxy.address()).backend().await;
    let (a, b) = (claim("n"), claim("n"));
    let (only_a, only_b) = (std::slice::from_ref(&a), std::slice::from_ref(&b));
    lost(&proxy, || one.enter(&a, Entry::Queue)).await;
    let first = order(insist(|| one.enter(&a, Entry::Queue)).await);
    lost(&proxy, || one.enter(&b, Entry::Queue)).await;
    let waits = insist(|| one.enter(&b, Entry::Queue)).await;
    assert!(
        matches!(waits, Standing::Waits { ahead: 1, .. }),
        "{waits:?}"
    );
    lost(&proxy, || one.renew(only_a)).await;
    assert_eq!(order(insist(|| one.renew(only_a)).await[0]), first);
    lost(&proxy, || one.downgrade(&a)).await;
    assert_eq!(order(insist(|| one.downgrade(&a)).await), first);
    lost(&proxy, || one.release(&a)).await;
    // Whether the question was lost or its answer, nobody can say; afterwards it is certain.
    insist(|| one.release(&a)).await;
    assert_eq!(insist(|| one.release(&a)).await, Released::Gone);
    let second = order(insist(|| one.renew(only_b)).await[0]);
    assert!(second > first, "one grant each");
    lost(&proxy, || one.evict(&a.name, second, "why")).await;
    insist(|| one.evict(&a.name, second, "why")).await;
    let again = insist(|| one.evict(&a.name, second, "why")).await;
    assert_eq!(again, Released::Gone);
    assert!(other.inspect(&Query::All).await.unwrap().is_empty());
}

/// A link that swallows everything: belief ends with the lease, calls end in time, and the server lets others in when the
/// lease is over, in session mode too.
// proves: L3, L7, S2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_client_is_noticed_within_its_lease() {
    for direct in [
        Corner::lease(server().address()),
        Corner::session(server().address()),
    ] {
        let proxy = Proxy::to(server().address()).unwrap();
        let other = direct.keeper().await;
        let keeper = direct.through(proxy.address()).keeper().await;
        let guard = keeper.lock("n").acquire().await.unwrap();
        proxy.black_hole().unwrap();
        let vanished = Instant::now();
        let (next, ()) = tokio::join!(other.lock("n").acquire_within(SOON), async {
            soon(guard.lost()).await;
        });
        let next = next.unwrap();
        assert!(next.token() > guard.token(), "the token rises");
        let blocked = vanished.elapsed();
        assert!(blocked < LEASE + Duration::from_secs(10), "{blocked:?}");
        next.release().await.unwrap();
    }
}

/// Whoever is told that it holds no more is told before anybody else can hold.
// proves: L1, L7
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vanished_holder_stops_believing_before_the_next_holds() {
    for direct in [
        Corner::lease(server().address()),
        Corner::session(server().address()),
    ] {
        let proxy = Proxy::to(server().address()).unwrap();
        let other = direct.keeper().await;
        let keeper = direct.through(proxy.address()).keeper().await;
        let guard = keeper.lock("n").acquire().await.unwrap();
        proxy.black_hole().unwrap();
        let next = other.lock("n").acquire_within(SOON).await.unwrap();
        assert!(guard.check().is_err(), "two believe");
        next.release().await.unwrap();
    }
}
