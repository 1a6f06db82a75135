//! The one clock. Leases and waits are counted in boot time: it cannot be set, and it runs on while
//! the machine sleeps, which `std::time::Instant` does not on Linux.
//!
//! Time is passed in, so that tests own it: [`Clock::manual`] moves only when it is told to.

use std::io;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// A moment: time since the machine was started, sleep included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// Later than every other moment.
    pub const NEVER: Self = Self(u64::MAX);

    /// From nanoseconds since boot, as [`Moment::nanos`] gave them.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since boot.
    pub const fn nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates: a lease of ten thousand years ends never.
    fn add(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub for Moment {
    type Output = Duration;

    /// Zero when `earlier` is not earlier.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Tells the boot time, and waits for it.
#[derive(Debug, Clone, Default)]
pub struct Clock(Option<Arc<Manual>>);

#[derive(Debug)]
struct Manual {
    nanos: AtomicU64,
    moved: Notify,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock for tests, which moves only by [`Clock::advance`].
    pub fn manual() -> Self {
        let nanos = AtomicU64::new(Duration::from_secs(1000).as_nanos() as u64);
        Self(Some(Arc::new(Manual {
            nanos,
            moved: Notify::new(),
        })))
    }

    /// Moves a manual clock on; a system clock cannot be moved, and this does nothing to it.
    pub fn advance(&self, span: Duration) {
        if let Some(manual) = &self.0 {
            manual
                .nanos
                .fetch_add(span.as_nanos() as u64, Ordering::SeqCst);
            manual.moved.notify_waiters();
        }
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        match &self.0 {
            Some(manual) => Moment(manual.nanos.load(Ordering::SeqCst)),
            None => {
                let time = clock_gettime(ClockId::Boottime);
                Moment(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
            }
        }
    }

    /// Wall-clock time since 1970, to say how long ago something on another machine was. For people to
    /// read: nothing is decided by it.
    pub fn wall(&self) -> Duration {
        match &self.0 {
            Some(manual) => Duration::from_nanos(manual.nanos.load(Ordering::SeqCst)),
            None => {
                let time = clock_gettime(ClockId::Realtime);
                Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
            }
        }
    }

    /// Sleeps until the moment has come. After a suspend of the machine it may end late, by at most
    /// what was left to sleep: for waits, not for deadlines that must hold.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn sleep_until(&self, moment: Moment) {
        match &self.0 {
            Some(manual) => manual.sleep_until(moment).await,
            None => {
                while self.now() < moment {
                    tokio::time::sleep(moment - self.now()).await;
                }
            }
        }
    }

    /// A timer that also rings in time after a suspend of the machine.
    ///
    /// # Errors
    /// When the system has no timer to give, for example for want of file descriptors.
    pub fn timer(&self) -> io::Result<Timer> {
        match &self.0 {
            Some(manual) => Ok(Timer(Wait::Manual(manual.clone()))),
            None => {
                let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
                let fd = timerfd_create(TimerfdClockId::Boottime, flags)?;
                // Deprecated for types that may swap their descriptor; an `OwnedFd` never does, and
                // the replacement is unsafe code, which this crate forbids.
                #[allow(deprecated)]
                let fd = AsyncFd::new(fd)?;
                let set_to = Moment::NEVER;
                Ok(Timer(Wait::System { fd, set_to }))
            }
        }
    }
}

impl Manual {
    async fn sleep_until(&self, moment: Moment) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Listen first, look second: a move in between is not missed.
            moved.as_mut().enable();
            if self.nanos.load(Ordering::SeqCst) >= moment.0 {
                return;
            }
            moved.await;
        }
    }
}

/// A timer on the boot-time clock, set again and again.
#[derive(Debug)]
pub struct Timer(Wait);

#[derive(Debug)]
enum Wait {
    System {
        fd: AsyncFd<OwnedFd>,
        /// What it is set to, unless it has rung since.
        set_to: Moment,
    },
    Manual(Arc<Manual>),
}

impl Timer {
    /// Waits until the moment has come; [`Moment::NEVER`] waits for ever.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ring_at(&mut self, moment: Moment) -> io::Result<()> {
        let (fd, set_to) = match &mut self.0 {
            Wait::Manual(manual) => {
                manual.sleep_until(moment).await;
                return Ok(());
            }
            Wait::System { fd, set_to } => (fd, set_to),
        };
        if moment == Moment::NEVER {
            std::future::pending::<()>().await;
        }
        // Whoever waits for the same moment again, after something else came first, finds it set.
        if *set_to != moment {
            set(fd, moment)?;
            *set_to = moment;
        }
        loop {
            let mut ready = fd.readable().await?;
            let read = ready.try_io(|fd| Ok(rustix::io::read(fd, &mut [0; 8])?));
            match read {
                Ok(read) => {
                    *set_to = Moment::NEVER;
                    return read.map(drop);
                }
                Err(_would_block) => {}
            }
        }
    }
}

fn set(fd: &AsyncFd<OwnedFd>, moment: Moment) -> io::Result<()> {
    // A value of zero would disarm the timer.
    let nanos = moment.0.max(1);
    let spec = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        },
    };
    Ok(timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &spec).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_timer_rings_at_its_moment_and_can_be_set_again() {
        let clock = Clock::system();
        let mut timer = clock.timer().unwrap();
        for millis in [0, 5, 20] {
            let moment = clock.now() + Duration::from_millis(millis);
            timer.ring_at(moment).await.unwrap();
            assert!(clock.now() >= moment);
            assert!(clock.now() - moment < Duration::from_millis(500));
        }
    }

    /// A wait that is cut off leaves the timer set: for the same moment it rings, and for no other.
    #[tokio::test]
    async fn the_timer_rings_for_whoever_waits_again() {
        let clock = Clock::system();
        let mut timer = clock.timer().unwrap();
        let cut_off = Duration::from_millis(5);
        for (first, second) in [(50, 50), (50, 100), (100, 50)] {
            let [first, second] = [first, second].map(|ms| clock.now() + Duration::from_millis(ms));
            let early = tokio::time::timeout(cut_off, timer.ring_at(first)).await;
            assert!(early.is_err() || clock.now() >= first);
            let rung = tokio::time::timeout(Duration::from_secs(20), timer.ring_at(second)).await;
            rung.unwrap().unwrap();
            assert!(clock.now() >= second);
        }
    }

    #[tokio::test]
    async fn a_manual_clock_moves_only_when_told() {
        let clock = Clock::manual();
        let start = clock.now();
        let sleeper = clock.clone();
        let task = tokio::spawn(async move {
            sleeper.sleep_until(start + Duration::from_secs(3600)).await;
            sleeper.now()
        });
        clock.advance(Duration::from_secs(3599));
        tokio::task::yield_now().await;
        assert!(!task.is_finished());
        clock.advance(Duration::from_secs(2));
        assert_eq!(task.await.unwrap() - start, Duration::from_secs(3601));
    }

    #[test]
    fn moments_saturate() {
        let now = Clock::system().now();
        assert_eq!(now + Duration::MAX, Moment::NEVER);
        assert_eq!(now - (now + Duration::from_secs(1)), Duration::ZERO);
    }
}
