//! The verbs themselves, inside one process: against the reference backend, and one by one.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Entry, Query, Released, Standing, Wake, Wakes};
use lockkeeper::backends::local::{Config, connect};
use lockkeeper::backends::memory::Memory;
use lockkeeper::claim::{Claim, ClaimId};
use lockkeeper::{Error, Mode};
use proptest::prelude::*;

use crate::stage::{LEASE, Stage, assert_waits, claim, exclusive, name, order};

#[derive(Debug, Clone)]
enum Op {
    Enter(usize, Entry),
    Renew(usize),
    Downgrade(usize),
    Release(usize),
    Evict(usize),
    Advance(u64),
}

/// Half of the time no lease ends, and each ring is compared.
fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![ops_with_time(0), ops_with_time(2)]
}

fn ops_with_time(weight: u32) -> impl Strategy<Value = Vec<Op>> {
    let claim = 0..CLAIMS;
    let entry = prop_oneof![Just(Entry::Try), Just(Entry::Queue)];
    let op = prop_oneof![
        6 => (claim.clone(), entry).prop_map(|(claim, entry)| Op::Enter(claim, entry)),
        3 => claim.clone().prop_map(Op::Renew),
        1 => claim.clone().prop_map(Op::Downgrade),
        4 => claim.clone().prop_map(Op::Release),
        1 => claim.prop_map(Op::Evict),
        weight => (1..20u64).prop_map(Op::Advance),
    ];
    proptest::collection::vec(op, 1..60)
}

const CLAIMS: usize = 12;

/// What two backends must agree on: how many are ahead is counted loosely.
fn essence(standing: Standing) -> String {
    match standing {
        Standing::Holds { order, lease_left } => format!("holds {order} for {lease_left:?}"),
        Standing::Waits { .. } => "waits".into(),
        standing => format!("{standing:?}"),
    }
}

struct Pair {
    clock: Clock,
    local: Arc<dyn Backend>,
    memory: Arc<dyn Backend>,
    wakes: (Wakes, Wakes),
    claims: Vec<Claim>,
    orders: Vec<Option<u64>>,
    rung_before: HashSet<ClaimId>,
    leases_end: bool,
}

impl Pair {
    fn new(stage: &Stage) -> Self {
        let clock = Clock::manual();
        let local = connect(&Config::at(&stage.path).unwrap(), clock.clone()).unwrap();
        let memory = Memory::new(clock.clone()).backend();
        let mode = |number: usize| match number % 4 {
            0 | 1 => Mode::Exclusive,
            2 => Mode::Shared,
            _ => Mode::permits(1 + number as u32 % 3, 3).unwrap(),
        };
        let claims = (0..CLAIMS)
            .map(|number| claim(["a", "b"][number % 2], mode(number / 2)))
            .collect();
        Self {
            wakes: (local.wakes(), memory.wakes()),
            clock,
            local,
            memory,
            claims,
            orders: vec![None; CLAIMS],
            rung_before: HashSet::new(),
            leases_end: false,
        }
    }

    async fn apply(&mut self, op: &Op) {
        let (local, memory) = (self.local.clone(), self.memory.clone());
        match *op {
            Op::Enter(at, entry) => {
                let claim = self.claims[at].clone();
                let ours = local.enter(&claim, entry).await.unwrap();
                self.agree(at, ours, memory.enter(&claim, entry).await.unwrap());
            }
            Op::Renew(at) => {
                let claims = [self.claims[at].clone()];
                let ours = local.renew(&claims).await.unwrap()[0];
                self.agree(at, ours, memory.renew(&claims).await.unwrap()[0]);
            }
            Op::Downgrade(at) if self.claims[at].mode == Mode::Exclusive => {
                let claim = self.claims[at].clone();
                let ours = local.downgrade(&claim).await.unwrap();
                self.agree(at, ours, memory.downgrade(&claim).await.unwrap());
            }
            Op::Downgrade(_) => {}
            Op::Release(at) => {
                let claim = self.claims[at].clone();
                let ours = local.release(&claim).await.unwrap();
                assert_eq!(ours, memory.release(&claim).await.unwrap());
            }
            Op::Evict(at) => self.evict(at).await,
            Op::Advance(seconds) => self.clock.advance(Duration::from_secs(seconds)),
        }
        self.compare_wakes(op).await;
        self.compare_views().await;
    }

    async fn evict(&mut self, at: usize) {
        let (name, order) = (self.claims[at].name.clone(), self.orders[at].unwrap_or(1));
        let ours = self.local.evict(&name, order, "test").await.unwrap();
        let theirs = self.memory.evict(&name, order, "test").await.unwrap();
        assert_eq!(ours, theirs);
    }

    fn agree(&mut self, at: usize, ours: Standing, theirs: Standing) {
        assert_eq!(essence(ours), essence(theirs), "claim {at}");
        if let Standing::Holds { order, .. } = ours {
            self.orders[at] = Some(order);
        }
        self.rung_before.remove(&self.claims[at].id);
    }

    /// Whom memory rings, local must ring; beyond that only the evicted one, and again those who
    /// have not asked since. When leases end, local may find out later than memory, which looks
    /// through the whole list each time; the waiters know when to look by themselves.
    async fn compare_wakes(&mut self, op: &Op) {
        let ours = drain(&mut self.wakes.0).await;
        let mut theirs = drain(&mut self.wakes.1).await;
        // Whoever asks is told by the answer.
        if let Op::Enter(at, _) | Op::Renew(at) | Op::Downgrade(at) = *op {
            theirs.remove(&self.claims[at].id);
        }
        self.leases_end |= matches!(op, Op::Advance(_));
        let all_rung = theirs.is_subset(&ours);
        assert!(
            self.leases_end || all_rung,
            "local forgot to ring after {op:?}"
        );
        let evicted = matches!(op, Op::Evict(_));
        for extra in ours.difference(&theirs) {
            assert!(
                evicted || self.rung_before.contains(extra),
                "rung for nothing by {op:?}"
            );
        }
        self.rung_before.extend(ours);
        self.rung_before.extend(theirs);
    }

    async fn compare_views(&self) {
        let ours = self.local.inspect(&Query::All).await.unwrap();
        let theirs = self.memory.inspect(&Query::All).await.unwrap();
        let orders = |views: &[lockkeeper::backend::ClaimView]| -> Vec<_> {
            views
                .iter()
                .map(|view| (view.token, view.mode, view.lease_left))
                .collect()
        };
        let plain = |views: &[lockkeeper::backend::LockView]| -> Vec<_> {
            let plain = views.iter();
            let plain = plain.map(|v| (v.name.clone(), orders(&v.holders), orders(&v.waiters)));
            plain.collect()
        };
        assert_eq!(plain(&ours), plain(&theirs));
    }
}

async fn drain(wakes: &mut Wakes) -> HashSet<ClaimId> {
    let mut rung = HashSet::new();
    loop {
        tokio::select! {
            biased;
            Some(wake) = wakes.next() => match wake {
                Wake::Look(claim) => { rung.insert(claim); }
                wake => panic!("{wake:?}"),
            },
            () = std::future::ready(()) => return rung,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    // proves: L1, L4, L5, L8, L11, L12, L13, F1, W6
    #[test]
    fn local_does_what_the_reference_does(ops in ops()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let stage = Stage::new();
            let mut pair = Pair::new(&stage);
            for op in &ops {
                pair.apply(op).await;
            }
        });
    }
}

// proves: L5
#[tokio::test]
async fn an_uncontended_enter_ends_on_its_first_poll() {
    let stage = Stage::new();
    let backend = stage.connect();
    let claim = exclusive("a");
    let mut enter = backend.enter(&claim, Entry::Queue);
    let polled =
        std::future::poll_fn(|context| std::task::Poll::Ready(enter.as_mut().poll(context)));
    assert!(polled.await.is_ready());
}

// proves: L16
#[tokio::test]
async fn leases_that_cannot_be_kept_are_refused() {
    let stage = Stage::new();
    let backend = stage.connect();
    for lease in [
        Duration::ZERO,
        Duration::from_millis(99),
        Duration::from_secs(24 * 3600 + 1),
    ] {
        let claim = Claim {
            lease,
            ..exclusive("a")
        };
        let error = backend.enter(&claim, Entry::Queue).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
        let error = backend.renew(&[claim]).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    assert!(backend.inspect(&Query::All).await.unwrap().is_empty());
}

// proves: L4, L5
#[tokio::test]
async fn a_claim_is_known_by_its_id_from_every_keeper() {
    let stage = Stage::new();
    let (one, other) = (stage.connect(), stage.connect());
    let claim = exclusive("a");
    let first = order(one.enter(&claim, Entry::Queue).await.unwrap());
    assert_eq!(
        order(other.enter(&claim, Entry::Queue).await.unwrap()),
        first
    );
    let stranger = Claim {
        id: ClaimId::random().unwrap(),
        ..claim.clone()
    };
    assert_eq!(other.release(&stranger).await.unwrap(), Released::Gone);
    assert_eq!(other.release(&claim).await.unwrap(), Released::Freed);
    assert_eq!(one.release(&claim).await.unwrap(), Released::Gone);
}

// proves: U3
#[tokio::test]
async fn an_evicted_claim_is_recorded_told_and_gone() {
    let stage = Stage::new();
    let (holder, operator) = (stage.connect(), stage.connect());
    let (held, waiting) = (exclusive("a"), exclusive("a"));
    let mut wakes = holder.wakes();
    let number = order(holder.enter(&held, Entry::Queue).await.unwrap());
    assert_waits(holder.enter(&waiting, Entry::Queue).await.unwrap());
    assert_eq!(
        operator.evict(&name("a"), number + 9, "?").await.unwrap(),
        Released::Gone
    );
    assert_eq!(
        operator.evict(&name("a"), number, "stuck").await.unwrap(),
        Released::Freed
    );
    let rung = [wakes.next().await.unwrap(), wakes.next().await.unwrap()];
    assert!(rung.contains(&Wake::Look(held.id)) && rung.contains(&Wake::Look(waiting.id)));
    assert_eq!(holder.renew(&[held]).await.unwrap(), [Standing::Gone]);
    assert!(order(holder.renew(&[waiting]).await.unwrap()[0]) > number);
    let database = rusqlite_rows(&stage);
    assert_eq!(database, [("a".to_owned(), number, "stuck".to_owned())]);
}

fn rusqlite_rows(stage: &Stage) -> Vec<(String, u64, String)> {
    let database = rusqlite::Connection::open(&stage.databases()[0]).unwrap();
    let mut select = database
        .prepare("SELECT name, order_no, why FROM broken")
        .unwrap();
    let row =
        |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64, row.get(2)?));
    select
        .query_map([], row)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

// proves: W3
#[tokio::test]
async fn a_batch_is_answered_in_its_order() {
    let stage = Stage::new();
    let backend = stage.connect();
    let claims: Vec<Claim> = (0..1200).map(|n| exclusive(&format!("n{n}"))).collect();
    for claim in &claims {
        order(backend.enter(claim, Entry::Try).await.unwrap());
    }
    assert_eq!(
        backend.release(&claims[700]).await.unwrap(),
        Released::Freed
    );
    let standings = backend.renew(&claims).await.unwrap();
    for (at, standing) in standings.into_iter().enumerate() {
        match standing {
            Standing::Holds { order, lease_left } => {
                assert_eq!((order, lease_left), (at as u64 + 1, LEASE));
            }
            standing => assert_eq!((at, standing), (700, Standing::Gone)),
        }
    }
}

/// What died under a name that nobody asks for again does not stay for ever.
// proves: L3
#[tokio::test]
async fn the_dead_of_forgotten_names_are_swept_as_others_pass_by() {
    let stage = Stage::new();
    let clock = Clock::manual();
    let backend = connect(&Config::at(&stage.path).unwrap(), clock.clone()).unwrap();
    let forgotten = exclusive("forgotten");
    order(backend.enter(&forgotten, Entry::Try).await.unwrap());
    clock.advance(LEASE * 2);
    for _ in 0..300 {
        let passing = exclusive("busy");
        order(backend.enter(&passing, Entry::Try).await.unwrap());
        backend.release(&passing).await.unwrap();
    }
    let database = rusqlite::Connection::open(&stage.databases()[0]).unwrap();
    let left = database.query_row("SELECT count(*) FROM claims", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(left.unwrap(), 0);
}
