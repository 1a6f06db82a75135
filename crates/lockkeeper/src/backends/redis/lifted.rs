//! Where a claim's order number comes from.
//!
//! Numbers are the server's time in microseconds or, if the clock is behind, one more than the last. To ask for the time
//! makes a lone cycle about a seventh dearer for the server, so a number is merely one more than the last where the counter has lately been
//! lifted to the time, by this keeper on this connection. A counter from old data, of a server that was restarted or
//! that follows another, is therefore lifted before it is used: such a server is reached by a new connection or, where
//! its data can change under one that stands, after a while.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::keys::BUCKETS;
use crate::lifecycle::deadline::Moment;

/// So long after it was lifted a counter may be used as it is.
const LATELY: Duration = Duration::from_millis(50);

/// When the counter of each bucket was last lifted, on one connection.
#[derive(Debug)]
pub(super) struct Lifted([AtomicU64; BUCKETS as usize]);

impl Default for Lifted {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; _])
    }
}

impl Lifted {
    pub(super) fn is_late(&self, bucket: u32, now: Moment) -> bool {
        let at = self.of(bucket).load(Ordering::Relaxed);
        Moment::from_nanos(at) + LATELY <= now
    }

    /// A question that was sent at `asked` has lifted it.
    pub(super) fn note(&self, bucket: u32, asked: Moment) {
        self.of(bucket).fetch_max(asked.nanos(), Ordering::Relaxed);
    }

    fn of(&self, bucket: u32) -> &AtomicU64 {
        &self.0[(bucket % BUCKETS) as usize]
    }
}
