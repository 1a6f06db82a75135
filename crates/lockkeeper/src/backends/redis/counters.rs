//! Where a claim's sequence number comes from.
//!
//! Numbers are the server's time in microseconds or, if the clock is behind, one more than the last. Reading the time makes
//! an uncontended cycle about a seventh more expensive for the server, so a number is merely one more than the last where this
//! keeper recently raised the counter to the time on this connection. A counter from old data, of a server that was restarted
//! or that follows another, is therefore raised before it is used: such a server is reached by a new connection or, where
//! its data can change under an existing one, after a while.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::keys::BUCKETS;
use crate::lifecycle::deadline::Moment;

/// For so long after it was raised a counter may be used as it is.
const RECENT: Duration = Duration::from_millis(50);

/// What is known of the counters of all buckets, on one connection.
#[derive(Debug)]
pub(super) struct Counters([Counter; BUCKETS as usize]);

/// What is known of one of them.
#[derive(Debug, Default)]
pub(super) struct Counter {
    /// When it was last raised to the server's time.
    raised: AtomicU64,
    /// The last claim of the bucket was not granted at once.
    contended: AtomicBool,
}

/// How the next claim of a bucket gets its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// From the server's time.
    Raised,
    /// One more than the last; the claim expects a free name.
    Counted,
    /// One more than the last; the claim expects to wait.
    Behind,
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
    pub(super) fn next(&self, now: Moment) -> Next {
        let raised = Moment::from_nanos(self.raised.load(Ordering::Relaxed));
        if raised + RECENT <= now {
            Next::Raised
        } else if self.contended.load(Ordering::Relaxed) {
            Next::Behind
        } else {
            Next::Counted
        }
    }

    /// A request that was sent at this moment has raised it.
    pub(super) fn raised(&self, sent: Moment) {
        self.raised.fetch_max(sent.nanos(), Ordering::Relaxed);
    }

    /// Whether the last claim was granted at once.
    pub(super) fn granted(&self, granted: bool) {
        self.contended.store(!granted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: F2
    #[test]
    fn a_counter_is_used_as_it_is_only_while_it_was_recently_raised() {
        let counter = Counter::default();
        let now = Moment::from_nanos(1_000_000_000);
        assert_eq!(counter.next(now), Next::Raised);
        counter.raised(now);
        assert_eq!(counter.next(now), Next::Counted);
        counter.granted(false);
        assert_eq!(counter.next(now), Next::Behind);
        assert_eq!(counter.next(now + RECENT), Next::Raised);
        counter.granted(true);
        assert_eq!(counter.next(now), Next::Counted);
    }
}
