//! Ending a hold: told by `release`, queued by `Drop`, drained by closing the keeper.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};

use super::acquire;
use super::core::{Core, call_limit};
use super::deadline::Moment;
use super::detached::{detached, independent};
use super::local_line::Ending;
use super::locked;
use super::tracked::{Phase, Term, Tracked, retry_pause};
use crate::backend::Released;
use crate::error::{Error, LostReason};
use crate::keeper::Unreleased;
use crate::{Mode, Name, Token};

/// One entry into a hold. Ending it, in whatever way, ends it exactly once.
#[derive(Debug)]
pub(crate) struct Grant {
    core: Arc<Core>,
    hold: Arc<Tracked>,
    step: u8,
    over: bool,
}

impl Grant {
    pub(crate) fn new(core: Arc<Core>, hold: Arc<Tracked>, step: u8) -> Self {
        Self {
            core,
            hold,
            step,
            over: false,
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(crate) fn hold(&self) -> &Arc<Tracked> {
        &self.hold
    }

    /// What is held and how. The engine's order numbers were checked when they came in.
    pub(crate) fn particulars(&self) -> Result<(Name, Mode, Token), Error> {
        let (name, mode, number) = self.hold.particulars();
        let token = Token::new(number, self.step).map_err(Error::invalid)?;
        Ok((name, mode, token))
    }

    /// The caller, who asked for this term, has it: from now on the watchdog keeps it alive. Tells how long it is good
    /// for; zero if it is lost.
    pub(crate) fn collect(&self, term: Term, now: Moment) -> Duration {
        let collected = self.hold.collect(term, now);
        if collected.moved {
            self.core.watchdog.schedule(&self.hold);
        }
        collected.left
    }

    /// Forgets a grant that was never given.
    pub(crate) fn void(mut self) {
        self.over = true;
    }

    /// Ends this entry and tells how it ended.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        self.over = true;
        let (core, hold) = (&self.core, &self.hold);
        let told = match core.lines.end_one(core, hold) {
            Ending::StillEntered | Ending::HandedOn => Ok(Released::Freed),
            Ending::Free { others_wait } => {
                let free = free(core.clone(), hold.clone(), others_wait);
                if others_wait {
                    // On the heap, since it is rare.
                    Box::pin(independent(core, free)).await?
                } else {
                    detached(core, free).await?
                }
            }
        };
        let lost = |reason| {
            Err(Error::Lost {
                name: hold.claim().name,
                backend: core.name(),
                reason,
            })
        };
        match (hold.phase(), told) {
            (Phase::Lost(reason), _) => lost(reason),
            (_, Ok(Released::Gone)) => lost(LostReason::Gone),
            (_, Ok(Released::Freed)) => Ok(()),
            (_, Err(error)) => Err(error),
        }
    }
}

impl Drop for Grant {
    /// Never blocks, never panics; works without a runtime around it, and if the keeper's runtime has
    /// gone too, the lease ends the claim.
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Ending::Free { others_wait } = self.core.lines.end_one(&self.core, &self.hold) {
            self.core.watchdog.forget(&self.hold);
            self.core.releases.push(&self.core, &self.hold);
            if others_wait {
                self.core
                    .runtime
                    .spawn(acquire::drive(self.core.clone(), self.hold.key()));
            }
        }
    }
}

/// Takes the claim out of the engine's list, then lets the next caller of this process enter.
fn free(
    core: Arc<Core>,
    hold: Arc<Tracked>,
    others_wait: bool,
) -> impl Future<Output = Result<Released, Error>> + Send {
    // Made at once: if all this is dropped, those who wait are told.
    let next = others_wait.then(|| Box::pin(acquire::drive(core.clone(), hold.key())));
    async move {
        hold.end();
        let asking = ask_to_release(&core, &hold);
        tokio::pin!(asking);
        // Others wait for the question, which the first poll sends, and nobody for the rest.
        let asked = poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await;
        core.watchdog.strike(&hold);
        let told = match asked {
            Poll::Ready(told) => told,
            Poll::Pending => asking.await,
        };
        if told.is_err() {
            core.releases.push(&core, &hold);
        }
        if let Some(next) = next {
            core.runtime.spawn(next);
        }
        told
    }
}

/// Asks again while the outcome is unknown, for as long as one call may take.
async fn ask_to_release(core: &Core, hold: &Tracked) -> Result<Released, Error> {
    let mut now = core.clock.now();
    if hold.lingers(now) {
        hold.lose(LostReason::Expired);
        return Ok(Released::Gone);
    }
    let claim = hold.claim();
    let until = now + call_limit(claim.lease);
    let mut unknown = None;
    loop {
        let call = core.backend.release(&claim);
        match core.limited(claim.lease, now, "releasing", call).await {
            Err(error) if error.is_unknown() && core.clock.now() < until => {
                unknown.get_or_insert(error);
                core.clock
                    .sleep_until(core.clock.now() + retry_pause(claim.lease))
                    .await;
                now = core.clock.now();
            }
            // Gone by the question before this one, or gone before it: nobody can say any more.
            Ok(Released::Gone) => return unknown.map_or(Ok(Released::Gone), Err),
            told => return told,
        }
    }
}

/// So many claims that could not be released are named when the keeper is closed.
const NAMED: usize = 1000;

/// Releases that nobody waits for.
#[derive(Debug)]
pub(crate) struct Releases {
    /// Each with its keeper, which lives until the release is done.
    queue: mpsc::UnboundedSender<(Arc<Core>, Arc<Tracked>)>,
    open: Arc<Open>,
}

/// What is not yet done, and what could not be done.
#[derive(Debug, Default)]
struct Open {
    count: AtomicUsize,
    drained: Notify,
    failed: Mutex<Vec<Unreleased>>,
}

impl Releases {
    pub(crate) fn start(runtime: &Handle) -> Self {
        let (queue, mut queued) = mpsc::unbounded_channel::<(Arc<Core>, Arc<Tracked>)>();
        let open = Arc::<Open>::default();
        let counted = open.clone();
        runtime.spawn(async move {
            while let Some((core, hold)) = queued.recv().await {
                let done = counted.clone();
                let runtime = core.runtime.clone();
                let work = async move {
                    release_in_time(&core, &hold, &done).await;
                    done.one_less();
                };
                super::detached::started(&runtime, work).await;
            }
        });
        Self { queue, open }
    }

    pub(crate) fn push(&self, core: &Arc<Core>, hold: &Arc<Tracked>) {
        hold.end();
        if hold.lingers(core.clock.now()) {
            return;
        }
        self.open.count.fetch_add(1, Ordering::SeqCst);
        if self.queue.send((core.clone(), hold.clone())).is_err() {
            self.open.one_less();
        }
    }

    /// Waits until the queue is empty, or until `until`; returns what was not released.
    pub(crate) async fn drain(&self, core: &Core, until: Moment) -> Vec<Unreleased> {
        let empty = async {
            loop {
                let drained = self.open.drained.notified();
                tokio::pin!(drained);
                drained.as_mut().enable();
                if self.open.count.load(Ordering::SeqCst) == 0 {
                    return;
                }
                drained.await;
            }
        };
        tokio::select! {
            () = empty => {}
            () = core.clock.sleep_until(until) => {}
        }
        std::mem::take(&mut *locked(&self.open.failed))
    }

    /// Whether releases are still carried out: not any more once the keeper's runtime has gone.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.queue.is_closed()
    }

    /// How many releases are under way.
    pub(crate) fn pending(&self) -> usize {
        self.open.count.load(Ordering::SeqCst)
    }
}

impl Open {
    fn one_less(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.drained.notify_waiters();
    }
}

/// Repeats the release until the engine has answered, or until the lease has ended by itself.
async fn release_in_time(core: &Core, hold: &Tracked, open: &Open) {
    let claim = hold.claim();
    let pointless = core.clock.now() + claim.lease + Duration::from_secs(1);
    loop {
        let (call, now) = (core.backend.release(&claim), core.clock.now());
        match core.limited(claim.lease, now, "releasing", call).await {
            Ok(_) => return,
            Err(error) if error.is_unknown() && core.clock.now() < pointless => {
                core.clock
                    .sleep_until(core.clock.now() + retry_pause(claim.lease))
                    .await;
            }
            Err(error) => {
                let unreleased = Unreleased {
                    name: claim.name,
                    why: error.to_string(),
                };
                let mut failed = locked(&open.failed);
                if failed.len() < NAMED {
                    failed.push(unreleased);
                }
                return;
            }
        }
    }
}
