//! The verbs on the server's own locks: each claim is a task that owns one seat. The server frees the lock the moment
//! the seat's connection ends, whoever ended it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::sleep;

use super::BACKEND;
use super::client::{Links, Question};
use super::faults::{Fault, unreachable};
use super::seat::Seat;
use super::sitter::sit;
use super::{config::Config, wire};
use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wakes};
use crate::backends::sql::used::Used;
use crate::backends::sql::{shortened, show};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::Clock;
use crate::{Mode, Name};

/// The statements on connections that belong to no claim, and the places of each among them.
pub(super) const TEXTS: [&str; 6] = [
    include_str!("sql/session_stand.sql"),
    include_str!("sql/session_strike.sql"),
    include_str!("sql/session_inspect.sql"),
    include_str!("sql/session_evict.sql"),
    include_str!("sql/session_lives.sql"),
    include_str!("sql/session_sweep.sql"),
];
pub(super) const STAND: usize = 0;
const STRIKE: usize = 1;
const INSPECT: usize = 2;
const EVICT: usize = 3;
const LIVES: usize = 4;
const SWEEP: usize = 5;
/// How long answers are waited for where no lease says it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How often a statement that met another is tried.
const TRIES: usize = 20;
/// The most seats that are kept for later.
const SPARE: usize = 16;

/// One keeper's seats.
#[derive(Debug)]
pub(super) struct SessionBackend {
    pub(super) house: Arc<House>,
    pub(super) guarantees: Guarantees,
    pub(super) place: String,
}

/// The task of each claim.
pub(super) type Tasks = HashMap<(Name, ClaimId), mpsc::UnboundedSender<Command>>;
pub(super) type Inbox = mpsc::UnboundedReceiver<Command>;

/// What the claims' tasks share.
#[derive(Debug)]
pub(super) struct House {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) links: Links,
    pub(super) bell: Bell,
    pub(super) spare: Mutex<Vec<Seat>>,
    /// One opens a seat for the next at a time.
    pub(super) opening: Semaphore,
    pub(super) seated: Mutex<Tasks>,
    /// Names that have a row.
    pub(super) used: Used,
}

/// What a claim's task is asked; an answer that never comes means that the claim is gone.
#[derive(Debug)]
pub(super) enum Command {
    Renew(Duration, oneshot::Sender<Result<Standing, Error>>),
    Downgrade(Duration, oneshot::Sender<Result<Standing, Error>>),
    Release(oneshot::Sender<Result<Released, Error>>),
}

impl House {
    pub(super) fn seated(&self) -> MutexGuard<'_, Tasks> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task ends: it takes its own entry away, and not that of the same claim that entered anew.
    pub(super) fn leave(&self, key: &(Name, ClaimId), own: &mpsc::WeakUnboundedSender<Command>) {
        let mut seated = self.seated();
        let (listed, own) = (seated.get(key), own.upgrade());
        if own.is_some_and(|own| listed.is_some_and(|listed| own.same_channel(listed))) {
            seated.remove(key);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a claim, and another one for the next: who comes once often comes again, and opening one takes longer
    /// than all the rest.
    pub(super) async fn seat(self: &Arc<Self>) -> Result<Seat, Error> {
        let spare = {
            let mut spare = self.spare();
            spare.retain(|seat| !seat.is_closed());
            spare.pop()
        };
        if self.spare().is_empty()
            && let Ok(turn) = self.opening.try_acquire()
        {
            turn.forget();
            let house = self.clone();
            tokio::spawn(async move {
                if let Ok(seat) = Seat::open(&house.config).await {
                    house.keep(seat);
                }
                house.opening.add_permits(1);
            });
        }
        match spare {
            Some(seat) => Ok(seat),
            None => Seat::open(&self.config).await,
        }
    }

    pub(super) fn keep(&self, seat: Seat) {
        let mut spare = self.spare();
        if spare.len() < SPARE && !seat.is_closed() {
            spare.push(seat);
        }
    }

    /// Asks on a connection that belongs to no claim.
    pub(super) async fn ask(
        &self,
        which: usize,
        values: &[&(dyn tokio_postgres::types::ToSql + Sync)],
        question: Question,
    ) -> Result<Vec<tokio_postgres::Row>, Error> {
        for _ in 0..TRIES {
            match self.links.ask(which, values, question).await {
                Err(Fault::Again) => sleep(Duration::from_millis(2)).await,
                answer => return Ok(answer?),
            }
        }
        Err(unreachable(question.during))
    }

    /// Takes away the row of a claim whose session has ended.
    pub(super) async fn strike(&self, claim: &Claim, session: i32) -> Result<(), Error> {
        let question = Question {
            during: "releasing a lock",
            patience: PATIENCE,
        };
        let (text, id) = (wire::text_of(&claim.name), &claim.id.as_bytes()[..]);
        let values: [&(dyn tokio_postgres::types::ToSql + Sync); 3] = [&text, &id, &session];
        self.ask(STRIKE, &values, question).await.map(drop)
    }
}

impl SessionBackend {
    /// Deletes the rows of claims whose session has ended, then those of names without a holder or waiter. Returns how
    /// many claims and names went.
    pub(super) async fn sweep(&self) -> Result<(u64, u64), Error> {
        let question = Question {
            during: "sweeping",
            patience: PATIENCE,
        };
        let swept = self.house.ask(SWEEP, &[], question).await?;
        let (claims, mut names) = (swept.len() as u64, 0);
        let statements = include_str!("sql/session_sweep_names.sql");
        loop {
            match self.house.links.run(statements, question).await {
                Ok(0) => return Ok((claims, names)),
                Ok(swept) => names += swept,
                // The rows of names do no harm: a long transaction of another client is not waited for.
                Err(Fault::Again) => return Ok((claims, names)),
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// Puts a question to the claim's task; nothing if there is none.
    async fn tell<T>(
        &self,
        claim: &Claim,
        command: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Command,
    ) -> Option<Result<T, Error>> {
        let (told, answer) = oneshot::channel();
        let sent = {
            let seated = self.house.seated();
            let task = seated.get(&(claim.name.clone(), claim.id))?;
            task.send(command(told))
        };
        sent.ok()?;
        answer.await.ok()
    }
}

#[async_trait]
impl Backend for SessionBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        if !matches!(claim.mode, Mode::Exclusive | Mode::Shared) {
            return Err(Error::Refused {
                backend: BACKEND,
                why: "the server's own locks have no permits: use mode=lease for semaphores".into(),
            });
        }
        let renew = |told| Command::Renew(claim.lease, told);
        if let Some(standing) = self.tell(claim, renew).await
            && !matches!(standing, Ok(Standing::Gone))
        {
            return standing;
        }
        let (sender, inbox) = mpsc::unbounded_channel();
        let (told, answer) = oneshot::channel();
        let own;
        {
            let mut seated = self.house.seated();
            let most = self.house.config.shared.connections;
            if seated.len() >= most {
                return Err(Error::Refused {
                    backend: BACKEND,
                    why: format!(
                        "each claim has a connection of its own in mode=session, and this keeper has {most} already: \
                         raise connections= in the URL, or use mode=lease"
                    ),
                });
            }
            own = sender.downgrade();
            seated.insert((claim.name.clone(), claim.id), sender);
        }
        let house = Arc::downgrade(&self.house);
        tokio::spawn(sit(house, claim.clone(), entry, (inbox, told), own));
        match answer.await {
            Ok(standing) => standing,
            Err(_) => Err(unreachable("asking for a lock")),
        }
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let renewed = claims.iter().map(|claim| async move {
            let renew = |told| Command::Renew(claim.lease, told);
            let standing = self.tell(claim, renew).await;
            standing.unwrap_or(Ok(Standing::Gone))
        });
        join_all(renewed).await.into_iter().collect()
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        let downgrade = |told| Command::Downgrade(claim.lease, told);
        let standing = self.tell(claim, downgrade).await;
        standing.unwrap_or(Ok(Standing::Gone))
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let released = self.tell(claim, Command::Release).await;
        released.unwrap_or(Ok(Released::Gone))
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let text = match query {
            Query::One(name) => Some(wire::text_of(name)),
            Query::All => None,
        };
        let question = Question {
            during: "looking at locks",
            patience: PATIENCE,
        };
        let answer = self.house.ask(INSPECT, &[&text], question).await?;
        let rows: Result<Vec<_>, Error> = answer.iter().map(wire::shown).collect();
        show::views(rows?)
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let question = Question {
            during: "breaking a lock",
            patience: PATIENCE,
        };
        let (text, why) = (wire::text_of(name), wire::escaped(shortened(why)));
        let number = i64::try_from(order).unwrap_or_default();
        let answer = self
            .house
            .ask(EVICT, &[&text, &number, &why], question)
            .await?;
        let Some(row) = answer.first() else {
            return Ok(Released::Gone);
        };
        let Some(pid) = row.get::<_, Option<i32>>(0) else {
            return Ok(Released::Freed);
        };
        for _ in 0..500 {
            let lives = self.house.ask(LIVES, &[&pid], question).await?;
            if !lives.first().is_some_and(|row| row.get(0)) {
                return Ok(Released::Freed);
            }
            sleep(Duration::from_millis(10)).await;
        }
        Err(unreachable("breaking a lock (its session does not end)"))
    }

    fn wakes(&self) -> Wakes {
        self.house.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}
