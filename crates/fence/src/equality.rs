//! For a resource that can only compare for equality: mark it with the claim, read it, write if the mark is
//! still there.
//!
//! 1. **Mark**: put the claim's mark on the resource, whatever mark is there.
//! 2. **Read** what the change starts from, after the mark.
//! 3. **Compare and set**: write only if the mark is still this claim's.
//!
//! What it gives: a write stands only if nobody else marked the resource since this writer read it, so no
//! update is lost and nothing is mixed, however long a writer is stopped between the steps.
//!
//! **What it lacks is order.** Marks cannot be compared, so the resource cannot tell an old holder from a new
//! one. A holder that lost its lock long ago may still mark, and then its write stands; the rightful holder
//! finds its mark gone and has to begin anew. And two that mark in turns can keep each other from writing.
//! Where the resource can compare numbers, use a [`crate::Fence`].
//!
//! [`crate::sql::MARK_AND_COMPARE`] is the same as SQL.

use std::future::Future;

use crate::ClaimMark;

/// A resource that can be marked, and written to if the mark is still there.
pub trait Markable {
    /// What is read and written.
    type Value;
    /// What can go wrong on the way to the resource.
    type Error;

    /// Puts the mark on, whatever mark is there.
    fn mark(&self, claim: &ClaimMark) -> impl Future<Output = Result<(), Self::Error>>;

    /// Reads.
    fn read(&self) -> impl Future<Output = Result<Self::Value, Self::Error>>;

    /// Writes if the mark is still this one; comparison and write are one atomic step.
    fn write_if_marked(
        &self,
        claim: &ClaimMark,
        value: Self::Value,
    ) -> impl Future<Output = Result<Swap, Self::Error>>;
}

/// How a compare-and-set ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Swap {
    /// The write stands.
    Written,
    /// Somebody else has marked the resource since: nothing was written. Check that the lock is still
    /// held before beginning anew.
    MarkGone,
}

/// Marks, reads, changes, and writes if nobody else marked meanwhile.
///
/// # Errors
/// When the resource fails; whether the write stands is then unknown, and beginning anew would apply the
/// change twice if it does. Look first.
///
/// # Cancel safety
/// Dropping it leaves the mark, and perhaps the write.
pub async fn update<R: Markable>(
    resource: &R,
    claim: &ClaimMark,
    change: impl FnOnce(R::Value) -> R::Value,
) -> Result<Swap, R::Error> {
    resource.mark(claim).await?;
    // Not before the mark: what is read without it may change unseen.
    let value = resource.read().await?;
    resource.write_if_marked(claim, change(value)).await
}
