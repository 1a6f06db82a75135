//! The verbs on the server's own locks: each claim is a task that owns one seat. The server frees the lock the moment
//! the seat's connection ends, whoever ended it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::BACKEND;
use super::client::{Links, Question};
use super::faults::{Fault, silent, unreachable};
use super::seat::{Seat, Seated, Waiting};
use super::{config::Config, wire};
use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wake, Wakes};
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
const STAND: usize = 0;
const STRIKE: usize = 1;
const INSPECT: usize = 2;
const EVICT: usize = 3;
const LIVES: usize = 4;
const SWEEP: usize = 5;
/// How long answers are waited for where no lease says it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a statement that met another is tried.
const TRIES: usize = 20;
/// How long after being told the server should have stopped waiting.
const WORD_HEARD: Duration = Duration::from_millis(50);
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
type Tasks = HashMap<(Name, ClaimId), mpsc::UnboundedSender<Command>>;
type Inbox = mpsc::UnboundedReceiver<Command>;

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
}

/// What a claim's task is asked; an answer that never comes means that the claim is gone.
#[derive(Debug)]
pub(super) enum Command {
    Renew(Duration, oneshot::Sender<Result<Standing, Error>>),
    Downgrade(Duration, oneshot::Sender<Result<Standing, Error>>),
    Release(oneshot::Sender<Result<Released, Error>>),
}

impl House {
    fn seated(&self) -> MutexGuard<'_, Tasks> {
        self.seated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a claim, and another one for the next: who comes once often comes again, and opening one takes longer
    /// than all the rest.
    async fn seat(self: &Arc<Self>) -> Result<Seat, Error> {
        let spare = {
            let mut spare = self.spare();
            spare.retain(|seat| !seat.is_closed());
            spare.pop()
        };
        if self.spare().is_empty()
            && self.opening.try_acquire().is_ok_and(|one| {
                one.forget();
                true
            })
        {
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

    fn keep(&self, seat: Seat) {
        let mut spare = self.spare();
        if spare.len() < SPARE && !seat.is_closed() {
            spare.push(seat);
        }
    }

    /// Asks on a connection that belongs to no claim.
    async fn ask(
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
    async fn strike(&self, claim: &Claim) -> Result<(), Error> {
        let question = Question {
            during: "releasing a lock",
            patience: PATIENCE,
        };
        let (text, id) = (wire::text_of(&claim.name), &claim.id.as_bytes()[..]);
        self.ask(STRIKE, &[&text, &id], question).await.map(drop)
    }
}

/// A claim and its seat.
struct Sitter {
    claim: Claim,
    seat: Seat,
    /// The number, once it holds.
    holds: Option<u64>,
    waiting: Option<Waiting>,
}

/// What comes next in the life of a claim.
enum Event {
    Asked(Option<Command>),
    Granted(Result<Option<u64>, tokio_postgres::Error>),
    Closed,
    LeaseOver,
}

/// Whether a claim's task goes on after an event.
enum Next {
    GoOn,
    /// The connection ends, and with it whatever the claim has.
    End,
    /// The claim is out, and its connection may serve another.
    Keep,
}

/// The life of a claim, from asking for the lock to the end of its connection or its return.
async fn sit(
    house: Weak<House>,
    claim: Claim,
    entry: Entry,
    (mut inbox, told): (Inbox, oneshot::Sender<Result<Standing, Error>>),
) {
    let Some(strong) = house.upgrade() else {
        return;
    };
    let (key, clock) = ((claim.name.clone(), claim.id), strong.clock.clone());
    let mut ends = clock.now() + claim.lease;
    let mut sitter = match Sitter::enter(&strong, claim, entry).await {
        Ok(Some(sitter)) => sitter,
        not_entered => {
            strong.seated().remove(&key);
            let _nobody_asks = told.send(not_entered.map(|_| Standing::Gone));
            return;
        }
    };
    let lease = sitter.claim.lease;
    let _nobody_asks = told.send(match sitter.holds {
        Some(order) => Ok(holds(order, lease)),
        None => sitter.stand(&strong, lease).await,
    });
    // Whoever gives up the keeper gives up its claims.
    drop(strong);
    loop {
        let event = sitter.next(&mut inbox, clock.sleep_until(ends)).await;
        let Some(house) = house.upgrade() else {
            return;
        };
        if let Event::Asked(Some(Command::Renew(lease, _) | Command::Downgrade(lease, _))) = &event
        {
            ends = clock.now() + *lease;
        }
        match sitter.live(&house, event).await {
            Next::GoOn => {}
            Next::Keep => return house.keep(sitter.seat),
            Next::End => {
                house.seated().remove(&key);
                return sitter.end(&house).await;
            }
        }
    }
}

/// Tells the standing; a claim that is gone ends.
fn answer(
    standing: Result<Standing, Error>,
    told: oneshot::Sender<Result<Standing, Error>>,
) -> Next {
    let gone = matches!(standing, Ok(Standing::Gone));
    let _nobody_asks = told.send(standing);
    if gone { Next::End } else { Next::GoOn }
}

fn holds(order: u64, lease_left: Duration) -> Standing {
    Standing::Holds { order, lease_left }
}

impl Sitter {
    /// Takes a seat and asks for the lock; nothing if the claim would have to wait and must not.
    async fn enter(house: &Arc<House>, claim: Claim, entry: Entry) -> Result<Option<Self>, Error> {
        let patience = 2 * Question::within(claim.lease, "asking for a lock").patience;
        let entering = async {
            let mut seat = house.seat().await?;
            let seated = seat.enter(&claim, entry).await?;
            Ok::<_, Error>((seat, seated))
        };
        let Ok(entered) = timeout(patience, entering).await else {
            return Err(silent("asking for a lock", patience));
        };
        let (seat, seated) = entered?;
        let (holds, waiting) = match seated {
            Seated::NotEntered => {
                house.keep(seat);
                return Ok(None);
            }
            Seated::Holds(order) => (Some(order), None),
            Seated::Waits => (None, Some(seat.wait(&claim))),
        };
        Ok(Some(Self {
            claim,
            seat,
            holds,
            waiting,
        }))
    }

    async fn live(&mut self, house: &Arc<House>, event: Event) -> Next {
        match event {
            Event::Asked(Some(Command::Renew(lease, told))) => {
                let standing = self.renew(house, lease).await;
                answer(standing, told)
            }
            Event::Asked(Some(Command::Downgrade(lease, told))) => {
                let standing = self.downgrade(house, lease).await;
                match standing {
                    // Half of it may be done.
                    Err(_) => {
                        let _ended = answer(standing, told);
                        Next::End
                    }
                    standing => answer(standing, told),
                }
            }
            Event::Asked(Some(Command::Release(told))) => {
                let key = (self.claim.name.clone(), self.claim.id);
                house.seated().remove(&key);
                let (released, next) = self.release(house).await;
                let _nobody_asks = told.send(released);
                next
            }
            Event::Granted(Ok(Some(order))) => {
                self.holds = Some(order);
                let claim = self.claim.id;
                house.bell.ring(Wake::Holds { claim, order });
                Next::GoOn
            }
            Event::Granted(_) | Event::Closed => {
                house.bell.ring(Wake::Look(self.claim.id));
                Next::End
            }
            Event::Asked(None) | Event::LeaseOver => Next::End,
        }
    }

    async fn next(&mut self, inbox: &mut Inbox, lease_over: impl Future<Output = ()>) -> Event {
        let waiting = async {
            match &mut self.waiting {
                Some(waiting) => waiting.await,
                None => std::future::pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            granted = waiting => Event::Granted(granted),
            command = inbox.recv() => Event::Asked(command),
            () = self.seat.closed() => Event::Closed,
            () = lease_over => Event::LeaseOver,
        };
        if let Event::Granted(_) = event {
            self.waiting = None;
        }
        event
    }

    async fn renew(&mut self, house: &House, lease: Duration) -> Result<Standing, Error> {
        let Some(order) = self.holds else {
            return self.stand(house, lease).await;
        };
        let patience = Question::within(lease, "renewing leases").patience;
        match timeout(patience, self.seat.ping(lease)).await {
            Ok(Ok(())) => Ok(holds(order, lease)),
            // The connection is the lock: without it there is none.
            Ok(Err(_)) => Ok(Standing::Gone),
            Err(_) => Err(silent("renewing leases", patience)),
        }
    }

    /// Where a claim stands that was not told that it holds. If the server has given it the lock, that is on its way.
    async fn stand(&mut self, house: &House, lease: Duration) -> Result<Standing, Error> {
        let question = Question::within(lease, "renewing leases");
        let (text, id) = (
            wire::text_of(&self.claim.name),
            &self.claim.id.as_bytes()[..],
        );
        let answer = house.ask(STAND, &[&text, &id], question).await?;
        let Some(row) = answer.first() else {
            return Ok(Standing::Gone);
        };
        if row.get(0)
            && let Some(waiting) = &mut self.waiting
        {
            let Ok(granted) = timeout(question.patience, waiting).await else {
                return Err(silent(question.during, question.patience));
            };
            self.waiting = None;
            self.holds = granted.ok().flatten();
            return Ok(self
                .holds
                .map_or(Standing::Gone, |order| holds(order, lease)));
        }
        let ahead = usize::try_from(row.get::<_, i64>(1)).unwrap_or_default();
        let theirs = u64::try_from(row.get::<_, Option<i64>>(2).unwrap_or(i64::MAX));
        Ok(Standing::Waits {
            // It was not given the lock, so somebody has it.
            ahead: ahead.max(1),
            look_again_in: Duration::from_micros(theirs.unwrap_or_default()).min(lease),
        })
    }

    async fn downgrade(&mut self, house: &Arc<House>, lease: Duration) -> Result<Standing, Error> {
        if self.claim.mode == Mode::Shared {
            return self.renew(house, lease).await;
        }
        let Some(order) = self.holds else {
            return self.queue_as_shared(house, lease).await;
        };
        match timeout(PATIENCE, self.seat.downgrade(&self.claim)).await {
            Ok(Ok(true)) => {
                self.claim.mode = Mode::Shared;
                Ok(holds(order, lease))
            }
            // Without the row it was broken; else nobody knows what the session holds now, so it must end.
            Ok(_) | Err(_) => Ok(Standing::Gone),
        }
    }

    /// Waits anew, as a reader, on another seat.
    async fn queue_as_shared(
        &mut self,
        house: &Arc<House>,
        lease: Duration,
    ) -> Result<Standing, Error> {
        let seat = house.seat().await?;
        self.stop_waiting().await;
        self.seat = seat;
        house.strike(&self.claim).await?;
        self.claim.mode = Mode::Shared;
        match self.seat.enter(&self.claim, Entry::Queue).await? {
            Seated::Holds(order) => {
                self.holds = Some(order);
                Ok(holds(order, lease))
            }
            _ => {
                self.waiting = Some(self.seat.wait(&self.claim));
                self.stand(house, lease).await
            }
        }
    }

    async fn release(&mut self, house: &House) -> (Result<Released, Error>, Next) {
        if self.holds.is_none() {
            return (self.leave_line(house).await, Next::End);
        }
        match timeout(PATIENCE, self.seat.release(&self.claim)).await {
            Ok(Ok(true)) => (Ok(Released::Freed), Next::Keep),
            Ok(Ok(false)) => (Ok(Released::Gone), Next::End),
            // What the server still has for this connection it frees when it notices its end.
            Ok(Err(_)) | Err(_) => (Err(unreachable("releasing a lock")), Next::End),
        }
    }

    /// A claim that waits goes: the server is told to stop waiting, and the seat is closed whatever it answers.
    async fn leave_line(&mut self, house: &House) -> Result<Released, Error> {
        self.stop_waiting().await;
        house.strike(&self.claim).await?;
        Ok(Released::Freed)
    }

    /// Tells the server to stop waiting until it does: a word that comes before the waiting has begun is not heard.
    async fn stop_waiting(&mut self) {
        let Some(mut waiting) = self.waiting.take() else {
            return;
        };
        let stopping = async {
            loop {
                self.seat.cancel().await;
                if timeout(WORD_HEARD, &mut waiting).await.is_ok() {
                    return;
                }
            }
        };
        // If it cannot be told, it finds the closed connection by itself.
        let _heard_or_not = timeout(PATIENCE / 5, stopping).await;
    }

    /// Without anybody asking: the connection ends, and with it the lock.
    async fn end(mut self, house: &House) {
        self.stop_waiting().await;
        let claim = self.claim;
        drop(self.seat);
        let _whoever_passes_by_does_it = house.strike(&claim).await;
    }
}

impl SessionBackend {
    /// Takes out the rows of claims whose session has ended; they are for people only.
    pub(super) async fn sweep(&self) -> Result<u64, Error> {
        let question = Question {
            during: "sweeping",
            patience: PATIENCE,
        };
        let swept = self.house.ask(SWEEP, &[], question).await?;
        Ok(swept.len() as u64)
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
            seated.insert((claim.name.clone(), claim.id), sender);
        }
        let house = Arc::downgrade(&self.house);
        tokio::spawn(sit(house, claim.clone(), entry, (inbox, told)));
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
        let (text, why) = (wire::text_of(name), wire::escaped(&shortened(why)));
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
