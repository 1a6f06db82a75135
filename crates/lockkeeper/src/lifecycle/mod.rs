//! The life of a claim, written once above the backends: acquiring, keeping alive, losing, releasing.
//!
//! ```text
//! acquire ── local_line ── backend.enter ──► tracked (waits │ holds) ──► release
//!                                               ▲ renewals, pushes, deadlines: watchdog
//! ```

pub(crate) mod acquire;
pub(crate) mod core;
pub(crate) mod deadline;
pub(crate) mod detached;
mod limits;
pub(crate) mod local_line;
pub(crate) mod release;
pub(crate) mod tracked;
pub(crate) mod watchdog;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex whose critical sections cannot leave half a change behind, so that a panic elsewhere
/// in the process is no reason to stop keeping leases alive.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
