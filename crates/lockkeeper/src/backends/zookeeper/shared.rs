//! What the verbs and the tasks of one keeper share: its session, its claims, its bell.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::BACKEND;
use super::claims::{Claims, Key};
use super::client::{Session, fault};
use super::config::Config;
use super::familiar::Familiar;
use super::names::element;
use super::renewing::{Roll, Word};
use super::wire as zk;
use crate::Name;
use crate::backend::{Bell, Wake};
use crate::claim::Claim;
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::Clock;

/// A new session is tried for again after this, and after twice as long each time, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Shared {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) bell: Bell,
    pub(super) guarantees: Guarantees,
    pub(super) claims: Claims,
    pub(super) roll: tokio::sync::Mutex<Option<Roll>>,
    pub(super) word: tokio::sync::Mutex<Option<Word>>,
    /// There is a new hold.
    pub(super) held: Arc<Notify>,
    pub(super) familiar: Familiar,
    link: watch::Sender<Link>,
}

/// The session, or why there is none.
enum Link {
    Up(Arc<Session>),
    Down(Option<Error>),
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeper")
            .field("config", &self.config)
            .field("claims", &self.claims.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(
        config: Config,
        clock: Clock,
        guarantees: Guarantees,
        session: Arc<Session>,
    ) -> Self {
        Self {
            config,
            clock,
            bell: Bell::default(),
            guarantees,
            claims: Claims::default(),
            roll: tokio::sync::Mutex::new(None),
            link: watch::channel(Link::Up(session)).0,
            familiar: Familiar::default(),
            word: tokio::sync::Mutex::new(None),
            held: Arc::default(),
        }
    }

    /// The session, once there is one.
    pub(super) async fn session(&self) -> Result<Arc<Session>, Error> {
        let mut link = self.link.subscribe();
        loop {
            match &*link.borrow_and_update() {
                Link::Up(session) if !session.is_over() => return Ok(session.clone()),
                Link::Down(Some(error)) => return Err(error.clone()),
                // `keep_session` is about to replace an ended session.
                Link::Up(_) | Link::Down(None) => {}
            }
            let changed = link.changed().await;
            changed.map_err(|_| fault("waiting for a session", zk::Error::Closed))?;
        }
    }

    /// The node of a name, below which its claims are.
    pub(super) fn parent(&self, name: &Name) -> String {
        format!("{}/{}", self.config.chroot, element(name))
    }

    pub(super) fn path(&self, name: &Name, child: &str) -> String {
        format!("{}/{child}", self.parent(name))
    }

    /// With a user, what that user makes is that user's alone. To delete a node takes a right on its
    /// parent, so every node has to be closed.
    pub(super) fn access(&self) -> zk::Access {
        match self.config.digest {
            Some(_) => zk::Access::Creator,
            None => zk::Access::Anyone,
        }
    }

    pub(super) fn check_lease(&self, claim: &Claim) -> Result<(), Error> {
        let promised = &self.guarantees;
        let (shortest, longest) = (promised.shortest_lease, promised.longest_lease);
        if (shortest..=longest).contains(&claim.lease) {
            return Ok(());
        }
        Err(Error::invalid(format_args!(
            "a lease of {:?} is not kept by {BACKEND}: ask for {shortest:?} to {longest:?}, or connect with a shorter session= (claims live by the session)",
            claim.lease
        )))
    }

    /// Nothing of this keeper's is left: tasks end, and with the last user of the session it is closed.
    pub(super) fn close(&self) {
        self.claims.clear();
        self.link.send_replace(Link::Down(None));
    }
}

/// Keeps a session: hears of its troubles, and opens a new one when it is over.
pub(super) async fn keep_session(shared: Weak<Shared>, mut session: Arc<Session>) {
    loop {
        let mut states = session.client.states();
        while !session.is_over() {
            if states.changed().await.is_err() {
                break;
            }
            let Some(shared) = shared.upgrade() else {
                return;
            };
            // Back in touch: what happened meanwhile may have been missed.
            if *states.borrow() == zk::State::Connected {
                shared.bell.ring(Wake::LookAll);
            }
        }
        match open_anew(&shared, &session).await {
            Some(next) => session = next,
            None => return,
        }
    }
}

async fn open_anew(shared: &Weak<Shared>, ended: &Arc<Session>) -> Option<Arc<Session>> {
    let mut pause = FIRST_PAUSE;
    let mut first = true;
    loop {
        let keeper = shared.upgrade()?;
        if std::mem::take(&mut first) {
            keeper.link.send_replace(Link::Down(None));
            keeper.claims.end(ended);
            // Whoever held or waited learns that it is gone.
            keeper.bell.ring(Wake::LookAll);
        }
        match Session::open(&keeper.config, &keeper.clock).await {
            Ok(session) if session.silence < keeper.guarantees.longest_silence => {
                let why = format!(
                    "the servers agree to a session of {:?} only, less than when this keeper connected: connect anew",
                    session.timeout
                );
                let refused = Error::Refused {
                    backend: BACKEND,
                    why,
                };
                keeper.link.send_replace(Link::Down(Some(refused)))
            }
            Ok(session) => {
                keeper.link.send_replace(Link::Up(session.clone()));
                tokio::spawn(keep_beat(Arc::downgrade(&session), keeper.clock.clone()));
                return Some(session);
            }
            Err(error) => keeper.link.send_replace(Link::Down(Some(error))),
        };
        let until = keeper.clock.now() + pause;
        let clock = keeper.clock.clone();
        drop(keeper);
        clock.sleep_until(until).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

/// Lets the servers hear of the session more often than the client's own pings do. A follower tells the
/// leader only now and then whom it heard of; the less there is to tell, the older is what the leader
/// knows when the two lose each other.
pub(super) async fn keep_beat(session: Weak<Session>, clock: Clock) {
    loop {
        let Some(session) = session.upgrade().filter(|session| !session.is_over()) else {
            return;
        };
        let Some(beat) = session.beat() else {
            return;
        };
        let next = clock.now() + beat;
        let heard = session.client.stat("/");
        // Nothing but the keeper keeps a session.
        drop(session);
        let _the_next_one_may_be = heard.await;
        clock.sleep_until(next).await;
    }
}

/// Takes claims out whose leases have ended although this process lives: fixed ones, and those that
/// nobody looks after any more.
pub(super) async fn end_leases(shared: Weak<Shared>, clock: Clock) {
    let mut timer = clock.timer().ok();
    loop {
        let Some(keeper) = shared.upgrade() else {
            return;
        };
        // No lease is shorter than this, so none that begins meanwhile ends sooner.
        let shortest = keeper.guarantees.shortest_lease;
        let (ended, next) = keeper.claims.expire(clock.now(), shortest);
        for key in ended {
            tokio::spawn(take_out(shared.clone(), key));
        }
        drop(keeper);
        let rung = match &mut timer {
            Some(timer) => timer.ring_at(next).await.is_ok(),
            None => false,
        };
        if !rung {
            clock.sleep_until(next).await;
        }
    }
}

/// Deletes the node of a claim that is over, however long that takes: as long as the session lives, the
/// node would.
async fn take_out(shared: Weak<Shared>, key: Key) {
    let mut pause = FIRST_PAUSE;
    while let Some(keeper) = shared.upgrade() {
        if keeper.take_out(&key).await.is_ok() {
            return;
        }
        let clock = keeper.clock.clone();
        drop(keeper);
        clock.sleep_until(clock.now() + pause).await;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}
