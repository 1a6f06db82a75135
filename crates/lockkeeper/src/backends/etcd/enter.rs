//! Entering: one transaction puts the claim into the list and tells where it stands. A claim that may not wait
//! is put there only if the list is still such that it holds. So is one that probably need not wait, at first: that
//! is less to ask and less to tell.

use std::sync::Arc;

use super::claims::{Entry, Judged};
use super::faults::{Fault, unreachable};
use super::leases::{Live, a_moment_before};
use super::list::{self, List};
use super::proto::{Compare, Operation, Put, Range, Request, Txn, TxnAnswer};
use super::shared::Shared;
use super::watch::Target;
use crate::Mode;
use crate::backend::{Entry as May, Standing};
use crate::claim::Claim;
use crate::error::Error;

/// How often a question is asked anew because something changed in between.
const TRIES: usize = 20;

impl Shared {
    pub(super) async fn enter(
        self: &Arc<Self>,
        claim: &Claim,
        may: May,
    ) -> Result<Standing, Error> {
        self.refuse(claim)?;
        let mut entering = Entering {
            shared: self,
            claim,
            may,
            room_at: None,
            crowded: self.claims().is_crowded(&claim.name),
        };
        for _ in 0..TRIES {
            if let Some(standing) = entering.once().await? {
                return Ok(standing);
            }
        }
        Err(unreachable("entering: the list changed all the time"))
    }

    /// A lease that the server would stretch or not keep is not asked for.
    fn refuse(&self, claim: &Claim) -> Result<(), Error> {
        let promise = &self.guarantees;
        if (promise.shortest_lease..=promise.longest_lease).contains(&claim.lease) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a lease of {:?} is not possible on this etcd: choose {:?} to {:?}",
            claim.lease, promise.shortest_lease, promise.longest_lease
        )))
    }
}

/// One call.
struct Entering<'a> {
    shared: &'a Arc<Shared>,
    claim: &'a Claim,
    may: May,
    /// At this revision there was room for a claim that may not wait.
    room_at: Option<i64>,
    /// Others are in the list, or were when it was last looked at.
    crowded: bool,
}

/// How a claim asks to be put into the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// If nobody is in it. Whoever is refused asks again, in another way.
    Alone,
    /// Behind whoever is in it.
    Behind,
    /// If it holds, so far as is known since this revision.
    Holding(Option<i64>),
}

impl Entering<'_> {
    /// Asks once; `None` if it has to be asked anew.
    async fn once(&mut self) -> Result<Option<Standing>, Error> {
        let (shared, claim) = (self.shared, self.claim);
        let called = shared.clock.now();
        let live = shared.leases.ready(claim.lease).await?;
        let ends = called + claim.lease;
        // Whoever comes back after its end is somebody new.
        if shared
            .claims()
            .get(claim.id)
            .is_some_and(|entry| entry.ends() <= called)
        {
            shared.doom(claim.id);
        }
        let since = shared.clock.wall().as_millis() as u64;
        let entry = shared
            .claims()
            .admit(&shared.keys, claim, (live.id, ends, since))?;
        shared.look_sooner_than(ends);
        let way = self.way(&entry);
        let txn = self.txn(&entry, &live, way);
        let limit = shared.patience(claim.lease);
        let a_moment_ago = a_moment_before(called, claim.lease);
        let (told, kept) = tokio::join!(
            shared.client.txn(&txn, limit),
            shared.leases.kept(claim.lease, live.id, a_moment_ago)
        );
        let told = match told {
            Ok(told) => told,
            Err(fault) => return self.refused(&entry, &live, fault),
        };
        if !told.repeated {
            self.certain(&entry);
        }
        if way == Way::Alone && !told.answer.succeeded {
            self.crowded = true;
            return Ok(None);
        }
        let live = match kept? {
            Some(live) if live.term >= shared.client.term() => live,
            // It is gone, or was kept alive by a leader that has been replaced.
            _ => return Ok(None),
        };
        let standing = if told.answer.succeeded {
            self.entered(&entry, &live, told.answer)
        } else {
            self.not_entered(&entry, &live, told.answer).await?
        };
        if standing.is_some() {
            shared.lives_until(claim, (called + claim.lease).min(live.ends()));
        }
        Ok(match standing {
            Some(Judged::Gone | Judged::Old) => Some(Standing::Gone),
            Some(_) => Some(shared.standing(claim, called)),
            None => None,
        })
    }

    fn refused(
        &self,
        before: &Entry,
        live: &Live,
        fault: Fault,
    ) -> Result<Option<Standing>, Error> {
        match fault {
            Fault::LeaseGone => {
                self.shared.leases.forget(live.id);
                self.certain(before);
                Ok(None)
            }
            fault => {
                // A full server may have carried it out all the same. What was there before stays.
                if matches!(fault, Fault::Full) && before.order.is_none() {
                    self.shared.doom(self.claim.id);
                }
                Err(fault.into())
            }
        }
    }

    /// The question was answered, and asked once only: nothing of it is under way any more.
    fn certain(&self, before: &Entry) {
        let under_way = before.under_way.clone();
        let clear = |entry: &mut Entry| entry.under_way = under_way;
        self.shared.claims().change(self.claim.id, clear);
    }

    /// A claim that may be in the list already is not alone there.
    fn way(&self, before: &Entry) -> Way {
        let is_new = before.order.is_none() && before.under_way.is_empty();
        match self.may {
            May::Try => Way::Holding(self.room_at),
            May::Queue if is_new && !self.crowded => Way::Alone,
            May::Queue => Way::Behind,
        }
    }

    fn txn(&self, entry: &Entry, live: &Live, way: Way) -> Txn {
        let session = self.shared.keys.session(live.id);
        let directory = &entry.directory;
        let put = Request::Put(Put {
            key: entry.key.clone(),
            value: entry.note.written(),
            lease: live.id,
            ..Put::default()
        });
        let list = |range: Range| Operation::from(Request::Range(range));
        let mut compare = vec![Compare::changed_at(&session, live.epoch)];
        let mut success = vec![put.into()];
        match way {
            Way::Behind => {
                compare.push(Compare::created_at(&entry.key, 0));
                success.push(list(match entry.mode() {
                    Mode::Exclusive => list::last_two(directory),
                    _ => list::whole(directory),
                }));
            }
            Way::Alone | Way::Holding(None) => {
                compare.push(Compare::empty(&directory.start, &directory.end));
            }
            Way::Holding(Some(revision)) => {
                // Who left since then is no hindrance.
                let same = Compare::unchanged_since(&directory.start, &directory.end, revision);
                compare.push(same);
            }
        }
        let session = Range {
            key: session,
            ..Range::default()
        };
        let failure = match way {
            Way::Alone => Vec::new(),
            _ => vec![list(list::whole(directory)), list(session)],
        };
        Txn {
            compare,
            success,
            failure,
        }
    }

    fn entered(&self, entry: &Entry, live: &Live, answer: TxnAnswer) -> Option<Judged> {
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        self.shared.claims().change(self.claim.id, |entry| {
            entry.bind_to(live.id, self.claim.lease)
        });
        let list = match answer.ranges().next() {
            Some(range) => List::end_of(revision, range.kvs, range.count),
            // It was put there because it holds: nobody in its way is ahead of it.
            None => List::alone(revision, &entry.key, &entry.note, live.id),
        };
        if self.may == May::Queue {
            self.shared
                .claims()
                .crowd(&self.claim.name, !list.is_alone());
        }
        Some(self.shared.judge(self.claim.id, &list))
    }

    async fn not_entered(
        &mut self,
        entry: &Entry,
        live: &Live,
        answer: TxnAnswer,
    ) -> Result<Option<Judged>, Error> {
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        let mut ranges = answer.ranges();
        let list = List::new(revision, ranges.next().unwrap_or_default().kvs);
        let session = ranges.next().unwrap_or_default().kvs;
        if let Some(own) = list.find(&entry.key) {
            // It is there already. Where its lease has another length now, it is bound to that one.
            if own.lease != live.id && !self.shared.bind(self.claim, own.order, live).await? {
                return Ok(None);
            }
            let judged = self.shared.judge(self.claim.id, &list);
            // The list was read before the binding.
            let bound = |entry: &mut Entry| entry.bind_to(live.id, self.claim.lease);
            self.shared.claims().change(self.claim.id, bound);
            return Ok(Some(judged));
        }
        let epoch = session.first().map_or(0, |kv| kv.mod_revision);
        if epoch == 0 {
            self.shared.leases.forget(live.id);
            return Ok(None);
        }
        if epoch != live.epoch {
            self.shared.leases.moved(live.id, epoch);
            return Ok(None);
        }
        if self.may == May::Queue {
            return Ok(None);
        }
        if list.has_room_for(entry.mode()) {
            self.room_at = Some(revision);
            return Ok(None);
        }
        self.leave_nothing();
        Ok(Some(Judged::Gone))
    }

    /// A try in vain. What is still under way of it is called off.
    fn leave_nothing(&self) {
        let mut claims = self.shared.claims();
        let uncertain = claims
            .get(self.claim.id)
            .is_some_and(|entry| !entry.under_way.is_empty());
        if uncertain {
            drop(claims);
            self.shared.doom(self.claim.id);
        } else {
            claims.remove(self.claim.id);
            drop(claims);
            self.shared.watcher.forget(Target::Claim(self.claim.id));
        }
    }
}
