//! A program's handle on one engine: it makes locks, looks at them, and is closed at the end.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::backend::{Backend, LockView, Query, Released};
use crate::claim::Party;
use crate::error::{Error, LostReason};
use crate::guarantees::{Class, Guarantees, Purpose};
use crate::lifecycle::core::{Core, Parts};
use crate::lifecycle::deadline::Clock;
use crate::lifecycle::local_line::PassOn;
use crate::numbering::Numbering;
use crate::primitives::{Barrier, Election, Latch, Lock, Owner, RwLock, Semaphore};
use crate::{Mode, Name, Sequencer, Token, connect};

/// How long closing a keeper may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// A program's handle on one engine. Clones share everything.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::connect("memory:").await?;
/// let guard = keeper.lock("orders/42").acquire().await?;
/// println!("writing under token {}", guard.token());
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Keeper {
    core: Arc<Core>,
}

/// Settings of a [`Keeper`] to be.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct Builder {
    label: Option<String>,
    purpose: Purpose,
    lease: Duration,
    clock: Clock,
    pass_on: PassOn,
    tokens: Option<Keeper>,
}

/// What could not be released while a keeper was closed.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Closing {
    /// Empty when all is well.
    pub not_released: Vec<Unreleased>,
}

/// A claim that was not released; its lease ends it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unreleased {
    /// The name of the lock.
    pub name: Name,
    /// Why it was not released.
    pub why: String,
}

/// The engine's word on a [`Sequencer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Its claim holds the name now.
    Valid,
    /// It does not hold any more.
    Stale,
}

/// What a keeper is busy with, for operators and for tests that nothing is left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// Claims that the watchdog looks after, holding or waiting.
    pub claims: usize,
    /// Names with somebody of this process in line or holding.
    pub lines: usize,
    /// Releases under way.
    pub releases: usize,
}

impl Keeper {
    /// Connects to the engine at the URL, with the default settings.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a URL that is none, [`Error::Denied`] or [`Error::Unreachable`] when
    /// the engine cannot be used.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder().connect(url).await
    }

    /// Settings to change before connecting.
    pub fn builder() -> Builder {
        Builder {
            label: None,
            purpose: Purpose::default(),
            lease: Duration::from_secs(30),
            clock: Clock::system(),
            pass_on: PassOn {
                times: 255,
                span: Duration::from_millis(100),
            },
            tokens: None,
        }
    }

    /// A lock that one claim holds at a time. A bad name is reported when the lock is acquired.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::new(self.core.clone(), name.as_ref(), Ok(Mode::Exclusive))
    }

    /// A lock with many readers or one writer.
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.core.clone(), name.as_ref())
    }

    /// `of` permits under one name.
    pub fn semaphore(&self, name: impl AsRef<str>, of: u32) -> Semaphore {
        Semaphore::new(self.core.clone(), name.as_ref(), of)
    }

    /// A leader among the candidates for a name.
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.clone(), name.as_ref())
    }

    /// A latch that opens once `count` have counted down.
    pub fn latch(&self, name: impl AsRef<str>, count: u32) -> Latch {
        Latch::new(self.core.clone(), name.as_ref(), count)
    }

    /// A barrier that lets `parties` pass together.
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> Barrier {
        Barrier::new(self.core.clone(), name.as_ref(), parties)
    }

    /// A new identity that may enter again what it holds.
    pub fn owner(&self) -> Owner {
        Owner::new(&self.core)
    }

    /// Who holds, who waits.
    ///
    /// # Errors
    /// As the engine's: [`Error::Unreachable`], [`Error::Denied`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let call = self.core.backend.inspect(query);
        let views = self
            .core
            .bounded(NO_LEASE, "looking at locks", call)
            .await?;
        match &self.core.numbering {
            Some(numbering) => Box::pin(numbering.translate(query, views)).await,
            None => Ok(views),
        }
    }

    /// Breaks the claim that holds or waits with this token, as [`Keeper::inspect`] showed it. The
    /// reason is recorded; the next grant's token is higher, so a fenced resource refuses the old holder.
    ///
    /// # Errors
    /// As the engine's: [`Error::Unreachable`], [`Error::Denied`].
    ///
    /// # Cancel safety
    /// A dropped call may or may not have broken the claim.
    pub async fn evict(&self, name: &Name, token: Token, why: &str) -> Result<Released, Error> {
        let order = match &self.core.numbering {
            Some(numbering) => Box::pin(numbering.order_behind(name, token)).await?,
            None => token.order(),
        };
        let call = self.core.backend.evict(name, order, why);
        self.core.bounded(NO_LEASE, "breaking a claim", call).await
    }

    /// Asks the engine whether the claim behind a sequencer still holds.
    ///
    /// The engine knows claims, not the hand-overs inside one process: a sequencer stays valid until its
    /// claim ends, although a later step of the same claim may hold. A resource that compares whole
    /// tokens sees the difference.
    ///
    /// # Errors
    /// As the engine's: [`Error::Unreachable`], [`Error::Denied`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn check(&self, sequencer: &Sequencer) -> Result<Validity, Error> {
        let views = self.inspect(&Query::One(sequencer.name().clone())).await?;
        let holders = views.iter().flat_map(|view| &view.holders);
        let same = |holder: &&crate::backend::ClaimView| {
            holder.token.order() == sequencer.token().order() && holder.mode == sequencer.mode()
        };
        Ok(if holders.filter(same).count() > 0 {
            Validity::Valid
        } else {
            Validity::Stale
        })
    }

    /// What the engine promises.
    pub fn guarantees(&self) -> &Guarantees {
        &self.core.promise
    }

    /// Where the locks live, without secrets.
    pub fn place(&self) -> String {
        self.core.backend.place()
    }

    /// What this keeper is busy with.
    pub fn load(&self) -> Load {
        Load {
            claims: self.core.watchdog.len(),
            lines: self.core.lines.len(),
            releases: self.core.releases.pending(),
        }
    }

    /// Closes the keeper for all its clones: whoever waits gets [`Error::Closed`], queued releases are
    /// sent, for at most 5 seconds. Guards that still live are told that they are lost, and named in
    /// the answer; their claims are left to their leases, since their critical sections may still run.
    ///
    /// # Cancel safety
    /// A dropped call has closed the keeper; releases go on in the background.
    pub async fn close(&self) -> Closing {
        self.core.shut();
        let mut not_released: Vec<Unreleased> = Vec::new();
        for hold in self.core.lines.close(&self.core) {
            self.core.watchdog.forget(&hold);
            if hold.lose(LostReason::Closed) {
                let why = "a guard still holds it; its lease ends it".into();
                not_released.push(Unreleased {
                    name: hold.claim().name,
                    why,
                });
            }
        }
        let until = self.core.clock.now() + CLOSE_WITHIN;
        while self.core.lines.under_way() > 0 && self.core.clock.now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        not_released.extend(self.core.releases.drain(&self.core, until).await);
        if let Some(numbering) = &self.core.numbering {
            let numbers = Box::pin(numbering.source().close()).await;
            not_released.extend(numbers.not_released);
        }
        Closing { not_released }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

/// Calls that belong to no claim may take as long as calls ever may.
const NO_LEASE: Duration = Duration::from_secs(60);

impl Builder {
    /// What other people see as the holder; the program's name unless it is set.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// What the locks are for; [`Purpose::Correctness`] refuses backends of class best effort.
    pub fn purpose(mut self, purpose: Purpose) -> Self {
        self.purpose = purpose;
        self
    }

    /// The lease of locks that do not set their own; 30 seconds unless it is set.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The clock to go by; tests pass [`Clock::manual`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How often, and for how long, callers of this process may hand one claim on to each other while
    /// other processes may be waiting; 255 times and 100 milliseconds unless it is set. 0 times turns
    /// it off.
    pub fn pass_on(mut self, times: u8, for_at_most: Duration) -> Self {
        self.pass_on = PassOn {
            times,
            span: for_at_most,
        };
        self
    }

    /// Takes the fencing tokens from this keeper's engine, which must be a durable or consensus one, instead of from the
    /// engine that the locks are on. Each grant costs one more round trip. The same as `tokens=URL` in
    /// the URL; the keeper is closed with this one.
    pub fn tokens(mut self, from: Keeper) -> Self {
        self.tokens = Some(from);
        self
    }

    /// Connects to the engine at the URL. A setting `tokens=URL` (with `%26` for `&`) names the engine that gives the
    /// tokens, see [`Builder::tokens`].
    ///
    /// # Errors
    /// As [`Keeper::connect`], and [`Error::Refused`] when the backend does not serve the purpose.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call leaves nothing behind.
    pub async fn connect(self, url: &str) -> Result<Keeper, Error> {
        let (url, tokens) = connect::without_tokens(url)?;
        let builder = match tokens {
            Some(_) if self.tokens.is_some() => {
                let cure = "the URL says tokens=, and the builder, too: leave one of them out";
                return Err(Error::invalid(cure));
            }
            Some(tokens) => {
                let source = Self {
                    purpose: Purpose::Efficiency,
                    ..self.clone()
                };
                let source = Box::pin(source.connect(&tokens)).await?;
                self.tokens(source)
            }
            None => self,
        };
        let backend = connect::backend(&url, &builder.clock).await?;
        builder.on(backend)
    }

    /// Uses a backend that is there already. Must be called inside a tokio runtime that has its I/O and
    /// time drivers on.
    ///
    /// # Errors
    /// [`Error::Refused`] when the backend does not serve the purpose, [`Error::Invalid`] outside a
    /// runtime or for a default lease that the backend cannot keep.
    pub fn on(self, backend: Arc<dyn Backend>) -> Result<Keeper, Error> {
        let promise = backend.guarantees();
        if self.purpose == Purpose::Correctness && promise.class == Class::BestEffort {
            let why = format!(
                "its class is best effort, not correctness: {}",
                promise.class_reason
            );
            return Err(Error::Refused {
                backend: promise.backend,
                why,
            });
        }
        if !(promise.shortest_lease..=promise.longest_lease).contains(&self.lease) {
            return Err(Error::invalid(format!(
                "a default lease of {:?} is not possible on {}: choose {:?} to {:?}",
                self.lease, promise.backend, promise.shortest_lease, promise.longest_lease
            )));
        }
        let runtime = Handle::try_current().map_err(|_| {
            Error::invalid("a keeper needs a tokio runtime around it; or use lockkeeper::blocking")
        })?;
        let numbering = self.tokens.map(Numbering::by).transpose()?;
        let label = self.label.unwrap_or_else(program);
        let parts = Parts {
            backend,
            clock: self.clock,
            party: Arc::new(Party::here(label)),
            default_lease: self.lease,
            pass_on: self.pass_on,
            numbering,
        };
        Ok(Keeper {
            core: Core::start(runtime, parts),
        })
    }
}

/// The program's own name.
fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&path).file_name();
    name.map_or_else(
        || "unnamed".into(),
        |name| name.to_string_lossy().into_owned(),
    )
}
