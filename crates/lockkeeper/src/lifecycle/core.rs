//! What the parts of one keeper share: its backend, its clock, its watchdog, its lines, its releases.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;

use super::acquire;
use super::deadline::{Clock, Moment};
use super::limits::Limit;
use super::local_line::{Lines, PassOn};
use super::release::Releases;
use super::tracked::{Tracked, retry_pause};
use super::watchdog::{self, Watchdog};
use crate::Name;
use crate::backend::{Backend, Hearing, Query};
use crate::claim::{ClaimIds, Party};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::numbering::Numbering;

/// No call to an engine takes longer than this; what is slower counts as not answered.
const LONGEST_CALL: Duration = Duration::from_secs(5);

/// How long a call about a claim with this lease may take.
pub(crate) fn call_limit(lease: Duration) -> Duration {
    (lease / 3).clamp(Duration::from_millis(50), LONGEST_CALL)
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    pub(crate) runtime: Handle,
    pub(crate) party: Arc<Party>,
    pub(crate) default_lease: Duration,
    pub(crate) pass_on: PassOn,
    /// Who gives the tokens, if the backend does not.
    pub(crate) numbering: Option<Numbering>,
    /// What the keeper promises: what its backend does, but for the tokens.
    pub(crate) promise: Guarantees,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) lines: Lines,
    pub(crate) releases: Releases,
    pub(crate) ids: ClaimIds,
    /// The watchdog hears the engine's pushes.
    watching: OnceLock<Hearing>,
    closed: AtomicBool,
}

/// What a keeper is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) clock: Clock,
    pub(crate) party: Arc<Party>,
    pub(crate) default_lease: Duration,
    pub(crate) pass_on: PassOn,
    pub(crate) numbering: Option<Numbering>,
}

impl Core {
    pub(crate) fn start(runtime: Handle, parts: Parts) -> Arc<Self> {
        let mut promise = parts.backend.guarantees().clone();
        if let Some(numbering) = &parts.numbering {
            promise.token = numbering.promise();
        }
        Arc::new(Self {
            numbering: parts.numbering,
            promise,
            releases: Releases::start(&runtime),
            watchdog: Arc::new(Watchdog::new(parts.backend.guarantees().longest_silence)),
            backend: parts.backend,
            clock: parts.clock,
            runtime,
            party: parts.party,
            default_lease: parts.default_lease,
            pass_on: parts.pass_on,
            lines: Lines::default(),
            ids: ClaimIds::default(),
            watching: OnceLock::new(),
            closed: AtomicBool::new(false),
        })
    }

    /// The watchdog starts with the first claim: a keeper that only looks needs none.
    pub(crate) fn watch(self: &Arc<Self>) {
        self.watching.get_or_init(|| {
            let (core, watchdog) = (Arc::downgrade(self), self.watchdog.clone());
            let clock = self.clock.clone();
            self.runtime
                .spawn(watchdog::run(core, watchdog.clone(), clock.clone()));
            let ear = move |wake| watchdog.take_in(wake, clock.now());
            self.backend.wakes().heard_by(ear)
        });
    }

    pub(crate) fn name(&self) -> &'static str {
        self.backend.guarantees().backend
    }

    pub(crate) fn open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    pub(crate) fn shut(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Asks the engine, for at most a third of the lease: on whatever runtime, and whether or not the watchdog
    /// has started.
    pub(crate) async fn bounded<T>(
        &self,
        lease: Duration,
        during: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = call_limit(lease);
        let told = tokio::time::timeout(limit, call).await;
        told.unwrap_or_else(|_| Err(self.overdue(during, limit)))
    }

    /// The same about a claim, which the watchdog has its eyes on: it sees to the limit too. It is asked now, and on the
    /// keeper's runtime.
    pub(crate) async fn limited<T>(
        &self,
        lease: Duration,
        now: Moment,
        during: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = call_limit(lease);
        let mut overdue = Limit::new(&self.watchdog, &self.clock, now + limit);
        let mut call = pin!(call);
        poll_fn(|cx| match call.as_mut().poll(cx) {
            Poll::Ready(told) => Poll::Ready(told),
            Poll::Pending => {
                let overdue = overdue.poll(cx);
                overdue.map(|()| Err(self.overdue(during, limit)))
            }
        })
        .await
    }

    fn overdue(&self, during: &str, limit: Duration) -> Error {
        Error::Unreachable {
            backend: self.name(),
            during: format!("{during} (no answer within {limit:?})"),
            source: None,
        }
    }

    /// Asks again while the outcome is unknown, for at most the lease: for questions that may be asked
    /// twice, as all of the trait's may.
    pub(crate) async fn insist<T, F: Future<Output = Result<T, Error>>>(
        &self,
        lease: Duration,
        during: &str,
        call: impl Fn() -> F,
    ) -> Result<T, Error> {
        let until = self.clock.now() + lease;
        loop {
            match self.bounded(lease, during, call()).await {
                Err(error) if error.is_unknown() && self.clock.now() < until => {}
                told => return told,
            }
            let pause = retry_pause(lease);
            self.clock.sleep_until(self.clock.now() + pause).await;
        }
    }

    /// A hold is lost: whoever waits behind it in this process goes on without it.
    pub(crate) fn hold_ended(self: &Arc<Self>, hold: &Arc<Tracked>) {
        if self.lines.hold_lost(hold) {
            self.runtime.spawn(acquire::drive(self.clone(), hold.key()));
        }
        // The engine may still list the claim, if only this side believes that it is over.
        self.releases.push(self, hold);
    }

    /// Who holds the name, as far as the engine says so at once: for an error message.
    pub(crate) async fn holder_of(&self, name: &Name) -> Option<Party> {
        let query = Query::One(name.clone());
        let views = tokio::time::timeout(Duration::from_millis(50), self.backend.inspect(&query));
        let view = views.await.ok()?.ok()?.into_iter().next()?;
        view.holders.into_iter().next().map(|holder| holder.party)
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.watchdog.stop();
    }
}
