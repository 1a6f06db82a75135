//! A name's list as rows, and what each verb makes of it. Pure: the rows come from a reading, the change goes into
//! a statement that the name's row guards.

use std::time::Duration;

use crate::backend::{Entry, Released, Standing};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::{Mode, rule};

/// A claim as it stands in the table, as of the server's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) order: u64,
    pub(crate) id: ClaimId,
    pub(crate) mode: Mode,
    /// Until its lease ends; not positive: it has ended.
    pub(crate) left_us: i64,
    /// How long the lease was when it last began.
    pub(crate) lease_us: i64,
    /// Whether it was made a holder.
    pub(crate) granted: bool,
    /// Where its keeper can be told.
    pub(crate) keeper: String,
}

/// What to write, all of it in one transaction, if the name's row is still as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The claims with these numbers leave.
    pub(crate) delete: Vec<u64>,
    /// Those of them that leave because their lease had ended when they were read. Where a renewal can come between
    /// reading and writing, nothing may be written if one of them lives after all.
    pub(crate) dead: Vec<u64>,
    /// The leases of these start anew, at their own length: more than that was left of them, so the server's
    /// clock was set back.
    pub(crate) restart: Vec<u64>,
    /// These hold from now on.
    pub(crate) grant: Vec<u64>,
    /// The lease of this one starts anew, as long as was asked for.
    pub(crate) renew: Option<u64>,
    /// This one is shared from now on.
    pub(crate) share: Option<u64>,
    /// The claim that was asked about enters.
    pub(crate) insert: Option<Insert>,
    /// Who is told.
    pub(crate) rings: Vec<Ring>,
}

/// How a claim enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Insert {
    Holding,
    Waiting,
}

/// News for a keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) keeper: String,
    pub(crate) id: ClaimId,
    /// It holds with this number; without one, it should ask.
    pub(crate) holds: Option<u64>,
}

/// What entering comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entered {
    /// Nothing is inserted.
    Known(Standing),
    /// Inserted as a holder; its number comes from the insertion.
    Holds,
    /// Inserted as a waiter.
    Waits {
        ahead: usize,
        look_again_in: Duration,
    },
}

impl Entered {
    /// The standing, once the claim has its number.
    pub(crate) fn standing(self, order: u64, lease: Duration) -> Standing {
        match self {
            Self::Known(standing) => standing,
            Self::Holds => Standing::Holds {
                order,
                lease_left: lease,
            },
            Self::Waits {
                ahead,
                look_again_in,
            } => Standing::Waits {
                ahead,
                look_again_in,
            },
        }
    }
}

impl Change {
    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A name's list: those who live, in order, and what has to be written since others have died.
#[derive(Debug, Clone)]
pub(crate) struct List {
    live: Vec<Row>,
    change: Change,
}

impl List {
    /// The list that these rows, in their order, make.
    pub(crate) fn of(rows: Vec<Row>) -> Self {
        let (mut live, dead): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| row.left_us > 0);
        let dead: Vec<u64> = dead.iter().map(|row| row.order).collect();
        let mut change = Change {
            delete: dead.clone(),
            dead,
            ..Change::default()
        };
        for row in live.iter_mut().filter(|row| row.left_us > row.lease_us) {
            row.left_us = row.lease_us;
            change.restart.push(row.order);
        }
        Self { live, change }
    }

    /// The claim enters at the end, or keeps its place with its lease begun anew.
    pub(crate) fn enter(mut self, claim: &Claim, entry: Entry) -> (Change, Entered) {
        if self.place_of(claim.id).is_some() {
            let (change, standing) = self.renew(claim);
            return (change, Entered::Known(standing));
        }
        let modes = self.live.iter().map(|row| row.mode).chain([claim.mode]);
        let holds = rule::holders(modes) > self.live.len();
        let entered = match (holds, entry, self.live.last()) {
            (true, _, _) => {
                self.change.insert = Some(Insert::Holding);
                Entered::Holds
            }
            (false, Entry::Try, _) => Entered::Known(Standing::Gone),
            (false, Entry::Queue, last) => {
                let look_again_in = last.map_or(Duration::ZERO, Row::left);
                self.change.insert = Some(Insert::Waiting);
                Entered::Waits {
                    ahead: self.live.len(),
                    look_again_in,
                }
            }
        };
        (self.promoted(Some(claim.id)), entered)
    }

    /// The claim's lease begins anew, if it is in the list.
    pub(crate) fn renew(mut self, claim: &Claim) -> (Change, Standing) {
        let Some(place) = self.place_of(claim.id) else {
            return (self.promoted(None), Standing::Gone);
        };
        self.live[place].left_us = micros(claim.lease);
        self.change.renew = Some(self.live[place].order);
        self.change
            .restart
            .retain(|order| *order != self.live[place].order);
        let standing = self.standing(place);
        (self.promoted(Some(claim.id)), standing)
    }

    /// The claim is shared from now on, in its place.
    pub(crate) fn downgrade(mut self, claim: &Claim) -> Result<(Change, Standing), Error> {
        if let Some(place) = self.place_of(claim.id) {
            let row = &mut self.live[place];
            match row.mode {
                Mode::Exclusive | Mode::Shared => row.mode = Mode::Shared,
                // It would stand in the way of the permits beside it.
                mode => {
                    return Err(Error::invalid(format!(
                        "a claim of mode {mode} cannot be downgraded"
                    )));
                }
            }
            self.change.share = Some(row.order);
        }
        Ok(self.renew(claim))
    }

    /// The claim leaves.
    pub(crate) fn release(mut self, id: ClaimId) -> (Change, Released) {
        let Some(place) = self.place_of(id) else {
            return (self.promoted(None), Released::Gone);
        };
        let row = self.live.remove(place);
        self.strike(row.order);
        (self.promoted(None), Released::Freed)
    }

    /// An operator breaks the claim with this number; its keeper is told to ask.
    pub(crate) fn evict(mut self, order: u64) -> (Change, Released) {
        let Some(place) = self.live.iter().position(|row| row.order == order) else {
            return (self.promoted(None), Released::Gone);
        };
        let row = self.live.remove(place);
        self.strike(order);
        let mut change = self.promoted(None);
        change.rings.push(Ring {
            keeper: row.keeper,
            id: row.id,
            holds: None,
        });
        (change, Released::Freed)
    }

    /// Only the dead leave.
    pub(crate) fn purge(self) -> Change {
        self.promoted(None)
    }

    fn place_of(&self, id: ClaimId) -> Option<usize> {
        self.live.iter().position(|row| row.id == id)
    }

    fn strike(&mut self, order: u64) {
        self.change.delete.push(order);
        self.change.restart.retain(|other| *other != order);
    }

    fn standing(&self, place: usize) -> Standing {
        let row = &self.live[place];
        if place < self.holders() {
            return Standing::Holds {
                order: row.order,
                lease_left: row.left(),
            };
        }
        let before = place.checked_sub(1).map(|before| &self.live[before]);
        Standing::Waits {
            ahead: place,
            look_again_in: before.map_or(Duration::ZERO, Row::left),
        }
    }

    fn holders(&self) -> usize {
        rule::holders(self.live.iter().map(|row| row.mode))
    }

    /// The finished change: whoever holds now and did not before is marked, and told unless it is the asker.
    fn promoted(self, asker: Option<ClaimId>) -> Change {
        let holders = self.holders();
        let mut change = self.change;
        for row in self.live.into_iter().take(holders) {
            if row.granted {
                continue;
            }
            change.grant.push(row.order);
            if Some(row.id) != asker {
                change.rings.push(Ring {
                    keeper: row.keeper,
                    id: row.id,
                    holds: Some(row.order),
                });
            }
        }
        change
    }
}

impl Row {
    pub(crate) fn left(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.left_us).unwrap_or_default())
    }
}

/// In microseconds, as the tables count.
pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
