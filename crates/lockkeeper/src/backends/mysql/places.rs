//! What a keeper knows of its own claims: their numbers, so that they are found by the table's key, and which of them wait.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::claim::ClaimId;
use crate::{Mode, Name};

/// Where a claim of this keeper stands, as it was last told.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) name: Name,
    pub(super) order: u64,
    pub(super) mode: Mode,
    pub(super) waits: bool,
    /// Whether it was alone, in the name's row. It may have been moved to the list since; never back.
    pub(super) alone: bool,
}

/// The claims of one keeper. Nothing rests on it but speed: whatever is not in it is looked for by its id.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<HashMap<ClaimId, Place>>);

impl Places {
    /// Its number, and whether it was alone.
    pub(super) fn get(&self, id: ClaimId, name: &Name) -> Option<(u64, bool)> {
        let all = self.all();
        all.get(&id)
            .filter(|place| place.name == *name)
            .map(|place| (place.order, place.alone))
    }

    /// Notes where it stands; says whether it was known to wait.
    pub(super) fn put(&self, id: ClaimId, place: Place) -> bool {
        let before = self.all().insert(id, place);
        before.is_some_and(|before| before.waits)
    }

    pub(super) fn forget(&self, id: ClaimId) {
        self.all().remove(&id);
    }

    /// Whether it waited until now; from now on it does not.
    pub(super) fn wait_is_over(&self, id: ClaimId) -> bool {
        let mut all = self.all();
        all.get_mut(&id)
            .is_some_and(|place| std::mem::take(&mut place.waits))
    }

    /// Those who wait, oldest first, at most so many.
    pub(super) fn waiting(&self, most: usize) -> Vec<(ClaimId, Place)> {
        let all = self.all();
        let waiting = all.iter().filter(|(_, place)| place.waits);
        let mut waiting: Vec<_> = waiting.map(|(id, place)| (*id, place.clone())).collect();
        waiting.sort_by_key(|(_, place)| place.order);
        waiting.truncate(most);
        waiting
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ClaimId, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
