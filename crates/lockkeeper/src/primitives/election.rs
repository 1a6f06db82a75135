//! A leader among candidates: a fair lock whose holder others can see.

use std::time::Duration;

use crate::backend::Query;
use crate::claim::Party;
use crate::error::{Error, LostReason};
use crate::guard::{Guard, HoldState};
use crate::keeper::Keeper;
use crate::{Name, Token};

/// An election: candidates stand in line, the first one leads until it resigns or is lost.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lockkeeper::Error> {
/// let keeper = lockkeeper::Keeper::builder().label("node-1").connect("memory:").await?;
/// let election = keeper.election("scheduler");
/// let leadership = election.campaign().await?;
/// assert_eq!(election.leader().await?.map(|leader| leader.party.label), Some("node-1".into()));
/// leadership.resign().await?;
/// assert_eq!(election.leader().await?, None);
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Election {
    keeper: Keeper,
    name: String,
}

/// Being the leader.
#[derive(Debug)]
#[must_use = "leadership that is dropped at once is resigned at once"]
pub struct Leadership {
    guard: Guard,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The leader's label, machine and process.
    pub party: Party,
    /// The token of its term; every later term has a higher one.
    pub token: Token,
}

impl Election {
    pub(crate) fn new(keeper: Keeper, name: &str) -> Self {
        Self {
            keeper,
            name: name.into(),
        }
    }

    /// Stands in line until elected.
    ///
    /// # Errors
    /// As [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call withdraws the candidate.
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        let guard = self.keeper.lock(&self.name).fair().acquire().await?;
        Ok(Leadership { guard })
    }

    /// Stands in line for at most this long.
    ///
    /// # Errors
    /// As [`Lock::acquire_within`](crate::Lock::acquire_within).
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call withdraws the candidate.
    pub async fn campaign_within(&self, patience: Duration) -> Result<Leadership, Error> {
        let guard = self
            .keeper
            .lock(&self.name)
            .fair()
            .acquire_within(patience)
            .await?;
        Ok(Leadership { guard })
    }

    /// Who leads now.
    ///
    /// # Errors
    /// As [`Keeper::inspect`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let views = self
            .keeper
            .inspect(&Query::One(Name::new(self.name.as_str())?))
            .await?;
        let holder = views.into_iter().flat_map(|view| view.holders).next();
        Ok(holder.map(|holder| Leader {
            party: holder.party,
            token: holder.token,
        }))
    }

    /// Waits until somebody else leads than `known`, and tells who. An observer is no candidate and gets
    /// no pushes: it looks once a second.
    ///
    /// # Errors
    /// As [`Keeper::inspect`].
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    pub async fn changed_from(&self, known: Option<&Leader>) -> Result<Option<Leader>, Error> {
        let clock = &self.keeper.core().clock;
        loop {
            let leader = self.leader().await?;
            if leader.as_ref() != known {
                return Ok(leader);
            }
            clock
                .sleep_until(clock.now() + Duration::from_secs(1))
                .await;
        }
    }
}

impl Leadership {
    /// The token of this term: pass it along with every request to the resource.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// What the keeper knows about the term.
    pub fn state(&self) -> HoldState {
        self.guard.state()
    }

    /// Ends when the leadership is lost.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn lost(&self) -> LostReason {
        self.guard.lost().await
    }

    /// Steps down.
    ///
    /// # Errors
    /// As [`Guard::release`].
    ///
    /// # Cancel safety
    /// The resignation goes on in the background if the call is dropped.
    pub async fn resign(self) -> Result<(), Error> {
        self.guard.release().await
    }
}
