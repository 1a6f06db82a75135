//! The local line: callers of one process that want the same name queue up in here first and share
//! one claim in the engine's list. Handing on inside the process takes the next step of the token and
//! no round trip. Pure bookkeeping under one mutex; nothing here waits or talks to an engine.
//!
//! Claims that share nothing (fair, shared, permits) have a line of their own with one caller in it,
//! so that there is one way to acquire, not two.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::{Notify, oneshot};

use super::core::Core;
use super::deadline::Moment;
use super::detached::Carried;
use super::locked;
use super::release::Grant;
use super::tracked::{Phase, Term, Tracked};
use crate::backend::Entry;
use crate::claim::Party;
use crate::error::Error;
use crate::{Mode, Name};

/// What a caller asks for.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    pub(crate) term: Term,
    /// Renewed by the watchdog, or fixed.
    pub(crate) kept: bool,
    /// Strict order over all processes: no sharing of a claim.
    pub(crate) fair: bool,
    pub(crate) owner: Option<u64>,
    pub(crate) min_validity: Duration,
    /// Somebody else than the keeper's own party.
    pub(crate) party: Option<Arc<Party>>,
}

/// Which line a caller stands in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum LineKey {
    /// Everybody in this keeper who wants the name for himself.
    Common(Name),
    /// One owner's own line, where re-entry is looked for.
    Owned(Name, u64, Sharing),
    /// One caller.
    Solo(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sharing {
    Exclusive,
    Shared,
}

/// How far a process may hand a claim on while other processes may be waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassOn {
    pub(crate) times: u8,
    pub(crate) span: Duration,
}

pub(crate) type Reply = Result<Option<Grant>, Error>;

/// Where a caller finds itself after joining.
#[derive(Debug)]
pub(crate) enum Joined {
    /// Its owner holds the name already.
    Reentered(Arc<Tracked>, u8),
    /// It may not wait, and somebody in this process is ahead of it.
    Busy,
    /// It is the first: it has to start the driver.
    Leads(LineKey, oneshot::Receiver<Reply>, Arc<Carried>),
    /// It waits for its turn, and is the first to wait behind whoever carries the driver, if it is told.
    Queued(LineKey, oneshot::Receiver<Reply>, Option<Arc<Carried>>),
}

/// What the end of one guard means for the claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Outer guards of the same owner still hold it.
    StillEntered,
    /// The next caller in line has it.
    HandedOn,
    /// It goes back to the engine; `others_wait` for the name in this process.
    Free { others_wait: bool },
}

/// What became of a grant from the engine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Taken,
    /// The first caller still waiting asked for something else.
    Unfit,
}

/// Every acquire and release looks its line up several times, so a quick hash counts. Names may be chosen by outsiders: it is
/// seeded anew in each process.
type ByKey = HashMap<LineKey, Line, RandomState>;

#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: Mutex<ByKey>,
    /// Numbers for owners and for lines of one caller.
    numbers: AtomicU64,
    closed: AtomicBool,
}

#[derive(Debug)]
struct Line {
    held: Option<Held>,
    queue: VecDeque<Ticket>,
    /// A caller has given up: the driver looks whether anybody is left.
    left: Arc<Notify>,
    /// How long the queue may get before it is looked through.
    prune_at: usize,
    outlook: Outlook,
    /// Its driver, while it is the first caller that drives it.
    driver: Weak<Carried>,
}

/// What the line's driver knows of the engine.
#[derive(Debug, Clone)]
pub(crate) enum Outlook {
    /// It is not at work, or stands in the engine's list.
    Idle,
    /// It has asked, and got no answer yet.
    Asks,
    /// Its last question failed.
    Failed(Error),
}

#[derive(Debug)]
struct Held {
    hold: Arc<Tracked>,
    step: u8,
    since: Moment,
    owner: Option<u64>,
    depth: u32,
}

#[derive(Debug)]
struct Ticket {
    ask: Ask,
    entry: Entry,
    reply: oneshot::Sender<Reply>,
}

impl Lines {
    pub(crate) fn join(&self, ask: &Ask, entry: Entry, now: Moment) -> Result<Joined, Error> {
        let mut lines = locked(&self.lines);
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        if let Some(owner) = ask.owner
            && let Some(joined) = reenter(&mut lines, ask, (owner, now))?
        {
            return Ok(joined);
        }
        let key = self.key_of(ask);
        let (reply, told) = oneshot::channel();
        let ticket = Ticket {
            ask: ask.clone(),
            entry,
            reply,
        };
        match lines.entry(key.clone()) {
            Slot::Occupied(_) if entry == Entry::Try => Ok(Joined::Busy),
            Slot::Occupied(mut line) => {
                let line = line.get_mut();
                line.prune();
                line.queue.push_back(ticket);
                let driver = std::mem::take(&mut line.driver).upgrade();
                Ok(Joined::Queued(key, told, driver))
            }
            Slot::Vacant(place) => {
                let driver = Carried::awaited();
                place.insert(Line {
                    driver: Arc::downgrade(&driver),
                    held: None,
                    queue: VecDeque::from([ticket]),
                    left: Arc::default(),
                    prune_at: 64,
                    outlook: Outlook::Idle,
                });
                Ok(Joined::Leads(key, told, driver))
            }
        }
    }

    fn key_of(&self, ask: &Ask) -> LineKey {
        let name = ask.name.clone();
        match (ask.mode, ask.fair, ask.owner) {
            (Mode::Exclusive, false, _) => LineKey::Common(name),
            (Mode::Exclusive, true, Some(owner)) => LineKey::Owned(name, owner, Sharing::Exclusive),
            (Mode::Shared, _, Some(owner)) => LineKey::Owned(name, owner, Sharing::Shared),
            _ => self.solo_key(),
        }
    }

    pub(crate) fn solo_key(&self) -> LineKey {
        LineKey::Solo(self.new_number())
    }

    pub(crate) fn new_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// What the first caller still waiting asks for; without any, the line is closed.
    pub(crate) fn first(&self, key: &LineKey) -> Option<(Ask, Entry, Arc<Notify>)> {
        let mut lines = locked(&self.lines);
        let line = lines.get_mut(key)?;
        line.drop_those_who_left();
        match line.queue.front() {
            Some(first) => {
                line.outlook = Outlook::Asks;
                Some((first.ask.clone(), first.entry, line.left.clone()))
            }
            None => {
                lines.remove(key);
                None
            }
        }
    }

    /// Whether anybody still waits in this line.
    pub(crate) fn anybody_waits(&self, key: &LineKey) -> bool {
        let mut lines = locked(&self.lines);
        lines.get_mut(key).is_some_and(|line| {
            line.drop_those_who_left();
            !line.queue.is_empty()
        })
    }

    /// Whether the line still stands although nobody in it waits or holds: its driver is leaving.
    pub(crate) fn is_deserted(&self, key: &LineKey) -> bool {
        let mut lines = locked(&self.lines);
        lines.get_mut(key).is_some_and(|line| {
            line.drop_those_who_left();
            line.queue.is_empty() && line.held.is_none()
        })
    }

    /// A caller of this line has given up.
    pub(crate) fn left(&self, key: &LineKey) {
        if let Some(line) = locked(&self.lines).get(key) {
            line.left.notify_one();
        }
    }

    /// The driver has got an answer, or none.
    pub(crate) fn set_outlook(&self, key: &LineKey, outlook: Outlook) {
        if let Some(line) = locked(&self.lines).get_mut(key) {
            line.outlook = outlook;
        }
    }

    /// How the line's driver fares.
    pub(crate) fn outlook(&self, key: &LineKey) -> Outlook {
        let lines = locked(&self.lines);
        lines
            .get(key)
            .map_or(Outlook::Idle, |line| line.outlook.clone())
    }

    /// Gives a hold to the first caller in line that still wants it.
    pub(crate) fn give(&self, core: &Arc<Core>, key: &LineKey, hold: &Arc<Tracked>) -> Given {
        let mut lines = locked(&self.lines);
        let Some(line) = lines.get_mut(key) else {
            return Given::Unfit;
        };
        line.drop_those_who_left();
        if hold.is_lost() {
            return Given::Unfit;
        }
        let fits = |ask: &Ask| ask.term == hold.term() && ask.kept == hold.is_kept();
        if !line.queue.front().is_some_and(|first| fits(&first.ask)) {
            return Given::Unfit;
        }
        let since = core.clock.now();
        match line.hand_to_next(core, hold, 0) {
            Some(owner) => {
                line.held = Some(Held {
                    hold: hold.clone(),
                    step: 0,
                    since,
                    owner: owner.0,
                    depth: owner.1,
                });
                line.outlook = Outlook::Idle;
                Given::Taken
            }
            None => Given::Unfit,
        }
    }

    /// A guard of this hold ends. Either the claim stays in this process or it is free to go.
    pub(crate) fn end_one(&self, core: &Arc<Core>, hold: &Arc<Tracked>) -> Ending {
        let key = hold.key();
        let mut lines = locked(&self.lines);
        let Some(line) = lines.get_mut(&key).filter(|line| line.holds(hold)) else {
            // It was lost before, and the line has gone on without it.
            return Ending::Free { others_wait: false };
        };
        let Some(held) = &mut line.held else {
            return Ending::Free { others_wait: false };
        };
        held.depth -= 1;
        if held.depth > 0 {
            return Ending::StillEntered;
        }
        line.drop_those_who_left();
        if line.pass_on(core, &key) {
            return Ending::HandedOn;
        }
        line.held = None;
        let others_wait = !line.queue.is_empty();
        if !others_wait {
            lines.remove(&key);
        }
        Ending::Free { others_wait }
    }

    /// The hold is lost. True if others wait in its line, which then needs a driver.
    pub(crate) fn hold_lost(&self, hold: &Arc<Tracked>) -> bool {
        let key = hold.key();
        let mut lines = locked(&self.lines);
        let Some(line) = lines.get_mut(&key).filter(|line| line.holds(hold)) else {
            return false;
        };
        line.held = None;
        line.drop_those_who_left();
        let others_wait = !line.queue.is_empty();
        if !others_wait {
            lines.remove(&key);
        }
        others_wait
    }

    /// Moves a hold that is being downgraded into a line of its own. `Err` if it was entered more
    /// than once; otherwise the old line, if others wait in it and need a driver.
    pub(crate) fn move_out(&self, hold: &Arc<Tracked>) -> Result<Option<LineKey>, ()> {
        let key = hold.key();
        let mut lines = locked(&self.lines);
        let Some(line) = lines.get_mut(&key).filter(|line| line.holds(hold)) else {
            return Ok(None);
        };
        if line.held.as_ref().is_some_and(|held| held.depth > 1) {
            return Err(());
        }
        let held = line.held.take();
        line.drop_those_who_left();
        let others_wait = !line.queue.is_empty();
        if !others_wait {
            lines.remove(&key);
        }
        // Where its owner is looked for, if it has one.
        let owner = held.as_ref().and_then(|held| held.owner);
        let owned = owner.map(|owner| LineKey::Owned(hold.claim().name, owner, Sharing::Shared));
        let vacant = owned.filter(|key| !lines.contains_key(key));
        let own = vacant.unwrap_or_else(|| self.solo_key());
        hold.becomes_shared(own.clone());
        lines.insert(
            own,
            Line {
                held,
                queue: VecDeque::new(),
                left: Arc::default(),
                prune_at: 64,
                outlook: Outlook::Idle,
                driver: Weak::new(),
            },
        );
        Ok(others_wait.then_some(key))
    }

    /// The owner of this hold, if it has one.
    pub(crate) fn owner_of(&self, hold: &Arc<Tracked>) -> Option<u64> {
        let lines = locked(&self.lines);
        let line = lines.get(&hold.key()).filter(|line| line.holds(hold))?;
        line.held.as_ref()?.owner
    }

    /// Answers the first caller if it did not want to wait; those who do go on waiting.
    pub(crate) fn turn_away_first(&self, key: &LineKey, reply: Reply) {
        let first = locked(&self.lines)
            .get_mut(key)
            .and_then(|line| line.queue.pop_front_if(|first| first.entry == Entry::Try));
        if let Some(first) = first {
            let _gave_up = first.reply.send(reply);
        }
    }

    /// Tells everybody in this line that it cannot be.
    pub(crate) fn fail(&self, key: &LineKey, error: &Error) {
        let tickets = locked(&self.lines)
            .get_mut(key)
            .map(|line| std::mem::take(&mut line.queue));
        for ticket in tickets.into_iter().flatten() {
            let _gave_up = ticket.reply.send(Err(error.clone()));
        }
    }

    /// The line's driver is gone and will not come back.
    pub(crate) fn abandon(&self, key: &LineKey) {
        let line = locked(&self.lines).remove(key);
        for ticket in line.into_iter().flat_map(|line| line.queue) {
            let _gave_up = ticket.reply.send(Err(Error::Closed));
        }
    }

    /// The keeper is closing: everybody who waits is told, drivers go on without them, and what is held is named.
    pub(crate) fn close(&self, core: &Core) -> Vec<Arc<Tracked>> {
        let (held, drivers) = self.close_all();
        for driver in drivers {
            driver.settle(core);
        }
        held
    }

    fn close_all(&self) -> (Vec<Arc<Tracked>>, Vec<Arc<Carried>>) {
        let mut lines = locked(&self.lines);
        self.closed.store(true, Ordering::Release);
        let (mut held, mut drivers) = (Vec::new(), Vec::new());
        for line in lines.values_mut() {
            for ticket in line.queue.drain(..) {
                let _gave_up = ticket.reply.send(Err(Error::Closed));
            }
            line.left.notify_one();
            held.extend(line.held.as_ref().map(|held| held.hold.clone()));
            drivers.extend(line.driver.upgrade());
        }
        (held, drivers)
    }

    /// How many lines have nobody who holds: their drivers are under way.
    pub(crate) fn under_way(&self) -> usize {
        locked(&self.lines)
            .values()
            .filter(|line| line.held.is_none())
            .count()
    }

    /// How many lines there are.
    pub(crate) fn len(&self) -> usize {
        locked(&self.lines).len()
    }
}

/// An owner that holds the name already enters once more, without a round trip.
fn reenter(
    lines: &mut ByKey,
    ask: &Ask,
    (owner, now): (u64, Moment),
) -> Result<Option<Joined>, Error> {
    let name = || ask.name.clone();
    let exclusive = [
        LineKey::Common(name()),
        LineKey::Owned(name(), owner, Sharing::Exclusive),
    ];
    let shared = LineKey::Owned(name(), owner, Sharing::Shared);
    let wants = match ask.mode {
        Mode::Exclusive => Sharing::Exclusive,
        Mode::Shared => Sharing::Shared,
        _ => return Ok(None),
    };
    // Under a write hold an owner may also read.
    for key in exclusive
        .iter()
        .chain((wants == Sharing::Shared).then_some(&shared))
    {
        let held = lines.get_mut(key).and_then(|line| line.held.as_mut());
        if let Some(held) =
            held.filter(|held| held.owner == Some(owner) && held.hold.deadline() > now)
        {
            if ask.kept && !held.hold.is_kept() {
                return Err(Error::invalid(format!(
                    "this owner holds {:?} on a fixed lease, which an inner entry cannot prolong",
                    ask.name
                )));
            }
            held.depth += 1;
            return Ok(Some(Joined::Reentered(held.hold.clone(), held.step)));
        }
    }
    let reads = lines.get(&shared).and_then(|line| line.held.as_ref());
    if wants == Sharing::Exclusive && reads.is_some_and(|held| !held.hold.is_lost()) {
        let why = format!(
            "this owner holds {:?} for reading and would wait for itself; use Guard::upgrade_within",
            ask.name
        );
        return Err(Error::Invalid { what: why });
    }
    Ok(None)
}

impl Line {
    fn holds(&self, hold: &Arc<Tracked>) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| Arc::ptr_eq(&held.hold, hold))
    }

    /// Forgets callers in the middle who gave up, now and then: the cost is spread over those who join.
    fn prune(&mut self) {
        if self.queue.len() >= self.prune_at {
            self.queue.retain(|ticket| !ticket.reply.is_closed());
            self.prune_at = 64.max(2 * self.queue.len());
        }
    }

    fn drop_those_who_left(&mut self) {
        while self
            .queue
            .front()
            .is_some_and(|ticket| ticket.reply.is_closed())
        {
            self.queue.pop_front();
        }
    }

    /// Hands the hold to the next caller of this process, if it is still good enough and if the
    /// process has not kept it for itself too long.
    fn pass_on(&mut self, core: &Arc<Core>, key: &LineKey) -> bool {
        let (Some(held), Some(next)) = (&self.held, self.queue.front()) else {
            return false;
        };
        let now = core.clock.now();
        let (hold, limits) = (held.hold.clone(), core.pass_on);
        let may = matches!(key, LineKey::Common(_))
            && held.step < limits.times
            && now - held.since < limits.span;
        let fits = next.ask.kept
            && hold.is_kept()
            && next.ask.term == hold.term()
            && hold.phase() == Phase::Held
            && hold.deadline() - now >= next.ask.min_validity;
        if !(may && fits) {
            return false;
        }
        let step = held.step + 1;
        hold.hand_on();
        let Some((owner, depth)) = self.hand_to_next(core, &hold, step) else {
            return false;
        };
        if let Some(held) = &mut self.held {
            (held.step, held.owner, held.depth) = (step, owner, depth);
        }
        true
    }

    /// Gives the hold to the first caller that takes it, and to everybody else of the same owner.
    /// Returns the owner and how many guards there are now.
    fn hand_to_next(
        &mut self,
        core: &Arc<Core>,
        hold: &Arc<Tracked>,
        step: u8,
    ) -> Option<(Option<u64>, u32)> {
        let hand = |ticket: Ticket| {
            let grant = Grant::new(core.clone(), hold.clone(), step);
            match ticket.reply.send(Ok(Some(grant))) {
                Ok(()) => true,
                Err(unwanted) => {
                    // Not dropped as a grant: that would release what goes to the next in line.
                    unwanted.into_iter().flatten().for_each(Grant::void);
                    false
                }
            }
        };
        let owner = loop {
            let ticket = self.queue.pop_front()?;
            let owner = ticket.ask.owner;
            if hand(ticket) {
                break owner;
            }
        };
        let mut depth = 1;
        if owner.is_some() {
            let (same, others) = std::mem::take(&mut self.queue)
                .into_iter()
                .partition(|ticket| {
                    ticket.ask.owner == owner && (hold.is_kept() || !ticket.ask.kept)
                });
            self.queue = others;
            let same: VecDeque<Ticket> = same;
            depth += same.into_iter().map(hand).filter(|taken| *taken).count() as u32;
        }
        Some((owner, depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(1);

    fn ask() -> Ask {
        Ask {
            name: Name::new("n").unwrap(),
            mode: Mode::Exclusive,
            term: Term {
                lease: Duration::from_secs(30),
                delay: Duration::ZERO,
            },
            kept: true,
            fair: false,
            owner: None,
            min_validity: Duration::from_secs(1),
            party: None,
        }
    }

    /// The answer to a try that has gone is not given to the next in line, who does wait.
    #[test]
    fn whoever_waits_is_not_turned_away_for_a_try_that_left() {
        let lines = Lines::default();
        let Ok(Joined::Leads(key, tries, _)) = lines.join(&ask(), Entry::Try, NOW) else {
            panic!()
        };
        let Ok(Joined::Queued(_, mut waits, _)) = lines.join(&ask(), Entry::Queue, NOW) else {
            panic!()
        };
        drop(tries);
        assert!(lines.anybody_waits(&key));
        lines.turn_away_first(&key, Ok(None));
        assert!(waits.try_recv().is_err(), "nobody has answered it");
        assert!(lines.anybody_waits(&key));
    }

    #[test]
    fn a_closed_keeper_takes_nobody_in_and_an_abandoned_line_is_gone() {
        let lines = Lines::default();
        let Ok(Joined::Leads(key, mut waits, _)) = lines.join(&ask(), Entry::Queue, NOW) else {
            panic!()
        };
        lines.abandon(&key);
        assert!(matches!(waits.try_recv(), Ok(Err(Error::Closed))));
        assert_eq!(lines.len(), 0);
        lines.close_all();
        assert!(matches!(
            lines.join(&ask(), Entry::Queue, NOW),
            Err(Error::Closed)
        ));
    }
}
