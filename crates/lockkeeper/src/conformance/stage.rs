//! What a law stands on: an engine, names of its own, and contenders that keep the trait's promise to
//! ask again while an outcome is unknown.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio::time::sleep;

use super::wrappers::{Fate, Faulty};
use crate::backend::{Backend, Entry, LockView, Query, Released, Standing, Wake, Wakes};
use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;
use crate::guarantees::{Guarantees, Order as Served};
use crate::{Clock, Moment};
use crate::{Guard, Keeper, Lock, Mode, Name};

/// An engine that the laws are tried on; a new one, or a new corner of one, for every law.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Makes an engine, or a corner of one, that nobody else uses.
    async fn start() -> Self
    where
        Self: Sized;

    /// A new connection, as another keeper in another process would have.
    async fn backend(&self) -> Arc<dyn Backend>;

    /// How many claims, keys or rows of claims are left, counters excepted. Claims whose lease has
    /// ended may be swept here first, if anything else that touches their names would sweep them.
    async fn residue(&self) -> usize;

    /// A lease that the engine keeps well, as short as is practical: laws wait for it to end.
    fn lease(&self) -> Duration;
}

/// Longer than any law: a claim with this lease does not expire by the way.
pub(super) const LONG: Duration = Duration::from_secs(120);

/// Slower than this is broken even on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How often an unknown outcome is asked again before the law gives up.
pub(super) const REPEATS: usize = 20;

/// One law's engine.
pub(super) struct Stage {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) clock: Clock,
    names: AtomicU64,
    /// Asked once: connecting takes its time on some engines.
    fair: OnceCell<bool>,
}

impl Stage {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Self {
        Self {
            engine,
            clock: Clock::system(),
            names: AtomicU64::new(0),
            fair: OnceCell::new(),
        }
    }

    /// The engine's short lease.
    pub(super) fn lease(&self) -> Duration {
        self.engine.lease()
    }

    /// A name that this law has not used yet.
    pub(super) fn name(&self) -> Name {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        Name::new(format!("law/{number}")).expect("short enough")
    }

    pub(super) async fn backend(&self) -> Arc<dyn Backend> {
        self.engine.backend().await
    }

    /// A keeper on a connection of its own, whose leases are the engine's short ones.
    pub(super) async fn keeper(&self) -> Keeper {
        self.keeper_on(self.backend().await)
    }

    pub(super) fn keeper_on(&self, backend: Arc<dyn Backend>) -> Keeper {
        let builder = Keeper::builder().label("conformance").lease(self.lease());
        builder.on(backend).expect("it serves efficiency")
    }

    /// A keeper whose network can be made to fail.
    pub(super) async fn faulty_keeper(&self) -> (Keeper, Arc<Faulty>) {
        let faulty = Faulty::over(self.backend().await, |_, _| Fate::Works);
        (self.keeper_on(faulty.clone()), faulty)
    }

    /// Waits until nothing of the keeper's is under way, and nothing is left in the engine although no
    /// lease has ended: for claims that are much longer alive than this may take.
    pub(super) async fn assert_all_given_back(&self) {
        let limit = self.clock.now() + PATIENCE;
        loop {
            let residue = self.engine.residue().await;
            if residue == 0 {
                return;
            }
            assert!(self.clock.now() < limit, "{residue} claims or keys stay");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Somebody on a connection of their own who wants the name alone, with a lease that does not end.
    pub(super) async fn contender(&self, name: &Name) -> Contender {
        Contender::on(self.backend().await, name)
    }

    /// Several of them.
    pub(super) async fn contenders<const N: usize>(&self, name: &Name) -> [Contender; N] {
        let mut all = Vec::with_capacity(N);
        for _ in 0..N {
            all.push(self.contender(name).await);
        }
        all.try_into().expect("N of them")
    }

    /// Whether the backend grants this mode. One that does not promise it must refuse it, and leave
    /// nothing behind.
    pub(super) async fn offers(&self, mode: Mode) -> bool {
        let contender = self.contender(&self.name()).await.mode(mode);
        if granted(contender.backend.guarantees(), mode) {
            return true;
        }
        for entry in [Entry::Try, Entry::Queue] {
            match contender.backend.enter(&contender.claim, entry).await {
                Err(Error::Refused { .. }) => {}
                other => panic!("{mode:?} is not promised, yet it was not refused: {other:?}"),
            }
        }
        contender.expect_gone().await;
        false
    }

    /// Whether waiters are served in the order of their arrival.
    pub(super) async fn is_fair(&self) -> bool {
        let ask = || async { self.backend().await.guarantees().order == Served::Arrival };
        *self.fair.get_or_init(ask).await
    }

    /// Waits until a lease of this length, given before now, has surely ended, also where somebody must
    /// first do something about it.
    pub(super) async fn outlast(&self, lease: Duration) {
        let a_little = (self.lease() / 5).max(Duration::from_millis(60));
        sleep(lease + a_little).await;
    }

    /// Nothing may be left of the law's claims, at the latest when their leases have ended.
    pub(super) async fn assert_swept(&self) {
        let limit = self.clock.now() + 3 * self.lease() + PATIENCE;
        loop {
            let residue = self.engine.residue().await;
            if residue == 0 {
                return;
            }
            assert!(self.clock.now() < limit, "{residue} claims or keys stay");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Everything was released: nothing may be left, at once.
    pub(super) async fn assert_no_residue(&self) {
        let residue = self.engine.residue().await;
        assert_eq!(residue, 0, "claims or keys are left after their release");
    }

    pub(super) async fn view(&self, name: &Name) -> Option<LockView> {
        let contender = self.contender(name).await;
        contender.inspect(&Query::One(name.clone())).await.pop()
    }
}

fn granted(guarantees: &Guarantees, mode: Mode) -> bool {
    match mode {
        Mode::Shared => guarantees.modes.shared,
        Mode::Permits { .. } => guarantees.modes.permits,
        _ => true,
    }
}

/// A claim and the connection it is made on.
#[derive(Debug, Clone)]
pub(super) struct Contender {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) claim: Claim,
}

impl Contender {
    pub(super) fn on(backend: Arc<dyn Backend>, name: &Name) -> Self {
        let claim = Claim {
            id: ClaimId::random().expect("random bits"),
            name: name.clone(),
            mode: Mode::Exclusive,
            lease: LONG,
            party: Arc::new(Party::here("conformance")),
        };
        Self { backend, claim }
    }

    pub(super) fn mode(mut self, mode: Mode) -> Self {
        self.claim.mode = mode;
        self
    }

    pub(super) fn reader(self) -> Self {
        self.mode(Mode::Shared)
    }

    pub(super) fn permits(self, take: u32, of: u32) -> Self {
        self.mode(Mode::Permits { take, of })
    }

    pub(super) fn lease(mut self, lease: Duration) -> Self {
        self.claim.lease = lease;
        self
    }

    /// Another claim on the same connection.
    pub(super) fn sibling(&self) -> Self {
        Self::on(self.backend.clone(), &self.claim.name)
            .mode(self.claim.mode)
            .lease(self.claim.lease)
    }

    pub(super) async fn enter(&self, entry: Entry) -> Standing {
        ask(|| self.backend.enter(&self.claim, entry)).await.0
    }

    pub(super) async fn queue(&self) -> Standing {
        self.enter(Entry::Queue).await
    }

    /// Enters and holds; gives the order number.
    pub(super) async fn takes(&self) -> u64 {
        order(self.queue().await)
    }

    /// Enters and waits; gives the number of claims ahead and the time to look again.
    pub(super) async fn lines_up(&self) -> (usize, Duration) {
        waits(self.queue().await)
    }

    pub(super) async fn tries_in_vain(&self) {
        let standing = self.enter(Entry::Try).await;
        assert_eq!(standing, Standing::Gone, "a try that cannot hold is gone");
    }

    pub(super) async fn standing(&self) -> Standing {
        let claims = [self.claim.clone()];
        let standings = ask(|| self.backend.renew(&claims)).await.0;
        assert_eq!(standings.len(), 1, "one answer for one claim");
        standings[0]
    }

    pub(super) async fn expect_holds(&self) -> u64 {
        order(self.standing().await)
    }

    pub(super) async fn expect_waits(&self) -> (usize, Duration) {
        waits(self.standing().await)
    }

    pub(super) async fn expect_gone(&self) {
        assert_eq!(self.standing().await, Standing::Gone);
    }

    /// Asks until it holds, as a keeper without any push would; gives the order number and when the
    /// answer came.
    pub(super) async fn comes_to_hold(&self) -> (u64, Moment) {
        let clock = Clock::system();
        let limit = clock.now() + PATIENCE;
        loop {
            if let Standing::Holds { order, .. } = self.standing().await {
                return (order, clock.now());
            }
            assert!(clock.now() < limit, "never came to hold: {self:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Enters, and waits until it holds: by the first answer, or by asking; gives the order number.
    pub(super) async fn obtains(&self) -> u64 {
        match self.queue().await {
            Standing::Holds { order, .. } => order,
            _ => self.comes_to_hold().await.0,
        }
    }

    /// Releases, and the claim must have been in the list. After a lost reply nobody can say.
    pub(super) async fn leaves(&self) {
        let (released, asked) = ask(|| self.backend.release(&self.claim)).await;
        assert!(released == Released::Freed || asked > 1, "it was there");
    }

    /// Releases, and the claim must not have been in the list.
    pub(super) async fn leaves_in_vain(&self) {
        let released = ask(|| self.backend.release(&self.claim)).await.0;
        assert_eq!(released, Released::Gone, "it was not there");
    }

    pub(super) async fn downgrade(&self) -> Standing {
        ask(|| self.backend.downgrade(&self.claim)).await.0
    }

    pub(super) async fn inspect(&self, query: &Query) -> Vec<LockView> {
        ask(|| self.backend.inspect(query)).await.0
    }

    /// An operator breaks the claim with this order number, which must be there.
    pub(super) async fn evicts(&self, order: u64) {
        let (released, asked) = self.evict(order).await;
        assert!(released == Released::Freed || asked > 1, "it was there");
    }

    pub(super) async fn evict(&self, order: u64) -> (Released, usize) {
        let name = &self.claim.name;
        ask(|| self.backend.evict(name, order, "a law breaks it")).await
    }
}

/// Asks again while the outcome is unknown, as the trait demands; says how often it asked.
async fn ask<T, F: Future<Output = Result<T, Error>>>(call: impl Fn() -> F) -> (T, usize) {
    for asked in 1..=REPEATS {
        match call().await {
            Ok(answer) => return (answer, asked),
            Err(error) if error.is_unknown() => {}
            Err(error) => panic!("a definite error: {error}"),
        }
    }
    panic!("the engine never answered");
}

fn order(standing: Standing) -> u64 {
    match standing {
        Standing::Holds { order, .. } => order,
        other => panic!("it must hold, but its standing is {other:?}"),
    }
}

fn waits(standing: Standing) -> (usize, Duration) {
    match standing {
        Standing::Waits {
            ahead,
            look_again_in,
        } => (ahead, look_again_in),
        other => panic!("it must wait, but its standing is {other:?}"),
    }
}

/// Tries until the engine has answered. A try whose answer was lost gives its claim back by itself;
/// until then it may find itself in its own way.
pub(super) async fn tries(lock: Lock) -> Option<Guard> {
    let mut unknown = 0;
    loop {
        match lock.clone().try_acquire().await {
            Ok(None) if unknown > 0 => {
                unknown -= 1;
                sleep(Duration::from_millis(20)).await;
            }
            Ok(answer) => return answer,
            Err(error) => {
                assert!(error.is_unknown(), "a definite error: {error}");
                unknown += 1;
                assert!(unknown < REPEATS, "the engine never answered");
            }
        }
    }
}

/// Acquires, in good time.
pub(super) async fn acquires(lock: Lock) -> Guard {
    match lock.acquire_within(PATIENCE).await {
        Ok(guard) => guard,
        Err(error) => panic!("not acquired: {error}"),
    }
}

/// Releases a hold that must not be lost. No answer is an answer too: then the keeper goes on by itself.
pub(super) async fn gives_back(guard: Guard) {
    if let Err(error) = guard.release().await {
        assert!(error.is_unknown(), "{error}");
    }
}

/// The pushes that reach one keeper.
pub(super) struct Ear(Wakes);

impl Ear {
    pub(super) fn of(contender: &Contender) -> Self {
        Self(contender.backend.wakes())
    }

    /// The claim is told, in time; what rings for others on the way is a herd. Gives the order number
    /// if the push said that it holds.
    pub(super) async fn hears(&mut self, contender: &Contender) -> Option<u64> {
        let wake = tokio::time::timeout(PATIENCE, self.0.next()).await;
        let wake = wake.expect("no push came").expect("the backend lives");
        assert!(
            is_for(wake, contender.claim.id),
            "{wake:?} is for somebody else"
        );
        match wake {
            Wake::Holds { order, .. } => Some(order),
            Wake::Look(_) | Wake::LookAll => None,
        }
    }

    /// Nothing rings for a while.
    pub(super) async fn hears_nothing(&mut self) {
        let wake = tokio::time::timeout(Duration::from_millis(60), self.0.next()).await;
        assert!(wake.is_err(), "nothing had changed, yet {wake:?} rang");
    }
}

fn is_for(wake: Wake, id: ClaimId) -> bool {
    match wake {
        Wake::Look(claim) | Wake::Holds { claim, .. } => claim == id,
        Wake::LookAll => true,
    }
}
