//! The rule: who of an ordered list of claims holds, and who waits. Pure; no clock, no I/O.
//!
//! | mode | a claim holds when |
//! |---|---|
//! | exclusive | nothing is ahead of it |
//! | shared | only shared claims are ahead of it |
//! | permits k of n | only permits are ahead of it, and with its own k they are at most n |
//!
//! and, for all of them, when everybody ahead of it holds too. So the holders are always the head of
//! the list, a claim that holds goes on holding whatever happens behind it, and whoever reads a list
//! may stop at the first claim that waits.

use crate::Mode;

/// Whether a claim holds or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// It waits.
    Waits,
}

/// A walk along a list of claims in their order, that says of each whether it holds.
///
/// ```
/// use lockkeeper::{Mode, rule::{Verdict, Walk}};
///
/// let mut walk = Walk::default();
/// assert_eq!(walk.next(Mode::Shared), Verdict::Holds);
/// assert_eq!(walk.next(Mode::Shared), Verdict::Holds);
/// assert_eq!(walk.next(Mode::Exclusive), Verdict::Waits);
/// assert_eq!(walk.next(Mode::Shared), Verdict::Waits, "no reader overtakes a waiting writer");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Walk {
    exclusive: bool,
    shared: bool,
    permits: u64,
    somebody_waits: bool,
}

impl Walk {
    /// The verdict on the next claim of the list.
    // Not an `Iterator`: what comes next is an argument.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self, mode: Mode) -> Verdict {
        let fits = !self.somebody_waits && !self.exclusive && self.leaves_room_for(mode);
        self.somebody_waits |= !fits;
        match mode {
            Mode::Shared => self.shared = true,
            Mode::Permits { take, .. } => self.permits += u64::from(take),
            _ => self.exclusive = true,
        }
        if fits { Verdict::Holds } else { Verdict::Waits }
    }

    fn leaves_room_for(&self, mode: Mode) -> bool {
        match mode {
            Mode::Shared => self.permits == 0,
            Mode::Permits { take, of } => {
                !self.shared && self.permits + u64::from(take) <= u64::from(of)
            }
            _ => !self.shared && self.permits == 0,
        }
    }
}

/// How many claims at the head of the list hold.
pub fn holders(modes: impl IntoIterator<Item = Mode>) -> usize {
    let mut walk = Walk::default();
    modes
        .into_iter()
        .take_while(|mode| walk.next(*mode) == Verdict::Holds)
        .count()
}

/// Of a list in its order, the claims that hold once those that `leaves` names are out, and did not
/// hold before: exactly the ones to wake.
pub fn promoted<T>(
    list: &[T],
    mode: impl Fn(&T) -> Mode,
    leaves: impl Fn(&T) -> bool,
) -> impl Iterator<Item = &T> {
    let held_before = holders(list.iter().map(&mode));
    let still_held = list[..held_before]
        .iter()
        .filter(|claim| !leaves(claim))
        .count();
    let hold_now = holders(list.iter().filter(|claim| !leaves(claim)).map(&mode));
    list.iter()
        .filter(move |claim| !leaves(claim))
        .skip(still_held)
        .take(hold_now - still_held)
}

#[cfg(test)]
mod tests;
