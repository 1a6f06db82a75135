//! What this keeper remembers of names that it used before, so that it need not ask.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Name;
use crate::lifecycle::deadline::Moment;

/// So many names are remembered.
const NAMES_KEPT: usize = 10_000;

/// No ensemble makes so many nodes in a second.
const NODES_PER_SECOND: u128 = 200_000;

#[derive(Debug, Default)]
pub(super) struct Familiar(Mutex<HashMap<Name, Memory>>);

#[derive(Debug, Default, Clone, Copy)]
struct Memory {
    /// Somebody else held it when we last tried to take it.
    busy: bool,
    /// We were alone, and have left.
    left: Option<Left>,
}

/// The node with this number was the only one of its name, and is deleted, which was sent for at this
/// moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) number: i32,
    pub(super) at: Moment,
}

impl Left {
    /// Whether the node that has just got this number is alone too, for sure.
    ///
    /// The number counts the nodes ever made for the name. The next number means that nobody else made one
    /// since we left, when nobody was there. Only if the name's own node was removed meanwhile and made
    /// anew, the count began anew; then others would have to have made just as many nodes as there were
    /// before, which takes more time than has passed. And the servers stop counting at the last number, which
    /// they give to one node after the other: it proves nothing.
    pub(super) fn proves_alone(self, number: i32, now: Moment) -> bool {
        let passed: Duration = now - self.at;
        let possible = passed.as_micros() * NODES_PER_SECOND / 1_000_000;
        let made = u32::try_from(self.number).unwrap_or(0);
        let is_next = self.number.checked_add(1) == Some(number) && number != i32::MAX;
        is_next && possible < u128::from(made)
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
        self.lock().get_mut(name)?.left.take()
    }

    pub(super) fn note_left(&self, name: &Name, left: Left) {
        self.change(name, |memory| memory.left = Some(left));
    }

    fn change(&self, name: &Name, how: impl FnOnce(&mut Memory)) {
        let mut names = self.lock();
        if names.len() >= NAMES_KEPT && !names.contains_key(name) {
            names.clear();
        }
        how(names.entry(name.clone()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Memory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Moment {
        Moment::from_nanos(micros * 1000)
    }

    // proves: L1
    #[test]
    fn only_the_next_number_and_only_soon_proves_to_be_alone() {
        let left = Left {
            number: 1000,
            at: at(0),
        };
        assert!(left.proves_alone(1001, at(4_000)));
        for number in [1000, 1002, 0, 1, -1001] {
            assert!(!left.proves_alone(number, at(4_000)), "{number}");
        }
        // A thousand nodes may have been made by now, in a name's node made anew.
        assert!(!left.proves_alone(1001, at(5_000)));
        assert!(!left.proves_alone(1001, at(60_000_000)));
        // Of few nodes, others make as many in no time.
        let few = Left {
            number: 0,
            at: at(0),
        };
        assert!(!few.proves_alone(1, at(0)));
        // And where the count has come to its end, it proves nothing.
        for number in [i32::MAX - 1, i32::MAX, i32::MIN, -1] {
            let last = Left { number, at: at(0) };
            assert!(
                !last.proves_alone(number.wrapping_add(1), at(1)),
                "{number}"
            );
        }
    }
}
