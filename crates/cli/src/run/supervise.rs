//! The time between the grant and the end of the command: signals are passed on, and a command whose
//! lock is going away is ended before somebody else can hold it.

use std::future::pending;
use std::io;
use std::process::Child;
use std::time::Duration;

use lockkeeper::{Guard, HoldState, LostReason};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::time::Instant;

use super::{descendants, signal_code};
use crate::args::OnLost;
use crate::exit;
use crate::signals::{Arrived, Signals};
use crate::span;

/// How the command ended, and whether under the lock.
pub(super) struct Ending {
    /// Its own exit status.
    pub(super) code: u8,
    /// The signal that ended it.
    pub(super) signal: Option<Signal>,
    /// The last signal that the terminal sent to all of us.
    pub(super) interrupted: Option<Signal>,
    /// Whether the lock was lost while it ran, or was about to be. People have been told.
    pub(super) lost: bool,
}

/// Watches one command and its lock.
pub(super) struct Supervisor<'a> {
    child: Pid,
    status: Option<WaitStatus>,
    guard: &'a Guard,
    signals: &'a mut Signals,
    on_lost: OnLost,
    grace: Duration,
    phase: Phase,
    interrupted: Option<Signal>,
}

/// Where the command is on its way from safe to dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The lock is held, and will be for longer than the grace.
    Safe,
    /// The lease ends within the grace, or the lock is gone: the command got TERM. What is left of it
    /// at this moment gets KILL.
    Ending { kill_at: Instant },
    /// Everything of it got KILL.
    Killed,
    /// The lock is gone, and the command goes on as `--on-lost warn` says.
    Unprotected,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        child: Child,
        guard: &'a Guard,
        signals: &'a mut Signals,
        on_lost: OnLost,
        grace: Duration,
    ) -> Self {
        Self {
            child: Pid::from_child(&child),
            status: None,
            guard,
            signals,
            on_lost,
            grace,
            phase: Phase::Safe,
            interrupted: None,
        }
    }

    /// Until the command has ended; of a lost lock, until all that it started has.
    pub(super) async fn watch(mut self) -> io::Result<Ending> {
        while !self.is_over() {
            let next_look = self.next_look();
            tokio::select! {
                biased;
                arrived = self.signals.next() => self.take(arrived?)?,
                reason = lost(self.guard, &self.phase) => self.lose(&reason),
                () = sleep_until(next_look) => self.look(),
            }
        }
        Ok(self.ending())
    }

    fn is_over(&self) -> bool {
        match self.phase {
            Phase::Safe | Phase::Unprotected | Phase::Killed => self.status.is_some(),
            // Its children may outlive it, but not the lock.
            Phase::Ending { .. } => self.status.is_some() && descendants::alive().is_empty(),
        }
    }

    /// When to look at the lock, or at what is left of the command, without being told to.
    fn next_look(&self) -> Option<Instant> {
        // Orphans of the command end without a signal that could be relied on.
        const LEFTOVERS: Duration = Duration::from_millis(20);
        let now = Instant::now();
        match &self.phase {
            Phase::Safe if self.on_lost == OnLost::Term => {
                Some(now + self.guard.remaining().saturating_sub(self.grace))
            }
            Phase::Ending { kill_at } if self.status.is_some() => {
                Some((*kill_at).min(now + LEFTOVERS))
            }
            Phase::Ending { kill_at } => Some(*kill_at),
            Phase::Safe | Phase::Killed | Phase::Unprotected => None,
        }
    }

    /// The time of `next_look` has come.
    fn look(&mut self) {
        let remaining = self.guard.remaining();
        let is_lost = matches!(self.guard.state(), HoldState::Lost(_));
        // KILL takes its time too, and has to be done by the deadline.
        let ahead = (self.grace / 10).min(Duration::from_millis(100));
        match &mut self.phase {
            // A lock at risk ends nothing by itself: only when no renewal came until the grace is all
            // that is left.
            Phase::Safe if !is_lost && remaining <= self.grace => {
                let left = span::show(remaining);
                let name = self.guard.name();
                exit::say(&format!(
                    "the lock {name:?} could not be renewed and ends in {left}: ending the command"
                ));
                self.end(remaining.saturating_sub(ahead));
            }
            // Not yet, or renewed after all: nobody else can hold it, so KILL can wait. TERM stands.
            Phase::Ending { kill_at } if !is_lost && remaining > ahead => {
                *kill_at = Instant::now() + (remaining - ahead);
            }
            Phase::Ending { kill_at } if *kill_at <= Instant::now() => self.kill(),
            _ => {}
        }
    }

    /// The guard says that the lock is lost.
    fn lose(&mut self, reason: &LostReason) {
        let lost = format!("the lock {:?} was lost: {reason}", self.guard.name());
        match (&mut self.phase, self.on_lost) {
            (_, OnLost::Warn) => {
                exit::say(&format!("{lost}; the command goes on without it"));
                self.phase = Phase::Unprotected;
            }
            // The deadline is now, or has passed while we were stopped.
            (Phase::Ending { .. }, _) if *reason == LostReason::Expired => self.kill(),
            (Phase::Safe, _) if *reason == LostReason::Expired => {
                exit::say(&format!("{lost}; killing the command"));
                self.end(Duration::ZERO);
                self.kill();
            }
            (Phase::Safe, _) => {
                exit::say(&format!("{lost}; ending the command"));
                self.end(self.grace);
            }
            _ => {}
        }
    }

    fn end(&mut self, within: Duration) {
        descendants::send(Signal::TERM);
        // A stopped process takes TERM only when it goes on.
        descendants::send(Signal::CONT);
        let kill_at = Instant::now() + within;
        self.phase = Phase::Ending { kill_at };
    }

    fn kill(&mut self) {
        for pid in descendants::kill_all() {
            exit::say(&format!(
                "process {pid} could not be killed and works on without the lock"
            ));
        }
        self.phase = Phase::Killed;
    }

    fn take(&mut self, arrived: Arrived) -> io::Result<()> {
        match arrived.signal {
            Signal::CHILD => return self.reap(),
            // The kernel sent it to our whole group: the command has got it, and once is enough.
            signal if arrived.from_terminal => self.interrupted = Some(signal),
            signal => self.pass_on(signal),
        }
        if arrived.signal == Signal::TSTP {
            stop();
        }
        Ok(())
    }

    fn pass_on(&self, signal: Signal) {
        if self.status.is_none() {
            // It may have ended by itself this moment, or may run as another user.
            let _ended = rustix::process::kill_process(self.child, signal);
        }
    }

    /// Takes in all that has ended: the command, and orphans of it that have become ours.
    fn reap(&mut self) -> io::Result<()> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.child => self.status = Some(status),
                Ok(Some(_orphan)) => {}
                Ok(None) => return Ok(()),
                Err(rustix::io::Errno::CHILD) if self.status.is_some() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn ending(self) -> Ending {
        let signal = self.status.and_then(WaitStatus::terminating_signal);
        let exit = self.status.and_then(WaitStatus::exit_status);
        Ending {
            code: match (exit, signal) {
                (Some(code), _) => u8::try_from(code).unwrap_or(exit::INTERNAL),
                (None, signal) => signal_code(signal.unwrap_or(0)),
            },
            signal: signal.and_then(Signal::from_named_raw),
            interrupted: self.interrupted,
            lost: self.phase != Phase::Safe,
        }
    }
}

/// Stops this process as Ctrl-Z would; returns when it is continued.
pub(super) fn stop() {
    // We may always signal ourselves.
    let _always = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
}

/// Resolves when the lock is lost, once.
async fn lost(guard: &Guard, phase: &Phase) -> LostReason {
    match phase {
        Phase::Safe => guard.lost().await,
        Phase::Ending { .. } if !matches!(guard.state(), HoldState::Lost(_)) => guard.lost().await,
        _ => pending().await,
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => pending().await,
    }
}
