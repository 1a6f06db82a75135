//! Whether the machine kept time while a law was tried. The laws wait for real leases to end; where nothing ran for a
//! good part of one, a broken law says something about the machine and nothing about the backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::Clock;

const BEAT: Duration = Duration::from_millis(5);
/// A sixth of the shortest lease that the engines' laws run with.
const STALL: Duration = Duration::from_millis(100);

/// Beats on a thread of its own until it is dropped.
#[derive(Debug)]
pub(super) struct Metronome {
    longest: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Metronome {
    pub(super) fn start() -> Self {
        let (longest, over) = <(Arc<AtomicU64>, Arc<AtomicBool>)>::default();
        let (gap, end) = (longest.clone(), over.clone());
        // Without a thread no beat is late: every verdict counts.
        let _beating = thread::Builder::new().spawn(move || {
            let clock = Clock::system();
            let mut last = clock.now();
            while !end.load(Ordering::Relaxed) {
                thread::sleep(BEAT);
                let late = (clock.now() - last).saturating_sub(BEAT);
                let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                gap.fetch_max(late, Ordering::Relaxed);
                last = clock.now();
            }
        });
        Self { longest, over }
    }

    /// The longest time for which the machine stood still, if that spoils a verdict.
    pub(super) fn stall(&self) -> Option<Duration> {
        let longest = Duration::from_millis(self.longest.load(Ordering::Relaxed));
        (longest >= STALL).then_some(longest)
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beat_that_comes_late_is_told_and_a_quiet_time_is_not() {
        let beats = Metronome::start();
        beats.longest.store(99, Ordering::Relaxed);
        assert_eq!(beats.stall(), None);
        beats.longest.store(100, Ordering::Relaxed);
        assert_eq!(beats.stall(), Some(STALL));
    }
}
