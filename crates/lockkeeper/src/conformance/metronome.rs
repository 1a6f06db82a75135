//! Whether the machine kept time while a law was tried. The laws wait for real leases to end; where nothing ran for a
//! good part of one, a broken law says something about the machine and nothing about the backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::Clock;
use crate::lifecycle::deadline::Moment;

const BEAT: Duration = Duration::from_millis(5);
/// A sixth of the shortest lease that the engines' laws run with.
const STALL: Duration = Duration::from_millis(100);

/// Beats on a thread of its own until it is dropped.
#[derive(Debug)]
pub(super) struct Metronome {
    beats: Arc<Beats>,
}

/// In milliseconds since the metronome started.
#[derive(Debug)]
struct Beats {
    clock: Clock,
    start: Moment,
    last: AtomicU64,
    longest: AtomicU64,
    over: AtomicBool,
}

impl Beats {
    fn beat(&self) {
        let now = self.now();
        let last = self.last.swap(now, Ordering::Relaxed);
        self.longest
            .fetch_max(now.saturating_sub(last), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        let since = self.clock.now() - self.start;
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

impl Metronome {
    pub(super) fn start() -> Self {
        let clock = Clock::system();
        let beats = Arc::new(Beats {
            start: clock.now(),
            clock,
            last: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        let beating = beats.clone();
        // Without a thread every verdict is one of a machine that stood still, and after some trials counts.
        let _thread = thread::Builder::new().spawn(move || {
            while !beating.over.load(Ordering::Relaxed) {
                thread::sleep(BEAT);
                beating.beat();
            }
        });
        Self { beats }
    }

    /// The longest time for which the machine stood still, if that spoils a verdict. Who asks may be the first that
    /// goes on after it: then the beat that is missing counts.
    pub(super) fn stall(&self) -> Option<Duration> {
        self.beats.beat();
        spoils(self.beats.longest.load(Ordering::Relaxed))
    }
}

fn spoils(gap: u64) -> Option<Duration> {
    let stall = Duration::from_millis(gap).saturating_sub(BEAT);
    (stall >= STALL).then_some(stall)
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.beats.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_that_comes_late_is_told_and_a_quiet_time_is_not() {
        assert_eq!(spoils(104), None);
        assert_eq!(spoils(105), Some(STALL));
    }

    #[test]
    fn a_beat_that_is_missing_when_the_verdict_comes_is_told() {
        let stopped = Metronome::start();
        stopped.beats.over.store(true, Ordering::Relaxed);
        thread::sleep(STALL + 4 * BEAT);
        assert!(stopped.stall().is_some());
    }
}
