//! Backends around a backend that do what networks do: lose replies, deliver twice, hang, ring no
//! bell. Laws use them to cause a fault at a chosen call, and they run the whole suite themselves.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wakes};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::guarantees::{Guarantees, Modes, Order, WakeBy};
use crate::{Mode, Name};

/// A verb of the trait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// [`Backend::enter`].
    Enter,
    /// [`Backend::renew`].
    Renew,
    /// [`Backend::downgrade`].
    Downgrade,
    /// [`Backend::release`].
    Release,
    /// [`Backend::inspect`].
    Inspect,
    /// [`Backend::evict`].
    Evict,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It works.
    Works,
    /// It never reaches the engine, and the caller is told that the outcome is unknown.
    RequestLost,
    /// The engine applies it, but the caller is told that the outcome is unknown.
    ReplyLost,
    /// The engine applies it twice; the caller gets the first answer.
    AppliedTwice,
    /// It works, but the answer comes so much later.
    Slow(Duration),
    /// It never reaches the engine, and never returns.
    Hangs,
    /// The engine applies it, but the call never returns.
    ReplyHangs,
}

type Plan = Arc<dyn Fn(Verb, u64) -> Fate + Send + Sync>;

/// A call as [`Faulty`] saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Which verb.
    pub verb: Verb,
    /// For which claims.
    pub claims: Vec<ClaimId>,
}

/// A backend whose calls meet the fate that a plan gives them.
pub struct Faulty {
    inner: Arc<dyn Backend>,
    plan: RwLock<Plan>,
    calls: Mutex<Vec<Call>>,
    /// Renewals report sequence numbers that are higher by this.
    raised_by: AtomicU64,
}

impl std::fmt::Debug for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faulty")
            .field("inner", &self.inner)
            .finish()
    }
}

impl Faulty {
    /// A backend whose n-th call of a verb, counted over all verbs from 0, meets the planned fate.
    pub fn over(
        inner: Arc<dyn Backend>,
        plan: impl Fn(Verb, u64) -> Fate + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            plan: RwLock::new(Arc::new(plan)),
            calls: Mutex::default(),
            raised_by: AtomicU64::new(0),
        })
    }

    /// About every third reply is lost after the engine has applied the call; never two in a row.
    pub fn lost_replies(inner: Arc<dyn Backend>, seed: u64) -> Arc<Self> {
        let lost = move |call: u64| mix(seed ^ call).is_multiple_of(2);
        Self::over(inner, move |_, call| {
            if lost(call) && (call == 0 || !lost(call - 1)) {
                Fate::ReplyLost
            } else {
                Fate::Works
            }
        })
    }

    /// Every call reaches the engine twice.
    pub fn applied_twice(inner: Arc<dyn Backend>) -> Arc<Self> {
        Self::over(inner, |_, _| Fate::AppliedTwice)
    }

    /// From now on calls meet the fate that this plan gives them.
    pub fn replan(&self, plan: impl Fn(Verb, u64) -> Fate + Send + Sync + 'static) {
        *self.plan.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(plan);
    }

    /// From now on all calls of the verbs that `which` picks meet this fate.
    pub fn all(&self, fate: Fate, which: impl Fn(Verb) -> bool + Send + Sync + 'static) {
        self.replan(move |verb, _| if which(verb) { fate } else { Fate::Works });
    }

    /// From now on renewals report sequence numbers that are higher by this than the engine's.
    pub fn renumber(&self, raised_by: u64) {
        self.raised_by.store(raised_by, Ordering::SeqCst);
    }

    /// All calls so far, in the order in which they began.
    pub fn calls(&self) -> Vec<Call> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn fate(&self, verb: Verb, claims: Vec<ClaimId>) -> Fate {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.push(Call { verb, claims });
        let plan = self.plan.read().unwrap_or_else(PoisonError::into_inner);
        plan(verb, calls.len() as u64 - 1)
    }

    fn unknown(&self, verb: Verb) -> Error {
        Error::Unreachable {
            backend: self.inner.guarantees().backend,
            during: format!("{verb:?} through a faulty network"),
            source: None,
        }
    }

    async fn meet<'a, T: Send>(
        &'a self,
        (verb, claims): (Verb, Vec<ClaimId>),
        call: impl Fn() -> Answer<'a, T> + Send + Sync,
    ) -> Result<T, Error> {
        match self.fate(verb, claims) {
            Fate::Works => call().await,
            Fate::RequestLost => Err(self.unknown(verb)),
            Fate::ReplyLost => call().await.and_then(|_| Err(self.unknown(verb))),
            Fate::AppliedTwice => {
                let first = call().await;
                let _ghost = call().await;
                first
            }
            Fate::Slow(delay) => {
                let answer = call().await;
                tokio::time::sleep(delay).await;
                answer
            }
            Fate::Hangs => std::future::pending().await,
            Fate::ReplyHangs => {
                let _applied = call().await;
                std::future::pending().await
            }
        }
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The finalizer of splitmix64: numbers from a seed, the same every time.
pub(super) fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[async_trait]
impl Backend for Faulty {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        self.meet((Verb::Enter, vec![claim.id]), || {
            let (inner, claim) = (self.inner.clone(), claim.clone());
            Box::pin(async move { inner.enter(&claim, entry).await })
        })
        .await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let ids = claims.iter().map(|claim| claim.id).collect();
        let renewed = self.meet((Verb::Renew, ids), || {
            let (inner, claims) = (self.inner.clone(), claims.to_vec());
            Box::pin(async move { inner.renew(&claims).await })
        });
        let raised_by = self.raised_by.load(Ordering::SeqCst);
        let renumbered = |standing| match standing {
            Standing::Holds { order, lease_left } => Standing::Holds {
                order: order + raised_by,
                lease_left,
            },
            other => other,
        };
        Ok(renewed.await?.into_iter().map(renumbered).collect())
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        self.meet((Verb::Downgrade, vec![claim.id]), || {
            let (inner, claim) = (self.inner.clone(), claim.clone());
            Box::pin(async move { inner.downgrade(&claim).await })
        })
        .await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.meet((Verb::Release, vec![claim.id]), || {
            let (inner, claim) = (self.inner.clone(), claim.clone());
            Box::pin(async move { inner.release(&claim).await })
        })
        .await
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        self.meet((Verb::Inspect, Vec::new()), || {
            let (inner, query) = (self.inner.clone(), query.clone());
            Box::pin(async move { inner.inspect(&query).await })
        })
        .await
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        self.meet((Verb::Evict, Vec::new()), || {
            let (inner, name, why) = (self.inner.clone(), name.clone(), why.to_owned());
            Box::pin(async move { inner.evict(&name, order, &why).await })
        })
        .await
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        self.inner.guarantees()
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

/// A backend whose bell never rings, or that promises less than the one inside it.
#[derive(Debug)]
pub struct Lesser {
    inner: Arc<dyn Backend>,
    guarantees: Guarantees,
    silence: Option<Bell>,
}

impl Lesser {
    /// Every push is lost, and none is promised.
    pub fn deaf(inner: Arc<dyn Backend>) -> Arc<Self> {
        let mut guarantees = inner.guarantees().clone();
        guarantees.wake = WakeBy::Poll;
        Arc::new(Self {
            inner,
            guarantees,
            silence: Some(Bell::default()),
        })
    }

    /// Exclusive locks only, and no order is promised.
    pub fn plain(inner: Arc<dyn Backend>) -> Arc<Self> {
        let mut guarantees = inner.guarantees().clone();
        guarantees.order = Order::Chance;
        guarantees.modes = Modes {
            shared: false,
            permits: false,
        };
        Arc::new(Self {
            inner,
            guarantees,
            silence: None,
        })
    }

    fn refused(&self, mode: Mode) -> Result<(), Error> {
        let granted = match mode {
            Mode::Shared => self.guarantees.modes.shared,
            Mode::Permits { .. } => self.guarantees.modes.permits,
            _ => true,
        };
        if granted {
            return Ok(());
        }
        Err(Error::Refused {
            backend: self.guarantees.backend,
            why: format!("mode {mode} is not granted here; use an exclusive lock"),
        })
    }
}

#[async_trait]
impl Backend for Lesser {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        self.refused(claim.mode)?;
        self.inner.enter(claim, entry).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        self.inner.renew(claims).await
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        self.refused(Mode::Shared)?;
        self.inner.downgrade(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.inner.release(claim).await
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        self.inner.inspect(query).await
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        self.inner.evict(name, order, why).await
    }

    fn wakes(&self) -> Wakes {
        match &self.silence {
            Some(bell) => bell.wakes(),
            None => self.inner.wakes(),
        }
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}
