//! Names that a keeper knows to have a row. Nothing rests on it but speed: each statement says whether it found what it is for.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Name;

/// The most names that are remembered.
const MOST: usize = 10_000;

/// A bounded set of names.
#[derive(Debug, Default)]
pub(crate) struct Used(Mutex<HashSet<Name>>);

impl Used {
    pub(crate) fn has(&self, name: &Name) -> bool {
        self.all().contains(name)
    }

    pub(crate) fn note(&self, name: &Name) {
        let mut all = self.all();
        if all.contains(name) {
            return;
        }
        if all.len() >= MOST {
            all.clear();
        }
        all.insert(name.clone());
    }

    fn all(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
