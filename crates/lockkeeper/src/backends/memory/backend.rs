//! The verbs on a list in memory: purge the dead, apply, ring whom the rule promotes.

use std::time::Duration;

use async_trait::async_trait;

use super::{Listed, Lists, Memory, guarantees};
use crate::backend::{
    Backend, Bell, ClaimView, Entry, LockView, Query, Released, Standing, Wake, Wakes,
};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::Moment;
use crate::{Mode, Name, Token, rule};

/// How many broken claims are remembered.
const BROKEN_KEPT: usize = 1000;

#[derive(Debug)]
pub(super) struct MemoryBackend {
    memory: Memory,
    bell: Bell,
    guarantees: Guarantees,
}

impl MemoryBackend {
    pub(super) fn new(memory: Memory) -> Self {
        Self {
            memory,
            bell: Bell::default(),
            guarantees: guarantees(),
        }
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        let now = self.memory.clock.now();
        let mut lists = self.memory.lists();
        lists.purge(&claim.name, now);
        if let standing @ (Standing::Holds { .. } | Standing::Waits { .. }) =
            lists.renew(claim, now)
        {
            return Ok(standing);
        }
        let ahead = lists.names.get(&claim.name).map_or(&[][..], Vec::as_slice);
        let modes = ahead.iter().map(Listed::mode).chain([claim.mode]);
        if entry == Entry::Try && rule::holders(modes) <= ahead.len() {
            return Ok(Standing::Gone);
        }
        lists.last_order += 1;
        let listed = Listed {
            claim: claim.clone(),
            order: lists.last_order,
            since: now,
            ends: now + claim.lease,
            bell: self.bell.clone(),
        };
        lists
            .names
            .entry(claim.name.clone())
            .or_default()
            .push(listed);
        Ok(lists.standing(&claim.name, claim.id, now))
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        let now = self.memory.clock.now();
        let mut lists = self.memory.lists();
        let renew = |claim: &Claim| {
            lists.purge(&claim.name, now);
            lists.renew(claim, now)
        };
        Ok(claims.iter().map(renew).collect())
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        let now = self.memory.clock.now();
        let mut lists = self.memory.lists();
        lists.purge(&claim.name, now);
        let list = lists.names.entry(claim.name.clone()).or_default();
        let held_before = rule::holders(list.iter().map(Listed::mode));
        if let Some(listed) = list.iter_mut().find(|listed| listed.claim.id == claim.id) {
            match listed.claim.mode {
                Mode::Exclusive | Mode::Shared => listed.claim.mode = Mode::Shared,
                // It would stand in the way of the permits beside it.
                mode => {
                    return Err(Error::invalid(format!(
                        "a claim of mode {mode} cannot be downgraded"
                    )));
                }
            }
            let hold_now = rule::holders(list.iter().map(Listed::mode));
            for promoted in &list[held_before..hold_now] {
                promoted.bell.ring(Wake::Look(promoted.claim.id));
            }
        }
        Ok(lists.renew(claim, now))
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let now = self.memory.clock.now();
        let mut lists = self.memory.lists();
        lists.purge(&claim.name, now);
        Ok(lists.take_out(&claim.name, |listed| listed.claim.id == claim.id))
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let now = self.memory.clock.now();
        let mut lists = self.memory.lists();
        let mut names: Vec<Name> = match query {
            Query::One(name) => vec![name.clone()],
            Query::All => lists.names.keys().cloned().collect(),
        };
        names.sort();
        names.iter().for_each(|name| lists.purge(name, now));
        names
            .into_iter()
            .filter_map(|name| lists.view(name, now))
            .collect()
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let now = self.memory.clock.now();
        let mut lists = self.memory.lists();
        lists.purge(name, now);
        let told = lists.take_out(name, |listed| listed.order == order);
        if told == Released::Freed {
            lists
                .broken
                .push_front(format!("{name} order {order}: {why}"));
            lists.broken.truncate(BROKEN_KEPT);
        }
        Ok(told)
    }

    fn wakes(&self) -> Wakes {
        self.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.guarantees
    }

    fn place(&self) -> String {
        "memory:".into()
    }
}

impl Lists {
    /// Takes out what has expired, and rings whom that promotes.
    fn purge(&mut self, name: &Name, now: Moment) {
        self.take_out(name, |listed| listed.ends <= now);
    }

    fn take_out(&mut self, name: &Name, leaves: impl Fn(&Listed) -> bool) -> Released {
        let Some(list) = self.names.get_mut(name) else {
            return Released::Gone;
        };
        let before = list.len();
        for promoted in rule::promoted(list, Listed::mode, &leaves) {
            promoted.bell.ring(Wake::Look(promoted.claim.id));
        }
        list.retain(|listed| !leaves(listed));
        let after = list.len();
        if after == 0 {
            self.names.remove(name);
        }
        if after < before {
            Released::Freed
        } else {
            Released::Gone
        }
    }

    fn renew(&mut self, claim: &Claim, now: Moment) -> Standing {
        let listed = self.names.get_mut(&claim.name);
        let listed = listed.and_then(|list| list.iter_mut().find(|l| l.claim.id == claim.id));
        if let Some(listed) = listed {
            listed.claim.lease = claim.lease;
            listed.ends = now + claim.lease;
        }
        self.standing(&claim.name, claim.id, now)
    }

    fn standing(&self, name: &Name, id: ClaimId, now: Moment) -> Standing {
        let list = self.names.get(name).map_or(&[][..], Vec::as_slice);
        let Some(place) = list.iter().position(|listed| listed.claim.id == id) else {
            return Standing::Gone;
        };
        let holders = rule::holders(list.iter().map(Listed::mode));
        if place < holders {
            let listed = &list[place];
            return Standing::Holds {
                order: listed.order,
                lease_left: listed.ends - now,
            };
        }
        let ends = list[..place].iter().map(|listed| listed.ends - now).min();
        Standing::Waits {
            ahead: place,
            look_again_in: ends.unwrap_or(Duration::ZERO),
        }
    }

    fn view(&self, name: Name, now: Moment) -> Option<Result<LockView, Error>> {
        let list = self.names.get(&name)?;
        let holders = rule::holders(list.iter().map(Listed::mode));
        let view = |listed: &Listed| {
            Ok(ClaimView {
                token: Token::new(listed.order, 0).map_err(Error::invalid)?,
                mode: listed.claim.mode,
                party: (*listed.claim.party).clone(),
                since: now - listed.since,
                lease_left: listed.ends - now,
            })
        };
        let views: Result<Vec<_>, Error> = list.iter().map(view).collect();
        Some(views.map(|mut holds| {
            let waiters = holds.split_off(holders);
            LockView {
                name,
                holders: holds,
                waiters,
            }
        }))
    }
}
