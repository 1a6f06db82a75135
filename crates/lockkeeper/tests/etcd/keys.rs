//! Which keys claims stand under. etcd passes by every key that a name ever had, until it is compacted: so they are used
//! again, but never where an old question could still touch them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Entry, Released, Standing};
use lockkeeper::backends::etcd::{Config, connect};
use lockkeeper::claim::Claim;
use lockkeeper_testbed::{Etcd, Proxy, ReplyLoss};

use crate::stage::{SOON, claim, claims, url};

async fn holds(backend: &dyn Backend, claim: &Claim) {
    let standing = backend.enter(claim, Entry::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Holds { .. }), "{standing:?}");
}

fn long() -> Claim {
    Claim {
        lease: Duration::from_secs(60),
        ..claim("a")
    }
}

// proves: L4
#[tokio::test]
async fn they_are_used_again_and_a_late_release_does_not_touch_them() {
    let server = Etcd::start().unwrap();
    let config = Config::from_url(&url(&[server.address()])).unwrap();
    let backend = connect(&config, Clock::system()).await.unwrap();
    let mut old = long();
    holds(&*backend, &old).await;
    let mut keys = BTreeSet::new();
    for _ in 0..20 {
        assert_eq!(backend.release(&old).await.unwrap(), Released::Freed);
        let next = long();
        holds(&*backend, &next).await;
        keys.extend(claims(&server));
        assert_eq!(backend.release(&old).await.unwrap(), Released::Gone);
        let standing = backend.renew(std::slice::from_ref(&next)).await.unwrap();
        assert!(matches!(standing[..], [Standing::Holds { .. }]));
        old = next;
    }
    assert_eq!(keys.len(), 2, "in turns: {keys:?}");
}

// proves: L4
#[tokio::test]
async fn they_are_not_used_again_while_a_question_may_be_under_way() {
    let server = Etcd::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let config = Config::from_url(&url(&[proxy.address()])).unwrap();
    let backend = connect(&config, Clock::system()).await.unwrap();
    let lost = long();
    holds(&*backend, &lost).await;
    let first = claims(&server);
    proxy.lose(ReplyLoss::all()).unwrap();
    let told = backend.release(&lost).await;
    assert!(told.is_err_and(|error| error.is_unknown()));
    proxy.heal().unwrap();
    let end = Instant::now() + SOON;
    while backend.release(&lost).await.is_err() {
        assert!(Instant::now() < end, "not released");
    }
    let next = long();
    while backend.enter(&next, Entry::Queue).await.is_err() {
        assert!(Instant::now() < end, "no way back");
    }
    let second = claims(&server);
    assert_eq!(second.len(), 1);
    assert_ne!(second, first, "the old release could delete it");
}
