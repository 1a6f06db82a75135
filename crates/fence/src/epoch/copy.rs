//! What one copy of the resource keeps and decides, without I/O.

use crate::{Pass, Refusal};

/// A value as it stands in a copy: who wrote it, and as which of its writes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Written<V> {
    /// Who.
    pub pass: Pass,
    /// The how-manieth write under that pass, from 1.
    pub turn: u64,
    /// What.
    pub value: V,
}

impl<V> Written<V> {
    /// Later writes are higher.
    fn rank(&self) -> (u64, u64) {
        (self.pass.token().get(), self.turn)
    }

    /// The later one of two.
    pub(super) fn later(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) if one.rank() >= other.rank() => Some(one),
            (one, None) => one,
            (_, other) => other,
        }
    }
}

/// All that one copy keeps. Each of its two verbs must be one atomic step of the copy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CopyState<V> {
    /// The highest pass that the copy was marked with.
    pub marked: Option<Pass>,
    /// What was written last.
    pub written: Option<Written<V>>,
}

impl<V> Default for CopyState<V> {
    fn default() -> Self {
        let (marked, written) = (None, None);
        Self { marked, written }
    }
}

impl<V: Clone> CopyState<V> {
    /// From now on nobody with a lower token writes here. Tells what stands here.
    ///
    /// # Errors
    /// When a later claim has been here.
    pub fn mark(&mut self, pass: &Pass) -> Result<Option<Written<V>>, Refusal> {
        pass.after(self.marked.as_ref())?;
        self.marked = Some(*pass);
        Ok(self.written.clone())
    }

    /// Takes the write over, if the copy is not marked by a later claim. An earlier write of the same claim
    /// that arrives late changes nothing.
    ///
    /// # Errors
    /// When a later claim has been here.
    pub fn write(&mut self, new: &Written<V>) -> Result<(), Refusal> {
        new.pass.after(self.marked.as_ref())?;
        self.marked = Some(new.pass);
        if self
            .written
            .as_ref()
            .is_none_or(|old| old.rank() < new.rank())
        {
            self.written = Some(new.clone());
        }
        Ok(())
    }
}
