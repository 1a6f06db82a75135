//! Who is told to hold, without another question: only whoever is next in line when the one ahead leaves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Entry, Query, Released, Standing, Wake, Wakes};
use lockkeeper::backends::etcd::{Config, connect};
use lockkeeper::claim::Claim;
use lockkeeper_testbed::Etcd;
use tokio::time::{sleep, timeout};

use crate::stage::{SOON, asked, assert_nothing_left, claim, claims, url, watches};

async fn backend(server: &Etcd) -> Arc<dyn Backend> {
    let config = Config::from_url(&url(&[server.address()])).unwrap();
    connect(&config, Clock::system()).await.unwrap()
}

fn long() -> Claim {
    Claim {
        lease: Duration::from_secs(60),
        ..claim("a")
    }
}

async fn enters(backend: &Arc<dyn Backend>, claim: &Claim) -> Standing {
    backend.enter(claim, Entry::Queue).await.unwrap()
}

/// What the claim is told next, but for what is told to all.
async fn told(wakes: &mut Wakes) -> Wake {
    loop {
        let wake = timeout(SOON, wakes.next()).await.expect("a push");
        match wake.expect("the backend is there") {
            Wake::LookAll => {}
            wake => return wake,
        }
    }
}

/// Others that take and give back names of their own, as fast as they can.
struct Busy(Vec<tokio::task::JoinHandle<()>>, Arc<AtomicBool>);

impl Busy {
    async fn begin(server: &Etcd) -> Self {
        let (other, over) = (backend(server).await, Arc::new(AtomicBool::new(false)));
        let cycles = (0..8).map(|number| {
            let (other, over) = (other.clone(), over.clone());
            let mine = Claim {
                name: format!("own/{number}").parse().unwrap(),
                ..long()
            };
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    enters(&other, &mine).await;
                    other.release(&mine).await.unwrap();
                }
            })
        });
        Self(cycles.collect(), over)
    }

    async fn end(self) {
        self.1.store(true, Ordering::Relaxed);
        for cycle in self.0 {
            cycle.await.unwrap();
        }
    }
}

/// The first waiter is broken, then the holder leaves: the broken one is not taken for the next holder, not even until
/// the list is read again; also where the holder has waited itself, and says that it holds. Others write all the while: a
/// watch that begins just then tells up to 100 ms later than its neighbours.
// proves: L1, U3
// bug 47
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_was_broken_is_never_told_that_it_holds() {
    let server = Etcd::start().unwrap();
    let (one, two, three) = (
        backend(&server).await,
        backend(&server).await,
        backend(&server).await,
    );
    let busy = Busy::begin(&server).await;
    for round in 0..120 {
        let (held, broken, next) = (long(), long(), long());
        let (mut wakes, mut nexts) = (two.wakes(), three.wakes());
        match round % 2 {
            0 => {
                let standing = enters(&one, &held).await;
                assert!(matches!(standing, Standing::Holds { .. }), "{standing:?}");
                enters(&two, &broken).await;
            }
            _ => comes_after_another(&one, &held, enters(&two, &broken)).await,
        }
        let query = Query::One(held.name.clone());
        let order = one.inspect(&query).await.unwrap()[0].waiters[0]
            .token
            .order();
        enters(&three, &next).await;
        // Watches are set behind the answers' backs.
        sleep(Duration::from_millis(5)).await;
        one.evict(&broken.name, order, "a test").await.unwrap();
        one.release(&held).await.unwrap();
        assert_eq!(told(&mut wakes).await, Wake::Look(broken.id), "two holders");
        let (Wake::Look(id) | Wake::Holds { claim: id, .. }) = told(&mut nexts).await else {
            panic!("not for the next");
        };
        assert_eq!(id, next.id);
        let standing = three.renew(std::slice::from_ref(&next)).await.unwrap();
        assert!(matches!(standing[..], [Standing::Holds { .. }]));
        assert_eq!(two.renew(&[broken]).await.unwrap(), [Standing::Gone]);
        assert_eq!(three.release(&next).await.unwrap(), Released::Freed);
    }
    busy.end().await;
    drop((one, two, three));
    // The records of the breaks stay for a day, each by a lease.
    let end = Instant::now() + SOON;
    while !claims(&server).is_empty() || watches(&server) > 0.0 {
        assert!(Instant::now() < end, "{:?}", claims(&server));
        sleep(Duration::from_millis(50)).await;
    }
}

/// The claim waits, while others line up, until one before it leaves; and holds for long enough to say so.
async fn comes_after_another(
    backend: &Arc<dyn Backend>,
    claim: &Claim,
    others: impl Future<Output = Standing>,
) {
    let before = long();
    let mut wakes = backend.wakes();
    enters(backend, &before).await;
    enters(backend, claim).await;
    others.await;
    backend.release(&before).await.unwrap();
    while !matches!(told(&mut wakes).await, Wake::Holds { .. }) {}
    sleep(Duration::from_millis(12)).await;
}

/// Whoever waits behind a claim that has waited itself, and has held for a while, reads nothing when that one leaves.
// proves: W3, W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_long_hold_nothing_has_to_be_read() {
    let server = Etcd::start().unwrap();
    let (one, two) = (backend(&server).await, backend(&server).await);
    let (held, next) = (long(), long());
    let mut wakes = two.wakes();
    comes_after_another(&one, &held, enters(&two, &next)).await;
    let before = asked(&server);
    one.release(&held).await.unwrap();
    let wake = told(&mut wakes).await;
    assert!(
        matches!(wake, Wake::Holds { claim, .. } if claim == next.id),
        "{wake:?}"
    );
    sleep(Duration::from_millis(100)).await;
    let cost = asked(&server) - before;
    assert_eq!(cost, 2.0, "more than the release, and that it holds too");
    let view = two.inspect(&Query::All).await.unwrap();
    assert_eq!((view[0].holders.len(), view[0].waiters.len()), (1, 0));
    assert_eq!(view[0].holders[0].party, *next.party);
    assert_eq!(two.release(&next).await.unwrap(), Released::Freed);
    drop((one, two));
    assert_nothing_left(&server).await;
}

/// Everybody watches the one ahead. If that one gives up, the holder is still there.
// proves: L1, L9
// bug 47
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_ahead_that_gives_up_lets_nobody_in() {
    let server = Etcd::start().unwrap();
    let (one, two, three) = (
        backend(&server).await,
        backend(&server).await,
        backend(&server).await,
    );
    let (held, gives_up, last) = (long(), long(), long());
    let mut wakes = three.wakes();
    enters(&one, &held).await;
    enters(&two, &gives_up).await;
    enters(&three, &last).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(two.release(&gives_up).await.unwrap(), Released::Freed);
    let early = timeout(Duration::from_millis(500), told(&mut wakes)).await;
    assert!(early.is_err(), "two holders: {early:?}");
    assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
    let wake = told(&mut wakes).await;
    assert!(
        matches!(wake, Wake::Holds { claim, .. } if claim == last.id),
        "{wake:?}"
    );
    assert_eq!(three.release(&last).await.unwrap(), Released::Freed);
    drop((one, two, three));
    assert_nothing_left(&server).await;
}
