//! A hold in the user's hands. It tells the truth about itself, and ends exactly once.

use std::time::Duration;

use crate::backend::Standing;
use crate::error::{Error, LostReason};
use crate::lifecycle::acquire;
use crate::lifecycle::detached::detached;
use crate::lifecycle::release::Grant;
use crate::lifecycle::tracked::Phase;
use crate::primitives::Lock;
use crate::{Mode, Name, Pass, PassError, Sequencer, Token};

/// A lock that is held. Dropping it queues the release; [`Guard::release`] also tells the outcome.
///
/// It cannot be cloned, and it has no `is_held()`: whatever such a method said could be wrong a moment
/// later. Pass [`Guard::token`] to the resource, which can tell; watch [`Guard::lost`] to stop early.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once protects nothing"]
pub struct Guard {
    grant: Grant,
    token: Token,
    name: Name,
    mode: Mode,
}

/// What the keeper knows about a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// Held, and renewed in time so far.
    Held,
    /// Still held, but the last renewal got no answer; it is being repeated.
    AtRisk,
    /// Not held any more. There is no way back.
    Lost(LostReason),
}

impl Guard {
    pub(crate) fn new(grant: Grant) -> Result<Self, Error> {
        let (name, mode, token) = grant.particulars()?;
        Ok(Self {
            grant,
            token,
            name,
            mode,
        })
    }

    /// The name that is held.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The fencing token: pass it along with every request to the resource.
    pub fn token(&self) -> Token {
        self.token
    }

    /// Name, mode and token as one printable string.
    pub fn sequencer(&self) -> Sequencer {
        Sequencer::new(self.name.clone(), self.mode, self.token)
    }

    /// What to show at a fence: the token, and which claim it belongs to.
    ///
    /// # Errors
    /// [`PassError::NotExclusive`]: a shared hold or permits give no right to write.
    pub fn pass(&self) -> Result<Pass, PassError> {
        self.sequencer().pass(self.grant.hold().claim().id.mark())
    }

    /// How long the hold is good for at least, by this process's own clock, if it is not renewed. Zero
    /// once it is lost.
    pub fn remaining(&self) -> Duration {
        if self.grant.hold().is_lost() {
            return Duration::ZERO;
        }
        self.grant.hold().deadline() - self.grant.core().clock.now()
    }

    /// What the keeper knows about the hold.
    pub fn state(&self) -> HoldState {
        match self.grant.hold().phase() {
            Phase::Lost(reason) => HoldState::Lost(reason),
            _ if self.remaining().is_zero() => HoldState::Lost(LostReason::Expired),
            Phase::AtRisk => HoldState::AtRisk,
            Phase::Held | Phase::Waiting => HoldState::Held,
        }
    }

    /// An error as soon as the hold is lost.
    ///
    /// # Errors
    /// [`Error::Lost`] with the reason.
    pub fn check(&self) -> Result<(), Error> {
        match self.state() {
            HoldState::Lost(reason) => Err(self.lost_error(reason)),
            _ => Ok(()),
        }
    }

    /// Ends when the hold is lost, and not before; at the latest at the local deadline, even when no
    /// server answers.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LostReason {
        loop {
            let news = self.grant.hold().news();
            if let HoldState::Lost(reason) = self.state() {
                return reason;
            }
            // The watchdog tells; the deadline counts even without it.
            let deadline = self.grant.hold().deadline();
            tokio::select! {
                () = news => {}
                () = self.grant.core().clock.sleep_until(deadline) => {}
            }
        }
    }

    /// Ends when the state is another one than `known`, and gives the new one.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn changed_from(&self, known: &HoldState) -> HoldState {
        loop {
            let news = self.grant.hold().news();
            let state = self.state();
            if state != *known {
                return state;
            }
            news.await;
        }
    }

    /// Gives the lock back and tells how that went.
    ///
    /// # Errors
    /// [`Error::Lost`]: it was not ours any more, the critical section was unprotected at its end.
    /// [`Error::Unreachable`]: no answer; the release is repeated in the background, and the lease ends
    /// the hold in any case.
    ///
    /// # Cancel safety
    /// The release goes on in the background if the call is dropped.
    pub async fn release(self) -> Result<(), Error> {
        self.grant.release().await
    }

    /// Turns a write hold into a read hold without a gap: no other writer gets in between. The token
    /// stays the same.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a hold that is not exclusive or was entered more than once, and the
    /// engine's errors. The hold is given up on every error.
    ///
    /// # Cancel safety
    /// A dropped call gives the hold up.
    pub async fn downgrade(self) -> Result<Guard, Error> {
        if self.mode != Mode::Exclusive {
            return Err(Error::invalid("only an exclusive hold can be downgraded"));
        }
        let (core, hold) = (self.grant.core().clone(), self.grant.hold().clone());
        let left_behind = core.lines.move_out(&hold).map_err(|()| {
            Error::invalid("a hold that was entered more than once cannot be downgraded: leave the inner ones first")
        })?;
        if let Some(line) = left_behind {
            core.runtime.spawn(acquire::drive(core.clone(), line));
        }
        let claim = hold.claim();
        let sent = core.clock.now();
        let (asking, asked) = (core.clone(), claim.clone());
        let call = async move {
            asking
                .bounded(asked.lease, "downgrading", asking.backend.downgrade(&asked))
                .await
        };
        let answer = detached(&core, call).await?;
        let lost = hold.answered(&answer, sent, core.clock.now());
        match answer? {
            Standing::Holds { .. } if !lost && !hold.is_lost() => {
                core.watchdog.schedule(&hold);
                Ok(Guard {
                    mode: Mode::Shared,
                    ..self
                })
            }
            _ => match hold.phase() {
                Phase::Lost(reason) => Err(self.lost_error(reason)),
                _ => Err(self.lost_error(LostReason::Gone)),
            },
        }
    }

    /// Exchanges a read hold for a write hold. The read hold is given up first, so that two readers who
    /// both want this never wait for each other; in exchange another writer may come in between:
    /// read again what you read before.
    ///
    /// # Errors
    /// As releasing and [`Lock::acquire_within`]; the read hold is given up in any case.
    ///
    /// # Cancel safety
    /// A dropped call has given the read hold up and leaves nothing behind.
    pub async fn upgrade_within(self, patience: Duration) -> Result<Guard, Error> {
        if self.mode != Mode::Shared {
            return Err(Error::invalid("only a shared hold can be upgraded"));
        }
        let core = self.grant.core().clone();
        let hold = self.grant.hold().clone();
        let (name, owner) = (self.name.clone(), core.lines.owner_of(&hold));
        self.release().await?;
        let term = hold.term();
        let lock = Lock::new(core, name.as_str(), Ok(Mode::Exclusive))
            .lease(term.lease)
            .lock_delay(term.delay);
        lock.in_place_of(hold.is_kept(), owner)
            .acquire_within(patience)
            .await
    }

    fn lost_error(&self, reason: LostReason) -> Error {
        Error::Lost {
            name: self.name.clone(),
            backend: self.grant.core().name(),
            reason,
        }
    }
}
