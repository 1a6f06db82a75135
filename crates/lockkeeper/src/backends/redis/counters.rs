//! Where a claim's order number comes from.
//!
//! Numbers are the server's time in microseconds or, if the clock is behind, one more than the last. To ask for the time
//! makes a lone cycle about a seventh dearer for the server, so a number is merely one more than the last where the counter has lately been
//! lifted to the time, by this keeper on this connection. A counter from old data, of a server that was restarted or
//! that follows another, is therefore lifted before it is used: such a server is reached by a new connection or, where
//! its data can change under one that stands, after a while.
//!
//! What the next number will be can then be guessed: the claim brings it along, and the server need not put it into words.
//! A claim that will likely have to wait brings none, and the server looks for others before it takes a number. Where the
//! number before it was told on this connection, the guess is not ahead of the counter: see [`super::link::numbering`].

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::keys::BUCKETS;
use crate::lifecycle::deadline::Moment;

/// So long after it was lifted a counter may be used as it is.
const LATELY: Duration = Duration::from_millis(50);

/// A counter that stands lower was never lifted.
const LOWEST: u64 = 1_000_000_000_000_000;

/// What is known of the counters of all buckets, on one connection.
#[derive(Debug)]
pub(super) struct Counters([Counter; BUCKETS as usize]);

/// What is known of one of them.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// When it was last lifted.
    lifted: AtomicU64,
    /// The last number that it gave, or will give to whoever is asking.
    last: AtomicU64,
    /// The last number that was told here.
    told: AtomicU64,
    /// Whoever asked last was given none, as one who has to wait.
    crowded: AtomicBool,
}

impl Default for Counters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Counters {
    pub(super) fn of(&self, bucket: u32) -> &Counter {
        &self.0[(bucket % BUCKETS) as usize]
    }
}

impl Counter {
    pub(super) fn is_late(&self, now: Moment) -> bool {
        let at = self.lifted.load(Ordering::Relaxed);
        Moment::from_nanos(at) + LATELY <= now
    }

    /// A question that was sent at this moment has lifted it.
    pub(super) fn lifted(&self, asked: Moment) {
        self.lifted.fetch_max(asked.nanos(), Ordering::Relaxed);
    }

    /// What it will give next, if nobody else asks it; zero if the next one will hardly be let in at once.
    pub(super) fn guess(&self) -> u64 {
        if self.crowded.load(Ordering::Relaxed) {
            return 0;
        }
        self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Whether the number before this guess has been told, so that the counter stands no lower.
    pub(super) fn told_before(&self, guess: u64) -> bool {
        guess > LOWEST && self.told.load(Ordering::Relaxed) == guess - 1
    }

    /// Whether it gave less than a guess that it had told the number before of. Then its data are older than they were, and
    /// everybody here lifts it.
    pub(super) fn went_back(&self, number: Option<u64>, guess: u64) -> bool {
        let back = number.is_none_or(|number| number < guess);
        if back {
            self.told.store(0, Ordering::Relaxed);
            self.lifted.store(0, Ordering::Relaxed);
        }
        back
    }

    /// What it gave; nothing is known to whoever has to wait.
    pub(super) fn gave(&self, number: Option<u64>, guess: u64) {
        self.crowded.store(number.is_none(), Ordering::Relaxed);
        let Some(number) = number else { return };
        self.told.store(number, Ordering::Relaxed);
        match number.cmp(&guess) {
            // Others here may have guessed on meanwhile.
            Greater => drop(self.last.fetch_max(number, Ordering::Relaxed)),
            Less => self.last.store(number, Ordering::Relaxed),
            Equal => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: u64 = 1_790_000_000_000_000;

    /// What the counter gave, and what is expected of it next.
    fn next(counter: &Counter, given: Option<u64>) -> u64 {
        counter.gave(given, counter.guess());
        counter.guess()
    }

    #[test]
    fn the_next_number_is_one_more_whoever_had_the_last() {
        let counter = Counter::default();
        assert_eq!(next(&counter, Some(GIVEN)), GIVEN + 1);
        // Another keeper had some in between; the server's data are older than they were.
        assert_eq!(next(&counter, Some(GIVEN + 9)), GIVEN + 10);
        assert_eq!(next(&counter, Some(GIVEN - 9)), GIVEN - 8);
    }

    #[test]
    fn who_asks_beside_others_does_not_guess_the_same() {
        let counter = Counter::default();
        counter.gave(Some(GIVEN), counter.guess());
        let (one, two) = (counter.guess(), counter.guess());
        assert_eq!((one, two), (GIVEN + 1, GIVEN + 2));
        counter.gave(Some(one), one);
        counter.gave(Some(two), two);
        assert_eq!(counter.guess(), GIVEN + 3);
    }

    #[test]
    fn nothing_is_guessed_while_others_have_to_wait() {
        let counter = Counter::default();
        counter.gave(Some(GIVEN), counter.guess());
        assert_eq!(next(&counter, None), 0);
        assert_eq!(next(&counter, Some(GIVEN + 5)), GIVEN + 6);
    }
}
