//! The life of a claim in session mode: a task that owns the claim's connection, answers for it, and ends with it.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::client::Question;
use super::faults::{silent, unreachable};
use super::seat::{Seat, Seated, Waiting};
use super::session::{Command, House, Inbox, PATIENCE, STAND};
use super::wire;
use crate::Mode;
use crate::backend::{Entry, Released, Standing, Wake};
use crate::claim::Claim;
use crate::error::Error;

/// How soon a claim that is not yet in the server's line is looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

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
pub(super) async fn sit(
    house: Weak<House>,
    claim: Claim,
    entry: Entry,
    (mut inbox, told): (Inbox, oneshot::Sender<Result<Standing, Error>>),
    own: mpsc::WeakUnboundedSender<Command>,
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
    let standing = match sitter.holds {
        Some(order) => Ok(holds(order, lease)),
        None => sitter.stand(&strong, lease).await,
    };
    if let Next::End = answer(standing, told) {
        strong.leave(&key, &own);
        return sitter.end(&strong).await;
    }
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
                house.leave(&key, &own);
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

/// Where a claim stands that waits in the server, or should. It is told so only once it is seen in the server's line: until
/// then others would still come in ahead of it, readers ahead of a writer too. This does not end for a claim that has the lock.
async fn in_line(
    house: &House,
    claim: &Claim,
    question: Question,
    lease: Duration,
) -> Result<Standing, Error> {
    let (text, id) = (wire::text_of(&claim.name), &claim.id.as_bytes()[..]);
    loop {
        let answer = house.ask(STAND, &[&text, &id], question).await?;
        let Some(row) = answer.first() else {
            return Ok(Standing::Gone);
        };
        match row.get(0) {
            Some(true) => std::future::pending().await,
            Some(false) => {
                let ahead = usize::try_from(row.get::<_, i64>(1)).unwrap_or_default();
                let theirs = u64::try_from(row.get::<_, Option<i64>>(2).unwrap_or(i64::MAX));
                return Ok(Standing::Waits {
                    // It was not given the lock, so somebody has it.
                    ahead: ahead.max(1),
                    look_again_in: Duration::from_micros(theirs.unwrap_or_default()).min(lease),
                });
            }
            None => sleep(LOOK_AGAIN).await,
        }
    }
}

impl Sitter {
    /// Takes a seat and asks for the lock; nothing if the claim would have to wait and must not.
    async fn enter(house: &Arc<House>, claim: Claim, entry: Entry) -> Result<Option<Self>, Error> {
        let patience = 2 * Question::within(claim.lease, "asking for a lock").patience;
        let entering = async {
            let mut seat = house.seat().await?;
            let seated = seat.enter(&claim, entry, &house.used).await?;
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
        let Some(waiting) = &mut self.waiting else {
            return Ok(Standing::Gone);
        };
        let question = Question::within(lease, "renewing leases");
        // The request to wait leaves before the question about it.
        let standing = async {
            tokio::select! {
                biased;
                granted = waiting => Err(granted),
                standing = in_line(house, &self.claim, question, lease) => Ok(standing),
            }
        };
        // Twice: the question has its own limit, and must meet that one first.
        match timeout(2 * question.patience, standing).await {
            Err(_) => Err(silent(question.during, 2 * question.patience)),
            Ok(Ok(standing)) => standing,
            Ok(Err(granted)) => {
                self.waiting = None;
                self.holds = granted.ok().flatten();
                let held = self.holds.map(|order| holds(order, lease));
                Ok(held.unwrap_or(Standing::Gone))
            }
        }
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
        let session = self.seat.session();
        self.seat = seat;
        house.strike(&self.claim, session).await?;
        self.claim.mode = Mode::Shared;
        match self
            .seat
            .enter(&self.claim, Entry::Queue, &house.used)
            .await?
        {
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
        house.strike(&self.claim, self.seat.session()).await?;
        Ok(Released::Freed)
    }

    /// If the server cannot be told, it finds the closed connection by itself.
    async fn stop_waiting(&mut self) {
        if let Some(mut waiting) = self.waiting.take() {
            let _granted_or_not = timeout(PATIENCE / 5, self.seat.stop(&mut waiting)).await;
        }
    }

    /// Without anybody asking: the connection ends, and with it the lock.
    async fn end(mut self, house: &House) {
        self.stop_waiting().await;
        let (claim, session) = (self.claim, self.seat.session());
        drop(self.seat);
        let _whoever_passes_by_does_it = house.strike(&claim, session).await;
    }
}
