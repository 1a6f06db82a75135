//! What this keeper remembers of names that it used before, so that it need not ask.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::wire::{Ear, Watcher};
use crate::Name;

/// So many names are remembered.
const NAMES_KEPT: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Familiar(Mutex<HashMap<Name, Memory>>);

#[derive(Debug, Default)]
struct Memory {
    /// Somebody else held it when we last tried to take it.
    busy: bool,
    /// We were alone under this number, and have left.
    left: Option<i32>,
    /// Tells if the name's own node goes.
    parent: Option<Watcher>,
}

/// The node with this number was the only one of its name, and is deleted.
#[derive(Debug, Clone)]
pub(super) struct Left {
    pub(super) number: i32,
    /// Stands as long as the name's own node is the one that it was then.
    pub(super) parent: Option<Ear>,
}

impl Left {
    /// Whether the node that has just got this number is alone too, for sure.
    ///
    /// The number counts the nodes ever made for the name. The next number means that nobody else made one
    /// since we left, when nobody was there. Only if the name's own node was removed meanwhile and made
    /// anew, the count began anew; but that would have been told before the number was. And the servers
    /// stop counting at the last number, which they give to one node after the other: it proves nothing.
    pub(super) fn proves_alone(&self, number: i32) -> bool {
        let is_next = self.number.checked_add(1) == Some(number) && number != i32::MAX;
        is_next && self.is_same_parent()
    }

    fn is_same_parent(&self) -> bool {
        self.parent.as_ref().is_some_and(Ear::stands)
    }
}

impl Familiar {
    pub(super) fn was_busy(&self, name: &Name) -> bool {
        self.lock().get(name).is_some_and(|memory| memory.busy)
    }

    pub(super) fn note_busy(&self, name: &Name, busy: bool) {
        self.change(name, |memory| memory.busy = busy);
    }

    /// How we left the name; it is forgotten by this.
    pub(super) fn take_left(&self, name: &Name) -> Option<Left> {
        let mut names = self.lock();
        let memory = names.get_mut(name)?;
        let number = memory.left.take()?;
        let parent = memory.parent.as_ref().map(Watcher::ear);
        Some(Left {
            number,
            parent: parent.filter(Ear::stands),
        })
    }

    pub(super) fn note_left(&self, name: &Name, number: i32) {
        self.change(name, |memory| memory.left = Some(number));
    }

    /// From now on we hear of the end of the name's own node.
    pub(super) fn note_parent(&self, name: &Name, parent: Watcher) {
        let mut parent = Some(parent);
        self.change(name, |memory| {
            std::mem::swap(&mut memory.parent, &mut parent)
        });
        // The one before is dropped here, without the lock.
    }

    fn change(&self, name: &Name, how: impl FnOnce(&mut Memory)) {
        let mut names = self.lock();
        let full = names.len() >= NAMES_KEPT && !names.contains_key(name);
        let forgotten = if full {
            std::mem::take(&mut *names)
        } else {
            HashMap::new()
        };
        how(names.entry(name.clone()).or_default());
        drop(names);
        drop(forgotten);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: L1
    #[test]
    fn only_the_next_number_below_the_same_node_proves_to_be_alone() {
        let left = |number: i32, stands: bool| Left {
            number,
            parent: Some(Ear::that(stands)),
        };
        assert!(left(0, true).proves_alone(1));
        assert!(left(1000, true).proves_alone(1001));
        for number in [1000, 1002, 0, 1, -1001] {
            assert!(!left(1000, true).proves_alone(number), "{number}");
        }
        // The name's own node may be another one.
        assert!(!left(1000, false).proves_alone(1001));
        let unknown = Left {
            number: 1000,
            parent: None,
        };
        assert!(!unknown.proves_alone(1001));
        // And where the count has come to its end, it proves nothing.
        for number in [i32::MAX - 1, i32::MAX] {
            assert!(!left(number, true).proves_alone(number.wrapping_add(1)));
        }
    }
}
