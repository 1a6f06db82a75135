//! The rule in Lua against the rule in Rust: the same random histories, on a real server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::backend::{Backend, Entry, Query, Released, Standing, Wake, Wakes};
use lockkeeper::claim::{Claim, ClaimId};
use lockkeeper::{Mode, rule};
use lockkeeper_testbed::Redis;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::stage::{LONG, backend, claim, name, order};

#[derive(Debug, Clone)]
enum Event {
    Try(Mode),
    Queue(Mode),
    /// The same claim again, as after a lost reply.
    Again(usize, Entry),
    Renew(usize),
    Leave(usize),
    Evict(usize),
    /// Some die, and somebody comes by: one who is there already, or a new one.
    Expire(Vec<usize>, Option<Mode>),
    Downgrade(usize),
}

/// Exclusive so many times in a hundred.
fn mode(exclusive: u32) -> impl Strategy<Value = Mode> {
    let permits = (1..=3_u32, 3..=5_u32).prop_map(|(take, of)| Mode::permits(take, of).unwrap());
    prop_oneof![
        exclusive => Just(Mode::Exclusive),
        (100 - exclusive) / 2 => Just(Mode::Shared),
        (100 - exclusive) / 2 => permits,
    ]
}

fn event(exclusive: u32) -> impl Strategy<Value = Event> {
    let place = 0..20_usize;
    let mode = move || mode(exclusive);
    let entry = prop_oneof![Just(Entry::Try), Just(Entry::Queue)];
    let places = prop::collection::vec(place.clone(), 1..4);
    prop_oneof![
        2 => mode().prop_map(Event::Try),
        6 => mode().prop_map(Event::Queue),
        1 => (place.clone(), entry).prop_map(|(place, entry)| Event::Again(place, entry)),
        2 => place.clone().prop_map(Event::Renew),
        5 => place.clone().prop_map(Event::Leave),
        1 => place.clone().prop_map(Event::Evict),
        1 => (places, prop::option::of(mode())).prop_map(|(places, new)| Event::Expire(places, new)),
        2 => place.prop_map(Event::Downgrade),
    ]
}

/// The list as it should be, and the server's.
struct Trial {
    backend: Arc<dyn Backend>,
    wakes: Wakes,
    name: String,
    list: Vec<(Claim, u64)>,
    /// Who was told to hold, by an answer or by a push.
    told: HashMap<ClaimId, u64>,
}

impl Trial {
    fn holders(&self) -> usize {
        rule::holders(self.list.iter().map(|(claim, _)| claim.mode))
    }

    async fn apply(&mut self, event: &Event) {
        let length = self.list.len();
        match event {
            Event::Try(mode) => self.enter(*mode, Entry::Try).await,
            Event::Queue(mode) => self.enter(*mode, Entry::Queue).await,
            _ if length == 0 => {}
            Event::Again(place, entry) => {
                let again = self.list[place % length].0.clone();
                self.expect(
                    place % length,
                    self.backend.enter(&again, *entry).await.unwrap(),
                );
            }
            Event::Renew(place) => {
                let one = [self.list[place % length].0.clone()];
                self.expect(place % length, self.backend.renew(&one).await.unwrap()[0]);
            }
            Event::Leave(place) => {
                let (claim, _) = self.list.remove(place % length);
                let told = self.backend.release(&claim).await.unwrap();
                assert_eq!(told, Released::Freed);
            }
            Event::Evict(place) => {
                let (claim, order) = self.list.remove(place % length);
                let told = self.backend.evict(&claim.name, order, "why").await;
                assert_eq!(told.unwrap(), Released::Freed);
            }
            Event::Expire(places, new) => self.expire(places, *new).await,
            Event::Downgrade(place) => self.downgrade(place % length).await,
        }
    }

    async fn enter(&mut self, mode: Mode, entry: Entry) {
        let claim = claim(&self.name, mode, LONG);
        let standing = self.backend.enter(&claim, entry).await.unwrap();
        let modes = self.list.iter().map(|(claim, _)| claim.mode).chain([mode]);
        let holds = rule::holders(modes) > self.list.len();
        match (holds, entry, standing) {
            (true, _, Standing::Holds { order, .. }) => {
                self.told.insert(claim.id, order);
                self.list.push((claim, order));
            }
            (false, Entry::Try, Standing::Gone) => {}
            (false, Entry::Queue, Standing::Waits { ahead, .. }) => {
                assert_eq!(ahead, self.list.len());
                self.list.push((claim, 0));
            }
            _ => panic!("{mode:?} {entry:?} should hold: {holds}; the server says {standing:?}"),
        }
    }

    /// The leases of some end at the same moment, and somebody comes by.
    async fn expire(&mut self, places: &[usize], new: Option<Mode>) {
        let length = self.list.len();
        let mut leaving: Vec<usize> = places.iter().map(|place| place % length).collect();
        leaving.sort_unstable();
        leaving.dedup();
        let mut dying: Vec<Claim> = Vec::new();
        for place in leaving.into_iter().rev() {
            dying.push(self.list.remove(place).0);
        }
        for claim in &mut dying {
            claim.lease = Duration::from_millis(1);
        }
        self.backend.renew(&dying).await.unwrap();
        tokio::time::sleep(Duration::from_millis(4)).await;
        if let Some(mode) = new {
            return self.enter(mode, Entry::Queue).await;
        }
        for standing in self.backend.renew(&dying).await.unwrap() {
            assert_eq!(standing, Standing::Gone);
        }
        // Whoever comes by sweeps; those who are gone do not.
        if let Some((claim, _)) = self.list.first() {
            let first = std::slice::from_ref(claim);
            self.backend.renew(first).await.unwrap();
        }
    }

    async fn downgrade(&mut self, place: usize) {
        let (claim, _) = &mut self.list[place];
        let told = self.backend.downgrade(claim).await;
        if let Mode::Permits { .. } = claim.mode {
            told.expect_err("permits cannot be downgraded");
            return;
        }
        claim.mode = Mode::Shared;
        self.expect(place, told.unwrap());
    }

    fn expect(&self, place: usize, standing: Standing) {
        match standing {
            Standing::Holds { order, .. } if place < self.holders() => {
                // Unknown when this very answer promoted it; the push is on its way.
                let known = self.told.get(&self.list[place].0.id);
                assert!(known.is_none_or(|known| *known == order));
            }
            Standing::Waits { ahead, .. } if place >= self.holders() => assert_eq!(ahead, place),
            _ => panic!("place {place} of {}: {standing:?}", self.list.len()),
        }
    }

    /// Pushes and views must tell the same as the rule.
    async fn compare(&mut self) {
        let holders = self.holders();
        let waited: Vec<ClaimId> = self.list[..holders]
            .iter()
            .filter(|(claim, _)| !self.told.contains_key(&claim.id))
            .map(|(claim, _)| claim.id)
            .collect();
        for _ in &waited {
            let push = tokio::time::timeout(Duration::from_secs(5), self.next_grant()).await;
            let (claim, order) = push.expect("whoever is promoted is told");
            assert!(waited.contains(&claim), "only the promoted are told");
            self.told.insert(claim, order);
        }
        let query = Query::One(name(&self.name));
        let views = self.backend.inspect(&query).await.unwrap();
        let view = views.first();
        let modes = |from: usize, to: usize| -> Vec<Mode> {
            let claims = self.list[from..to].iter();
            claims.map(|(claim, _)| claim.mode).collect()
        };
        let held = view.map_or(Vec::new(), |v| v.holders.iter().map(|c| c.mode).collect());
        let waits = view.map_or(Vec::new(), |v| v.waiters.iter().map(|c| c.mode).collect());
        assert_eq!(held, modes(0, holders), "holders");
        assert_eq!(waits, modes(holders, self.list.len()), "waiters");
        let (claims, orders): (Vec<_>, Vec<_>) = self.list.iter().cloned().unzip();
        let _ = orders;
        for (place, standing) in self
            .backend
            .renew(&claims)
            .await
            .unwrap()
            .into_iter()
            .enumerate()
        {
            self.expect(place, standing);
            if let Some(view) = view.filter(|_| place < holders) {
                self.list[place].1 = order(standing);
                assert_eq!(view.holders[place].token.order(), order(standing));
            }
        }
        for (place, waiter) in view
            .map_or(&[][..], |view| &view.waiters)
            .iter()
            .enumerate()
        {
            self.list[holders + place].1 = waiter.token.order();
        }
        let rising: Vec<u64> = self.list.iter().map(|(_, order)| *order).collect();
        assert!(rising.is_sorted_by(|a, b| a < b), "{rising:?}");
    }

    async fn next_grant(&mut self) -> (ClaimId, u64) {
        loop {
            match self.wakes.next().await {
                Some(Wake::Holds { claim, order }) => return (claim, order),
                // Who was evicted is told to look; the connection's start rings for all.
                Some(Wake::Look(_) | Wake::LookAll) => {}
                None => panic!("the backend is gone"),
            }
        }
    }
}

// proves: L1, L12, L13, F1
// bug 20, bug 53
#[test]
fn random_histories_are_told_alike() {
    let server = Redis::start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let backend = runtime.block_on(backend(&server.url()));
    let config = Config {
        cases: 150,
        failure_persistence: None,
        ..Config::default()
    };
    // What most locks are is also what the scripts do in quicker ways.
    let history = |exclusive| prop::collection::vec(event(exclusive), 1..40);
    let history = prop_oneof![history(24), history(90)];
    let mut number = 0;
    let number = std::sync::Mutex::new(&mut number);
    TestRunner::new(config)
        .run(&history, |history| {
            let fresh = {
                let mut number = number.lock().unwrap();
                **number += 1;
                format!("twin/{number}")
            };
            runtime.block_on(async {
                let mut trial = Trial {
                    wakes: backend.wakes(),
                    backend: backend.clone(),
                    name: fresh,
                    list: Vec::new(),
                    told: HashMap::new(),
                };
                for event in &history {
                    trial.apply(event).await;
                    trial.compare().await;
                }
                for (claim, _) in trial.list {
                    trial.backend.release(&claim).await.unwrap();
                }
            });
            Ok(())
        })
        .unwrap();
    assert_eq!(crate::stage::keys_left(&server), Vec::<String>::new());
}
