//! Acquiring: the caller joins a line and waits for a grant; the line's driver stands in the engine's list
//! for as long as anybody in the line waits. The first caller drives it, until it leaves or another joins:
//! then it is the keeper's own.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use super::core::{Core, call_limit};
use super::deadline::Moment;
use super::detached::Carried;
use super::local_line::{Ask, Given, Joined, LineKey, Outlook, Reply};
use super::release::Grant;
use super::tracked::{Phase, Term, Tracked, retry_pause};
use crate::backend::{Entry, Standing};
use crate::claim::Claim;
use crate::error::Error;
use crate::guarantees::{DeadAfter, Guarantees};

/// How long a caller that gave up stays to see its claim withdrawn.
const LINGER: Duration = Duration::from_millis(30);

/// How long a caller is ready to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all: busy is an answer.
    None,
    /// Until this moment.
    Until(Moment),
}

/// Acquires what is asked for; `None` when it is busy and the caller has no patience.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    ask: Ask,
    patience: Patience,
) -> Result<Option<Grant>, Error> {
    check(core, &ask)?;
    // An engine that answers at once never waits: without this, a loop over it would keep its thread
    // to itself, and the watchdog from it.
    tokio::task::coop::consume_budget().await;
    let started_at = core.clock.now();
    let (entry, until) = match patience {
        Patience::None => (Entry::Try, Moment::NEVER),
        Patience::Until(moment) => (Entry::Queue, moment),
    };
    let mut now = started_at;
    loop {
        let (key, told, driver) = match core.lines.join(&ask, entry, now)? {
            Joined::Reentered(hold, step) => {
                if hold.lengthen(ask.term, started_at) {
                    core.watchdog.schedule(&hold);
                }
                return Ok(Some(Grant::new(core.clone(), hold, step)));
            }
            Joined::Busy => return Ok(None),
            Joined::Queued(key, told, driver) => {
                // From here on there are two who wait for it.
                if let Some(driver) = driver {
                    driver.settle(core);
                }
                (key, told, None)
            }
            Joined::Leads(key, told, driver) => {
                driver.start(core, drive(core.clone(), key.clone()));
                (key, told, Some(driver))
            }
        };
        let mut place = Place {
            core,
            key,
            told: Some(told),
            driver,
        };
        let Some(reply) = place.wait(until).await else {
            let waited = core.clock.now() - started_at;
            // On the heap, since it is rare: every acquire would carry its size along.
            return Err(Box::pin(place.give_up(&ask, waited)).await);
        };
        match reply? {
            Some(grant) => {
                now = core.clock.now();
                if grant.collect(ask.term, now) >= ask.min_validity {
                    return Ok(Some(grant));
                }
                // It lay here unclaimed until its lease ended: stand in line again.
            }
            None => return Ok(None),
        }
    }
}

fn check(core: &Core, ask: &Ask) -> Result<(), Error> {
    use crate::Mode;
    core.open()?;
    let promise = core.backend.guarantees();
    let missing = match ask.mode {
        Mode::Shared if !promise.modes.shared => "shared locks",
        Mode::Permits { .. } if !promise.modes.permits => "semaphores",
        _ => "",
    };
    if !missing.is_empty() {
        let why =
            format!("it cannot grant {missing} safely; use a backend whose guarantees list them");
        return Err(Error::Refused {
            backend: promise.backend,
            why,
        });
    }
    let lease = ask.term.lease;
    if lease < promise.shortest_lease || lease > promise.longest_lease {
        return Err(Error::invalid(format!(
            "a lease of {lease:?} is not possible on {}: choose {:?} to {:?}",
            promise.backend, promise.shortest_lease, promise.longest_lease
        )));
    }
    check_delay(promise, ask.term)?;
    let believed = ask.term.believed(promise);
    if ask.min_validity > believed / 10 * 9 {
        return Err(Error::invalid(format!(
            "a minimum validity of {:?} is too much for a hold that is good for {believed:?}: ask for nine tenths of it at most",
            ask.min_validity
        )));
    }
    if !ask.kept && believed < lease / 10 * 8 {
        return Err(Error::invalid(format!(
            "a fixed lease of {lease:?} is not possible on {}, where nothing lasts longer than {believed:?} without renewal: let it be renewed, or ask for less",
            promise.backend
        )));
    }
    Ok(())
}

/// A lock-delay is a part of the engine's lease that is not believed in: so it can be kept wherever
/// claims outlive their process, and is refused elsewhere.
fn check_delay(promise: &Guarantees, term: Term) -> Result<(), Error> {
    if term.delay.is_zero() {
        return Ok(());
    }
    if promise.dead_after == DeadAfter::ProcessEnd {
        return Err(Error::Refused {
            backend: promise.backend,
            why: "it frees the locks of a process the moment that it dies, so it cannot hold them back for a \
                  lock-delay; use an engine whose locks end with their lease"
                .into(),
        });
    }
    let believed = term.believed(promise);
    if term.whole() > promise.longest_lease || believed < promise.believed(term.lease) / 4 {
        return Err(Error::invalid(format!(
            "a lock-delay of {:?} is not possible on {} with a lease of {:?}: a hold would be good for {believed:?} \
             only, or outlast the longest lease; shorten the delay",
            term.delay, promise.backend, term.lease
        )));
    }
    Ok(())
}

/// A caller's place in a line. Dropping it gives the place up, and with it a grant that came too late.
struct Place<'a> {
    core: &'a Arc<Core>,
    key: LineKey,
    told: Option<oneshot::Receiver<Reply>>,
    /// The line's driver, while this caller is the one that drives it.
    driver: Option<Arc<Carried>>,
}

impl Place<'_> {
    /// The reply, or `None` when the time is over.
    async fn wait(&mut self, until: Moment) -> Option<Reply> {
        let (core, driver) = (self.core, &mut self.driver);
        let told = self.told.as_mut()?;
        let reply = poll_fn(|cx| {
            if driver
                .as_ref()
                .is_some_and(|it| it.poll(core, cx).is_ready())
            {
                *driver = None;
            }
            Pin::new(&mut *told).poll(cx)
        });
        let reply = tokio::select! {
            biased;
            reply = reply => reply.unwrap_or(Err(Error::Closed)),
            () = core.clock.sleep_until(until), if until != Moment::NEVER => return None,
        };
        self.told = None;
        Some(reply)
    }

    /// Leaves the line, and stays a moment to see that nothing of the claim is left behind. Where the engine
    /// did not answer, nobody knows whether the name is busy: that is what the caller is told.
    async fn give_up(mut self, ask: &Ask, waited: Duration) -> Error {
        let outlook = self.core.lines.outlook(&self.key);
        self.leave();
        let core = self.core;
        let gone = async {
            while core.lines.is_deserted(&self.key) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (_may_take_longer, holder) = tokio::join!(
            tokio::time::timeout(LINGER, gone),
            core.holder_of(&ask.name)
        );
        match outlook {
            Outlook::Failed(error) => error,
            Outlook::Asks => Error::Unreachable {
                backend: core.name(),
                during: format!("asking for a lock (no answer within {waited:.1?})"),
                source: None,
            },
            Outlook::Idle => Error::Timeout {
                name: ask.name.clone(),
                backend: core.name(),
                waited,
                holder,
            },
        }
    }
}

impl Place<'_> {
    fn leave(&mut self) {
        if self.told.take().is_some() {
            self.core.lines.left(&self.key);
        }
        if let Some(driver) = self.driver.take() {
            driver.settle(self.core);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Stands in the engine's list for a line, until somebody in it holds or nobody in it waits. If it is
/// dropped before, even unpolled, those in the line are told: nobody waits for a driver that is gone.
pub(crate) fn drive(core: Arc<Core>, key: LineKey) -> impl Future<Output = ()> + Send {
    AtWork {
        core,
        key,
        over: false,
    }
    .run()
}

/// A line's driver from its making to its end.
struct AtWork {
    core: Arc<Core>,
    key: LineKey,
    over: bool,
}

impl AtWork {
    async fn run(mut self) {
        stand_in_line(&self.core, &self.key).await;
        self.over = true;
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if !self.over {
            self.core.lines.abandon(&self.key);
        }
    }
}

async fn stand_in_line(core: &Arc<Core>, key: &LineKey) {
    while let Some((ask, entry, left)) = core.lines.first(key) {
        core.watch();
        let driver = match Driver::new(core, key, &ask, left) {
            Ok(driver) => driver,
            Err(error) => {
                core.lines.fail(key, &error);
                continue;
            }
        };
        let obtained = driver.obtain(entry).await;
        match driver.numbered(obtained).await {
            Obtained::Holds => {
                if core.lines.give(core, key, &driver.tracked) == Given::Taken {
                    return;
                }
                driver.withdraw().await;
            }
            Obtained::Busy => core.lines.turn_away_first(key, Ok(None)),
            Obtained::Dropped => {
                driver.withdraw().await;
                // A grant that came too late is no success, and whoever does not wait has no second try.
                if entry == Entry::Try {
                    core.lines.turn_away_first(key, Ok(None));
                }
            }
            Obtained::Failed(error) => {
                match entry {
                    // Those behind it have more patience.
                    Entry::Try => core.lines.turn_away_first(key, Err(error)),
                    Entry::Queue => core.lines.fail(key, &error),
                }
                driver.withdraw().await;
            }
        }
    }
}

enum Obtained {
    Holds,
    Busy,
    /// Given up: nobody waits any more, or the place in the list is gone and a new one is needed.
    Dropped,
    Failed(Error),
}

/// One claim on its way into the engine's list.
struct Driver<'a> {
    core: &'a Arc<Core>,
    key: &'a LineKey,
    ask: &'a Ask,
    left: Arc<Notify>,
    claim: Claim,
    tracked: Arc<Tracked>,
}

impl<'a> Driver<'a> {
    fn new(
        core: &'a Arc<Core>,
        key: &'a LineKey,
        ask: &'a Ask,
        left: Arc<Notify>,
    ) -> Result<Self, Error> {
        let claim = Claim {
            id: core.ids.next()?,
            name: ask.name.clone(),
            mode: ask.mode,
            lease: ask.term.whole(),
            party: ask.party.clone().unwrap_or_else(|| core.party.clone()),
        };
        let tracked = Tracked::new(claim.clone(), ask.term.delay, key.clone(), ask.kept);
        Ok(Self {
            core,
            key,
            ask,
            left,
            claim,
            tracked: Arc::new(tracked),
        })
    }

    /// Enters, and waits for the grant. The claim may be in the list after any outcome but `Holds`
    /// and `Busy`.
    async fn obtain(&self, entry: Entry) -> Obtained {
        let core = self.core;
        let mut unreachable_since = None;
        loop {
            let sent = core.clock.now();
            let strays = core.watchdog.strays();
            let call = core.backend.enter(&self.claim, entry);
            let answer = core
                .limited(self.ask.term.lease, sent, "asking for a lock", call)
                .await;
            let now = core.clock.now();
            if answer.is_ok() {
                unreachable_since = None;
            }
            match answer {
                Ok(Standing::Holds { .. }) => {
                    self.tracked.answered(&answer, sent, now);
                    core.watchdog.schedule(&self.tracked);
                    return self.good_enough();
                }
                Ok(Standing::Waits { .. }) => {
                    self.tracked.answered(&answer, sent, now);
                    core.watchdog.schedule(&self.tracked);
                    core.lines.set_outlook(self.key, Outlook::Idle);
                    // A push may have come before the answer, when nobody knew the claim yet.
                    if core.watchdog.strays() != strays {
                        self.tracked.hurry(now);
                        core.watchdog.schedule(&self.tracked);
                    }
                    return self.wait_in_line().await;
                }
                Ok(Standing::Gone) if entry == Entry::Try => return Obtained::Busy,
                Ok(Standing::Gone | Standing::Unknown) => {}
                Err(error) if error.is_unknown() => {
                    let since = *unreachable_since.get_or_insert(sent);
                    let patience = match entry {
                        Entry::Try => call_limit(self.ask.term.lease),
                        Entry::Queue => self.ask.term.lease,
                    };
                    if now - since >= patience {
                        return Obtained::Failed(error);
                    }
                    core.lines.set_outlook(self.key, Outlook::Failed(error));
                }
                Err(error) => return Obtained::Failed(error),
            }
            if !self.pause().await {
                return Obtained::Dropped;
            }
        }
    }

    /// Waits a moment before asking again; false when nobody waits for the answer any more.
    async fn pause(&self) -> bool {
        let until = self.core.clock.now() + retry_pause(self.ask.term.lease);
        loop {
            tokio::select! {
                () = self.core.clock.sleep_until(until) => return self.core.lines.anybody_waits(self.key),
                () = self.left.notified() => {
                    if !self.core.lines.anybody_waits(self.key) {
                        return false;
                    }
                }
            }
        }
    }

    async fn wait_in_line(&self) -> Obtained {
        loop {
            let news = self.tracked.news();
            match self.tracked.phase() {
                Phase::Held | Phase::AtRisk => return self.good_enough(),
                Phase::Lost(_) => return Obtained::Dropped,
                Phase::Waiting => {}
            }
            tokio::select! {
                () = news => {}
                () = self.left.notified() => {
                    if !self.core.lines.anybody_waits(self.key) {
                        return Obtained::Dropped;
                    }
                }
            }
        }
    }

    /// What is granted gets its number, if another engine gives the tokens.
    async fn numbered(&self, obtained: Obtained) -> Obtained {
        let (Obtained::Holds, Some(numbering)) = (&obtained, &self.core.numbering) else {
            return obtained;
        };
        let (order, until) = (self.tracked.order(), self.tracked.deadline());
        let lease = self.ask.term.lease;
        match numbering.number(&self.ask.name, order, lease, until).await {
            Ok(guard) => {
                self.tracked.numbered(guard);
                self.good_enough()
            }
            Err(error) => Obtained::Failed(error),
        }
    }

    /// A grant that is nearly over when it arrives is given back and asked for anew.
    fn good_enough(&self) -> Obtained {
        let left = self.tracked.deadline() - self.core.clock.now();
        if left >= self.ask.min_validity {
            Obtained::Holds
        } else {
            Obtained::Dropped
        }
    }

    /// Leaves the list, from whatever state. The line stays until that is done, so that nobody of this
    /// process finds the name busy with what was given up.
    async fn withdraw(&self) {
        self.core.watchdog.forget(&self.tracked);
        let (core, lease) = (self.core, self.ask.term.lease);
        let (call, now) = (core.backend.release(&self.claim), core.clock.now());
        if core.limited(lease, now, "withdrawing", call).await.is_err() {
            core.releases.push(core, &self.tracked);
        }
    }
}
