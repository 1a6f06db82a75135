//! A resource with many copies: a majority is marked with the new token first, then written.
//!
//! If each copy had a fence and nothing more, an old holder could still complete a write on copies that the
//! new holder has not reached yet, after the new one has read: a stale write would stand, or an
//! acknowledged one be lost. So a new holder [begins an epoch](Epoch::begin): it marks a majority with its
//! pass, and learns what stands there. Any two majorities share a copy, so from then on no older holder
//! completes a write, and whatever an older one has completed before is among what was learned.
//!
//! What it lacks: a write that reached only a minority, because its writer died, may be seen by one reader and
//! not by the next until a later write settles it ([`Reading`] says so); and a copy that loses its data must
//! come back as a new one, not as an empty old one.

mod copy;

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{FuturesUnordered, StreamExt};

pub use copy::{CopyState, Written};

use crate::{FenceError, Pass, Refusal};

/// One copy of the resource: [`CopyState`] behind some wire. Every verb is one atomic step of the copy.
pub trait Replica {
    /// What is written.
    type Value: Clone;
    /// What can go wrong on the way to the copy.
    type Error;

    /// See [`CopyState::mark`].
    fn mark(
        &self,
        pass: &Pass,
    ) -> impl Future<Output = Result<Option<Written<Self::Value>>, FenceError<Self::Error>>>;

    /// See [`CopyState::write`].
    fn write(
        &self,
        new: &Written<Self::Value>,
    ) -> impl Future<Output = Result<(), FenceError<Self::Error>>>;

    /// What stands here.
    fn read(
        &self,
    ) -> impl Future<Output = Result<Option<Written<Self::Value>>, FenceError<Self::Error>>>;
}

/// How many copies decide.
pub const fn majority(copies: usize) -> usize {
    copies / 2 + 1
}

/// A holder's time of writing, after a majority has been marked.
#[derive(Debug)]
pub struct Epoch<'a, R: Replica> {
    copies: &'a [R],
    pass: Pass,
    turn: u64,
    latest: Option<Written<R::Value>>,
}

impl<'a, R: Replica> Epoch<'a, R> {
    /// Marks a majority. All copies are asked at once; a dead or slow minority holds nobody up.
    ///
    /// # Errors
    /// [`EpochError::Refused`] when a later claim was here first; [`EpochError::NoMajority`] when too few copies
    /// answered: beginning anew with the same pass is safe.
    ///
    /// # Cancel safety
    /// Dropping it may leave marks, which keep only older claims out.
    pub async fn begin(copies: &'a [R], pass: Pass) -> Result<Self, EpochError<R::Error>> {
        let answers = agreed(copies, async |copy| copy.mark(&pass).await).await?;
        let latest = answers.into_iter().fold(None, Written::later);
        // A claim that begins again goes on counting where it was.
        let turn = latest
            .as_ref()
            .filter(|latest| latest.pass == pass)
            .map_or(0, |latest| latest.turn);
        Ok(Self {
            copies,
            pass,
            turn,
            latest,
        })
    }

    /// The latest write that may stand: start from it.
    pub fn latest(&self) -> Option<&R::Value> {
        self.latest.as_ref().map(|latest| &latest.value)
    }

    /// Writes to a majority.
    ///
    /// # Errors
    /// As [`Epoch::begin`]; when no majority answered, whether the write stands is unknown, and repeating it is
    /// safe.
    ///
    /// # Cancel safety
    /// Dropping it leaves the outcome unknown.
    pub async fn write(&mut self, value: R::Value) -> Result<(), EpochError<R::Error>> {
        self.turn += 1;
        let new = Written {
            pass: self.pass,
            turn: self.turn,
            value,
        };
        agreed(self.copies, async |copy| copy.write(&new).await).await?;
        self.latest = Some(new);
        Ok(())
    }
}

/// What a majority of the copies says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Reading<V> {
    /// All that answered agree.
    Settled(Option<V>),
    /// The latest write is not on all of them: its writer may be at it, or have died. The next reader may
    /// see the value before it.
    Unsettled(V),
}

/// Reads a majority.
///
/// # Errors
/// [`EpochError::NoMajority`] when too few copies answered.
///
/// # Cancel safety
/// Nothing is changed.
pub async fn read<R: Replica>(copies: &[R]) -> Result<Reading<R::Value>, EpochError<R::Error>> {
    let answers = agreed(copies, async |copy| copy.read().await).await?;
    let rank = |written: &Option<Written<R::Value>>| {
        written.as_ref().map(|written| (written.pass, written.turn))
    };
    let settled = answers.windows(2).all(|two| rank(&two[0]) == rank(&two[1]));
    let latest = answers.into_iter().fold(None, Written::later);
    Ok(match latest.map(|latest| latest.value) {
        Some(value) if !settled => Reading::Unsettled(value),
        value => Reading::Settled(value),
    })
}

/// Why a majority did not agree.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EpochError<E> {
    /// A copy has seen a later claim, and no majority is without it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Too few copies answered; one of the failures comes along.
    #[error("{answered} of {copies} copies answered, {} are needed: unknown outcome, repeat it with the same pass", majority(*.copies))]
    NoMajority {
        /// How many said yes.
        answered: usize,
        /// How many there are.
        copies: usize,
        /// Why one of the others did not.
        #[source]
        source: Option<FenceError<E>>,
    },
}

/// Asks all copies at once, until a majority has said yes.
async fn agreed<R: Replica, T>(
    copies: &[R],
    ask: impl AsyncFn(&R) -> Result<T, FenceError<R::Error>>,
) -> Result<Vec<T>, EpochError<R::Error>> {
    let mut asked: FuturesUnordered<_> = copies.iter().map(|copy| ask(copy)).collect();
    let (mut answers, mut refused, mut failed) = (Vec::new(), None::<Refusal>, None);
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(answer) => answers.push(answer),
            Err(FenceError::Refused(refusal)) => {
                refused = refused
                    .into_iter()
                    .chain([refusal])
                    .max_by_key(Refusal::highest);
            }
            Err(error) => failed = Some(error),
        }
        if answers.len() >= majority(copies.len()) {
            return Ok(answers);
        }
    }
    match refused {
        Some(refusal) => Err(refusal.into()),
        None => Err(EpochError::NoMajority {
            answered: answers.len(),
            copies: copies.len(),
            source: failed,
        }),
    }
}

/// A copy in this process.
#[derive(Debug)]
pub struct MemoryCopy<V>(Mutex<CopyState<V>>);

impl<V> Default for MemoryCopy<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> Replica for MemoryCopy<V> {
    type Value = V;
    type Error = std::convert::Infallible;

    async fn mark(&self, pass: &Pass) -> Result<Option<Written<V>>, FenceError<Self::Error>> {
        Ok(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .mark(pass)?)
    }

    async fn write(&self, new: &Written<V>) -> Result<(), FenceError<Self::Error>> {
        Ok(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write(new)?)
    }

    async fn read(&self) -> Result<Option<Written<V>>, FenceError<Self::Error>> {
        Ok(self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .written
            .clone())
    }
}
