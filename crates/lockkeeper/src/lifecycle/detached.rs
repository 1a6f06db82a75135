//! Work that a cancelled caller cannot cut in half.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::Error;

/// Work on the heap from the start: on its way to a task of its own it is passed on several times, and
/// a future is as large as everything in it together.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs `work` to its end even if the caller stops waiting for it.
///
/// # Errors
/// [`Error::Closed`] when the runtime is shutting down.
pub(crate) fn detached<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = Result<T, Error>> {
    let (tell, told) = oneshot::channel();
    let work = Box::pin(async move {
        let _nobody_waits = tell.send(work.await);
    });
    async move {
        begin(runtime, work).await;
        told.await.map_err(|_| Error::Closed)
    }
}

/// Starts `work` and does not wait for its end.
///
/// The first poll happens right here: an engine that answers at once, as an embedded one does, costs
/// no switch of tasks. What is still pending after it moves to a task of the keeper's own.
pub(crate) fn started(
    runtime: &Handle,
    work: impl Future<Output = ()> + Send + 'static,
) -> impl Future<Output = ()> {
    begin(runtime, Box::pin(work))
}

async fn begin(runtime: &Handle, mut work: Work) {
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
