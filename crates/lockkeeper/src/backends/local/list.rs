//! The verbs on the list of one name, inside one transaction.
//!
//! The list is walked from its head and only as far as the first claim that waits, so the work of a
//! hand-over does not grow with the number of waiters. Claims of the dead are taken out as they are
//! met. Whether a process lives is asked only where somebody would wait behind it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::client::{Database, NewRow, Row};
use super::directory::Directory;
use super::faults::unreachable;
use super::gate::{Locked, Record};
use super::presence::{self, KeeperId, Presence, Ring};
use crate::backend::{Entry, Released, Standing};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;
use crate::rule::{Verdict, Walk};
use crate::{Mode, Name};

/// A waiter that nobody tells anything looks again after this at the latest.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// After so many claims the lists of all names are freed of what has expired: a name that nobody asks
/// for again would keep its dead for ever.
const SWEEP: u64 = 256;

/// How many keepers one waiter watches at most.
const WATCHED: usize = 64;

/// Where this keeper's own claims are, to find them without searching. A hint: the list decides.
pub(super) type Places = HashMap<ClaimId, Place>;

/// Where a claim stands: in the list of a name, under a number.
#[derive(Debug)]
pub(super) struct Place {
    name: Name,
    order: u64,
    /// It held from the start.
    held: bool,
}

/// One transaction under the gate.
pub(super) struct Transaction<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) database: &'a Database,
    pub(super) gate: &'a Locked<'a>,
    pub(super) record: &'a mut Record,
    pub(super) presence: &'a OnceLock<Presence>,
    pub(super) places: &'a mut Places,
    pub(super) now: Moment,
    pub(super) effects: Effects,
    pub(super) news: News,
}

/// What is to be done once the transaction is on record.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Whom to ring.
    pub(super) rings: Vec<(KeeperId, Ring, ClaimId)>,
    /// Own claims that wait, and whose death they must hear of.
    pub(super) waits: Vec<(ClaimId, Name, Vec<KeeperId>)>,
    /// Own claims that do not wait (any more).
    pub(super) settled: Vec<ClaimId>,
    /// Own claims that are not in the list (any more).
    pub(super) left: Vec<ClaimId>,
    /// Dead keepers that have no claims left.
    pub(super) dead: Vec<KeeperId>,
    /// This keeper's pipe had been deleted and is a new one now.
    pub(super) restored: bool,
}

/// What the transaction found out and changed so far.
#[derive(Debug, Default)]
pub(super) struct News {
    lives: HashMap<KeeperId, bool>,
    changed: bool,
    left_line: Vec<u64>,
}

/// The head of a list, free of the dead: who holds, and who waits first.
struct Head {
    holders: Vec<Row>,
    waiter: Option<Row>,
}

impl Transaction<'_> {
    pub(super) fn enter(&mut self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        let name = &claim.name;
        let head = loop {
            let head = self.head(name, Some(claim.mode))?;
            if head.is_empty() {
                break head;
            }
            if let Some(row) = self.find(claim)? {
                return self.renew_row(claim, &row);
            }
            match &head.waiter {
                Some(waiter) if entry == Entry::Try && !self.lives(&waiter.keeper) => {
                    let keeper = waiter.keeper;
                    self.remove_keeper(name, &keeper)?;
                }
                _ => break head,
            }
        };
        let holds = head.admits(claim.mode);
        if !holds && entry == Entry::Try {
            self.announce(name, &head, claim.id)?;
            return Ok(Standing::Gone);
        }
        let order = self.gate.number(self.directory, self.record)?;
        if order.is_multiple_of(SWEEP) {
            // Those who wait behind an expired claim ask again when its lease ends, by themselves.
            self.database.delete_expired(self.now)?;
        }
        self.database.insert(&NewRow {
            claim,
            order,
            keeper: self.me()?,
            granted: holds.then_some(self.now),
            now: self.now,
        })?;
        let place = Place {
            name: name.clone(),
            order,
            held: holds,
        };
        self.places.insert(claim.id, place);
        if holds {
            self.announce(name, &head, claim.id)?;
            return Ok(Standing::Holds {
                order,
                lease_left: claim.lease,
            });
        }
        self.standing(name, claim.id, order)
    }

    /// Restores this keeper's pipe if it was deleted. Without the pipe the leases still count.
    pub(super) fn restore_pipe(&mut self) -> Result<(), Error> {
        let Some(presence) = self.presence.get() else {
            return Ok(());
        };
        if presence.is_in_place()? {
            return Ok(());
        }
        // While the pipe was missing, another keeper may have replaced the files.
        if !self.gate.is_current(self.directory)? {
            return Err(unreachable(
                "renewing in a directory whose files were replaced",
            ));
        }
        presence.restore()?;
        self.effects.restored = true;
        Ok(())
    }

    pub(super) fn renew(&mut self, claim: &Claim) -> Result<Standing, Error> {
        match self.find(claim)? {
            Some(row) => self.renew_row(claim, &row),
            None => self.gone(claim),
        }
    }

    pub(super) fn downgrade(&mut self, claim: &Claim) -> Result<Standing, Error> {
        let Some(row) = self.find(claim)? else {
            return self.gone(claim);
        };
        match row.mode {
            Mode::Exclusive => {
                self.database.set_shared(&claim.name, row.order)?;
                self.news.changed = true;
            }
            Mode::Shared => {}
            mode => {
                return Err(Error::invalid(format_args!(
                    "a claim of mode {mode} cannot be downgraded: only an exclusive one can"
                )));
            }
        }
        self.database
            .set_end(&claim.name, row.order, self.now + claim.lease)?;
        self.standing(&claim.name, claim.id, row.order)
    }

    pub(super) fn release(&mut self, claim: &Claim) -> Result<Released, Error> {
        // The usual case: a claim that held from the start is taken out without being looked at first.
        if let Some(place) = self.places.get(&claim.id)
            && place.held
            && place.name == claim.name
            && self.database.delete_own(claim, place.order, self.now)?
        {
            self.news.changed = true;
            self.gone(claim)?;
            return Ok(Released::Freed);
        }
        let found = self.find(claim)?;
        if let Some(row) = &found {
            self.remove(&claim.name, row)?;
        }
        self.gone(claim)?;
        Ok(found.map_or(Released::Gone, |_| Released::Freed))
    }

    pub(super) fn evict(&mut self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let found = self.database.at(name, order)?;
        let found = found.filter(|row| row.ends > self.now);
        if let Some(row) = &found {
            self.database.record_break(name, order, (why, self.now))?;
            self.remove(name, row)?;
            // It must hear of it at once: its critical section is unprotected from now on.
            self.effects.rings.push((row.keeper, Ring::Look, row.id));
            let head = self.head(name, None)?;
            self.announce(name, &head, row.id)?;
        }
        Ok(found.map_or(Released::Gone, |_| Released::Freed))
    }

    /// Takes out all claims of this keeper, which is going away.
    pub(super) fn leave(&mut self) -> Result<(), Error> {
        for (id, Place { name, order, .. }) in std::mem::take(self.places) {
            let found = self.database.at(&name, order)?;
            if let Some(row) = found.filter(|row| row.id == id) {
                self.remove(&name, &row)?;
                let head = self.head(&name, None)?;
                self.announce(&name, &head, id)?;
            }
        }
        Ok(())
    }

    /// Where a claim of this keeper stands, without a word to its owner: its lease goes on as it was.
    pub(super) fn look(&mut self, name: &Name, id: ClaimId) -> Result<Standing, Error> {
        let found = match self.places.get(&id) {
            Some(place) => self.database.at(name, place.order)?,
            None => None,
        };
        let Some(row) = found.filter(|row| row.id == id && row.ends > self.now) else {
            self.effects.settled.push(id);
            return Ok(Standing::Gone);
        };
        let head = self.head(name, None)?;
        if let Some(row) = head.holders.iter().find(|holder| holder.order == row.order) {
            self.announce(name, &head, id)?;
            return Ok(Standing::Holds {
                order: row.order,
                lease_left: row.ends - self.now,
            });
        }
        self.standing(name, id, row.order)
    }

    fn renew_row(&mut self, claim: &Claim, row: &Row) -> Result<Standing, Error> {
        let ends = self.now + claim.lease;
        self.database.set_end(&claim.name, row.order, ends)?;
        // Whoever was told once that it holds, holds until it leaves the list.
        if row.granted.is_none() {
            return self.standing(&claim.name, claim.id, row.order);
        }
        self.effects.settled.push(claim.id);
        self.announce_if_changed(claim)?;
        Ok(Standing::Holds {
            order: row.order,
            lease_left: claim.lease,
        })
    }

    /// The claim is not in the list, or no longer: sees to those whom that concerns.
    fn gone(&mut self, claim: &Claim) -> Result<Standing, Error> {
        self.effects.left.push(claim.id);
        self.effects.settled.push(claim.id);
        self.announce_if_changed(claim)?;
        Ok(Standing::Gone)
    }

    fn announce_if_changed(&mut self, claim: &Claim) -> Result<(), Error> {
        if !self.news.changed {
            return Ok(());
        }
        let head = self.head(&claim.name, None)?;
        self.announce(&claim.name, &head, claim.id)
    }

    /// The claim's place in the list; an expired one is taken out.
    fn find(&mut self, claim: &Claim) -> Result<Option<Row>, Error> {
        let known = match self.places.get(&claim.id) {
            Some(place) if place.name == claim.name => {
                self.database.at(&place.name, place.order)?
            }
            _ => None,
        };
        let found = match known.filter(|row| row.id == claim.id) {
            Some(row) => Some(row),
            None => self.database.with_id(&claim.name, claim.id)?,
        };
        match found {
            Some(row) if row.ends <= self.now => {
                self.remove(&claim.name, &row)?;
                Ok(None)
            }
            found => Ok(found),
        }
    }

    /// Tells a claim that is in the list its standing.
    fn standing(&mut self, name: &Name, id: ClaimId, order: u64) -> Result<Standing, Error> {
        loop {
            let head = self.head(name, None)?;
            if let Some(row) = head.holders.iter().find(|row| row.order == order) {
                if row.granted.is_none() {
                    self.database.set_granted(name, order, self.now)?;
                }
                self.announce(name, &head, id)?;
                self.effects.settled.push(id);
                return Ok(Standing::Holds {
                    order,
                    lease_left: row.ends - self.now,
                });
            }
            let first = head.waiter.as_ref().map_or(0, |row| row.order);
            if first == order {
                self.announce(name, &head, id)?;
                return Ok(self.waits((name, id), head.holders.len(), &head.holders));
            }
            let ahead = self.live_before(name, order)?;
            // If the first waiter proved dead, somebody else is the first now: perhaps this one.
            if let Some(ahead) = ahead.filter(|ahead| ahead.order >= first) {
                self.announce(name, &head, id)?;
                let count = self.database.ahead(name, order)?;
                return Ok(self.waits((name, id), count, &[ahead]));
            }
        }
    }

    fn waits(&mut self, (name, id): (&Name, ClaimId), ahead: usize, behind: &[Row]) -> Standing {
        let me = self.presence.get().map(|presence| presence.id);
        let mut keepers: Vec<KeeperId> = behind.iter().map(|row| row.keeper).collect();
        keepers.sort_unstable();
        keepers.dedup();
        keepers.retain(|keeper| Some(*keeper) != me);
        keepers.truncate(WATCHED);
        self.effects.waits.push((id, name.clone(), keepers));
        let ends = behind.iter().map(|row| row.ends - self.now).min();
        Standing::Waits {
            ahead,
            look_again_in: ends.unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN),
        }
    }

    /// The nearest living claim ahead of this place.
    fn live_before(&mut self, name: &Name, order: u64) -> Result<Option<Row>, Error> {
        while let Some(row) = self.database.before(name, order)? {
            if row.ends <= self.now {
                self.remove(name, &row)?;
            } else if !self.lives(&row.keeper) {
                self.remove_keeper(name, &row.keeper)?;
            } else {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// The head of the list without the dead: those who block the first waiter, or a newcomer of mode
    /// `newcomer` if nobody waits, and those who were promoted and do not know yet, are known to live.
    fn head(&mut self, name: &Name, newcomer: Option<Mode>) -> Result<Head, Error> {
        loop {
            let head = self.unexpired_head(name)?;
            let waiting = head.waiter.as_ref().map(|row| row.mode).or(newcomer);
            let Some(dead) = self.dead_among(&head.holders, waiting) else {
                return Ok(head);
            };
            self.remove_keeper(name, &dead)?;
        }
    }

    fn unexpired_head(&mut self, name: &Name) -> Result<Head, Error> {
        let mut walk = Walk::default();
        let mut expired = Vec::new();
        let mut head = Head {
            holders: Vec::new(),
            waiter: None,
        };
        let now = self.now;
        self.database.walk(name, |row| {
            if row.ends <= now {
                expired.push(row);
                return ControlFlow::Continue(());
            }
            match walk.next(row.mode) {
                Verdict::Holds => head.holders.push(row),
                Verdict::Waits => {
                    head.waiter = Some(row);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        for row in &expired {
            self.remove(name, row)?;
        }
        Ok(head)
    }

    /// A dead keeper among the holders whose claim matters: it was promoted and does not know, or it
    /// blocks a waiting claim of the given mode.
    fn dead_among(&mut self, holders: &[Row], waiting: Option<Mode>) -> Option<KeeperId> {
        let untold = holders.iter().filter(|row| row.granted.is_none());
        for keeper in untold.map(|row| row.keeper) {
            if !self.lives(&keeper) {
                return Some(keeper);
            }
        }
        let mode = waiting?;
        let mut walk = Walk::default();
        let blocks = |row: &Row| {
            walk.next(row.mode);
            walk.clone().next(mode) == Verdict::Waits
        };
        let place = holders.iter().position(blocks)?;
        // One living claim in the way is enough; only permits add up, and there each one counts.
        let adds_up = |row: &Row| matches!(row.mode, Mode::Permits { .. });
        let from = match mode {
            Mode::Permits { .. } if adds_up(&holders[place]) => 0,
            _ => place,
        };
        let in_the_way = holders[from..=place].iter().map(|row| row.keeper);
        in_the_way.into_iter().find(|keeper| !self.lives(keeper))
    }

    fn lives(&mut self, keeper: &KeeperId) -> bool {
        if self.presence.get().is_some_and(|me| me.id == *keeper) {
            return true;
        }
        let ask = || presence::is_alive(self.directory, keeper);
        *self.news.lives.entry(*keeper).or_insert_with(ask)
    }

    fn me(&mut self) -> Result<KeeperId, Error> {
        if let Some(presence) = self.presence.get() {
            return Ok(presence.id);
        }
        let presence = Presence::show(self.directory)?;
        // From here on nobody begins anew with other files. Has anybody just before?
        if !self.gate.is_current(self.directory)? {
            presence.remove();
            return Err(unreachable(
                "entering a directory whose files were replaced",
            ));
        }
        // Now and then somebody has to bury those who were killed without a claim in any list.
        if presence.id[0] == 0 {
            for keeper in presence::sweep(self.directory, Some(presence.id))?.1 {
                self.bury(keeper)?;
            }
        }
        Ok(self.presence.get_or_init(|| presence).id)
    }

    fn remove(&mut self, name: &Name, row: &Row) -> Result<(), Error> {
        self.database.delete(name, row.order)?;
        self.news.changed = true;
        if row.granted.is_none() {
            self.news.left_line.push(row.order);
        }
        Ok(())
    }

    fn remove_keeper(&mut self, name: &Name, keeper: &KeeperId) -> Result<(), Error> {
        self.database.delete_keeper(name, keeper)?;
        self.news.changed = true;
        self.bury(*keeper)
    }

    /// Has a dead keeper's pipe deleted. It stays while it has claims under other names, since it is
    /// the proof that those are free.
    fn bury(&mut self, keeper: KeeperId) -> Result<(), Error> {
        if !self.database.has_claims_of(&keeper)? {
            self.effects.dead.push(keeper);
        }
        Ok(())
    }

    /// After claims left the list: notes whom to ring, `but` for the claim that is being answered.
    fn announce(&mut self, name: &Name, head: &Head, but: ClaimId) -> Result<(), Error> {
        if !std::mem::take(&mut self.news.changed) {
            return Ok(());
        }
        let rings = &mut self.effects.rings;
        let before = rings.len();
        let promoted = head
            .holders
            .iter()
            .filter(|row| row.granted.is_none() && row.id != but);
        rings.extend(promoted.map(|row| (row.keeper, Ring::Look, row.id)));
        let promoted = rings.len() - before;
        // The first waiter watched the one claim ahead of it; now several hold ahead of it.
        let mut rewatch: Vec<Row> = Vec::new();
        if promoted > 0 && head.holders.len() > 1 {
            rewatch.extend(head.waiter.clone());
        }
        // Whoever stood behind a claim that left the line watches the wrong one.
        let holding = head.holders.last().map_or(0, |row| row.order);
        for order in std::mem::take(&mut self.news.left_line) {
            let next = self.database.after(name, order)?;
            rewatch.extend(next.filter(|row| row.order > holding));
        }
        rewatch.retain(|row| row.id != but);
        rewatch.dedup_by_key(|row| row.order);
        let rewatch = rewatch
            .into_iter()
            .map(|row| (row.keeper, Ring::Watch, row.id));
        self.effects.rings.extend(rewatch);
        Ok(())
    }
}

impl Head {
    fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.waiter.is_none()
    }

    /// Whether a claim of this mode at the end of the list would hold.
    fn admits(&self, mode: Mode) -> bool {
        let mut walk = Walk::default();
        for row in &self.holders {
            walk.next(row.mode);
        }
        self.waiter.is_none() && walk.next(mode) == Verdict::Holds
    }
}
