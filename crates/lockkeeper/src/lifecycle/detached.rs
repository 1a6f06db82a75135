//! Work that a cancelled caller cannot cut in half.
//!
//! The caller itself drives it for as long as it stays: an answer then costs no switch of tasks. What a
//! caller leaves behind, or what others must not have to wait for a caller to drive, moves to a task of
//! the keeper's own.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::core::Core;
use super::locked;
use crate::error::Error;

/// Work on the heap from the start: on its way to a task of its own it is passed on several times, and
/// a future is as large as everything in it together.
type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls on behalf of the keeper; `None` once its runtime has gone, where no timer can be set any more.
fn poll_for<T>(core: &Core, work: &mut Work<T>, cx: &mut Context<'_>) -> Option<Poll<T>> {
    if !core.releases.is_at_work() {
        return None;
    }
    // Its timers and tasks belong to the keeper's runtime, whatever drives the caller.
    let _keepers = core.runtime.enter();
    Some(work.as_mut().poll(cx))
}

/// Runs `work` to its end even if the caller stops waiting for it.
///
/// # Errors
/// [`Error::Closed`] when the keeper's runtime has gone.
pub(crate) fn detached<T: Send + 'static>(
    core: &Core,
    work: impl Future<Output = T> + Send + 'static,
) -> Detached<'_, T> {
    Detached {
        core,
        work: Some(Box::pin(work)),
    }
}

/// Made by [`detached`]. Dropped before its end, it goes on by itself.
pub(crate) struct Detached<'a, T: Send + 'static> {
    core: &'a Core,
    work: Option<Work<T>>,
}

impl<T: Send + 'static> Future for Detached<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let polled = match &mut this.work {
            Some(work) => poll_for(this.core, work, cx),
            None => None,
        };
        let told = match polled {
            Some(polled) => Ok(ready!(polled)),
            None => Err(Error::Closed),
        };
        this.work = None;
        Poll::Ready(told)
    }
}

impl<T: Send + 'static> Drop for Detached<'_, T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            self.core.runtime.spawn(async move { drop(work.await) });
        }
    }
}

/// The same for work that others wait for too: a caller who stays, but does not go on, must not keep it
/// from its end.
pub(crate) async fn independent<T: Send + 'static>(
    core: &Arc<Core>,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    let (tell, told) = oneshot::channel();
    let work = async move {
        let _nobody_waits = tell.send(work.await);
    };
    started(&core.runtime, work).await;
    told.await.map_err(|_| Error::Closed)
}

/// Work that one caller drives, until others depend on it or the caller leaves: then it settles in a task
/// of the keeper's own.
pub(crate) struct Carried(Mutex<Stage>);

enum Stage {
    /// Promised, and not there yet.
    Awaited,
    Carried(Work<()>),
    /// Done, or in a task of its own.
    Settled,
}

impl Carried {
    /// For work that will be given to [`Carried::start`].
    pub(crate) fn awaited() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Stage::Awaited)))
    }

    pub(crate) fn start(&self, core: &Core, work: impl Future<Output = ()> + Send + 'static) {
        let mut stage = locked(&self.0);
        match &*stage {
            Stage::Awaited => *stage = Stage::Carried(Box::pin(work)),
            _ => drop(core.runtime.spawn(work)),
        }
    }

    /// Drives it on; ready when there is nothing left to drive here.
    pub(crate) fn poll(&self, core: &Core, cx: &mut Context<'_>) -> Poll<()> {
        let mut stage = locked(&self.0);
        if let Stage::Carried(work) = &mut *stage
            && poll_for(core, work, cx) == Some(Poll::Pending)
        {
            return Poll::Pending;
        }
        let over = std::mem::replace(&mut *stage, Stage::Settled);
        drop(stage);
        // Cut short, it tells those in its line so.
        drop(over);
        Poll::Ready(())
    }

    /// Goes on by itself from here.
    pub(crate) fn settle(&self, core: &Core) {
        let stage = std::mem::replace(&mut *locked(&self.0), Stage::Settled);
        if let Stage::Carried(work) = stage {
            core.runtime.spawn(work);
        }
    }
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carried")
    }
}

/// Starts `work` and does not wait for its end.
///
/// The first poll happens right here: an engine that answers at once, as an embedded one does, costs
/// no switch of tasks. What is still pending after it moves to a task of the keeper's own.
pub(crate) async fn started(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    let mut work: Work<()> = Box::pin(work);
    let first = poll_fn(|cx| {
        // Its timers and tasks belong to the keeper's runtime, whatever drives the caller.
        let _keepers = runtime.enter();
        Poll::Ready(work.as_mut().poll(cx))
    })
    .await;
    if first.is_pending() {
        runtime.spawn(work);
    }
}
