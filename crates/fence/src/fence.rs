//! What all fences have in common: one verb, and the three ways in which it may end.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use crate::{Pass, Refusal};

/// A resource that compares and writes in one atomic step.
///
/// The law: a write stands only if [`Pass::after`] admits it against the pass of the last write that
/// stands, and nothing comes between that comparison and the write. A lower token is refused with both
/// numbers; an equal one passes for the same claim only.
///
/// The ready-made fences implement it. For a resource of another kind implement it yourself, and let
/// the comparison happen **inside** the resource.
pub trait Fence {
    /// What is written.
    type Value: ?Sized + Sync;
    /// What can go wrong on the way to the resource.
    type Error;

    /// Compares and, if the pass is admitted, writes. Repeating a write whose outcome is unknown does no
    /// harm: the same claim may write again.
    fn write(
        &self,
        pass: &Pass,
        value: &Self::Value,
    ) -> impl Future<Output = Result<(), FenceError<Self::Error>>> + Send;

    /// The pass of the last write that stands; `None` if there was none.
    fn highest(&self)
    -> impl Future<Output = Result<Option<Pass>, FenceError<Self::Error>>> + Send;
}

/// Why a fenced write did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError<E> {
    /// The fence refused the pass; nothing was written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What the fence keeps beside the resource is none of its own writing, so nobody can tell who was
    /// here last; nothing was written.
    #[error(
        "the fence's own record cannot be read ({found:?}): nothing was written; repair it by hand, \
         with a token that is surely the highest"
    )]
    Unreadable {
        /// The beginning of what was found.
        found: String,
    },
    /// The store failed or did not answer: whether the write stands is unknown. Repeating it with the
    /// same pass is safe.
    #[error(
        "the store failed, and it is unknown whether the write stands; repeat it with the same pass"
    )]
    Store(#[source] E),
}

impl<E> FenceError<E> {
    pub(crate) fn unreadable(found: impl std::fmt::Display) -> Self {
        let found = found.to_string().chars().take(80).collect();
        Self::Unreadable { found }
    }

    /// The refusal, if it was one.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused(refusal) => Some(*refusal),
            Self::Unreadable { .. } | Self::Store(_) => None,
        }
    }
}

/// A value in this process behind a fence: the shortest honest reading of [`Fence`], and enough for a
/// resource that lives and dies with its process.
#[derive(Debug, Default)]
pub struct MemoryFence<T> {
    state: Mutex<(Option<Pass>, T)>,
}

impl<T> MemoryFence<T> {
    /// Puts a fence around a value.
    pub fn new(value: T) -> Self {
        Self {
            state: Mutex::new((None, value)),
        }
    }

    /// Changes the value if the pass is admitted.
    ///
    /// # Errors
    /// When it is refused.
    pub fn change<R>(&self, pass: &Pass, change: impl FnOnce(&mut T) -> R) -> Result<R, Refusal> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        pass.after(state.0.as_ref())?;
        state.0 = Some(*pass);
        Ok(change(&mut state.1))
    }

    /// Looks at the value and at the pass of the last write.
    pub fn look<R>(&self, look: impl FnOnce(Option<&Pass>, &T) -> R) -> R {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        look(state.0.as_ref(), &state.1)
    }
}

impl<T: Clone + Send + Sync> Fence for MemoryFence<T> {
    type Value = T;
    type Error = std::convert::Infallible;

    async fn write(&self, pass: &Pass, value: &T) -> Result<(), FenceError<Self::Error>> {
        Ok(self.change(pass, |old| *old = value.clone())?)
    }

    async fn highest(&self) -> Result<Option<Pass>, FenceError<Self::Error>> {
        Ok(self.look(|pass, _| pass.copied()))
    }
}
