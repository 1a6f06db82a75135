//! Renewing: one round trip for any number of claims, which proves that the session lives. That nothing has happened
//! to their nodes is known by their watches; about claims without watches the servers are asked.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::claims::{Place, key};
use super::client::{Session, Voters, fault};
use super::looking::Judged;
use super::shared::Shared;
use super::waiting;
use super::wire as zk;
use crate::Mode;
use crate::backend::Standing;
use crate::claim::Claim;
use crate::error::Error;
use crate::lifecycle::deadline::Moment;

/// Up to so many claims are asked for one by one, more of them by the list of all the session's nodes.
const FEW: usize = 8;
/// A keeper with more claims than this renews them in step.
const MANY: usize = 16;

/// All nodes of the session, at one moment.
#[derive(Debug)]
pub(super) struct Roll {
    called: Moment,
    session: i64,
    paths: Arc<HashSet<String>>,
}

/// When the latest sign of life of a session was asked for.
#[derive(Debug)]
pub(super) struct Word {
    sent: Moment,
    session: i64,
}

impl Shared {
    pub(super) async fn renew(self: &Arc<Self>, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        claims
            .iter()
            .try_for_each(|claim| self.check_lease(claim))?;
        let asked = self.clock.now();
        let mut places = Vec::with_capacity(claims.len());
        for claim in claims {
            places.push(self.settled(claim, asked).await?);
        }
        let known = |place: &&Option<Place>| place.as_ref().is_some_and(Place::is_as_it_was);
        let Some(session) = places.iter().flatten().map(|it| it.session.clone()).next() else {
            return Ok(vec![Standing::Gone; claims.len()]);
        };
        let told = match places.iter().any(|place| known(&place)) {
            true => self.sign_of_life(&session, asked, &places).await?,
            false => asked,
        };
        // Whatever happened before that sign is in the book by now.
        let mut standings = vec![Standing::Gone; claims.len()];
        let mut unheard = Vec::new();
        for (at, claim) in claims.iter().enumerate() {
            let Some(place) = places[at].as_ref().and(self.claims.place(&key(claim))) else {
                continue;
            };
            if place.over {
                continue;
            }
            match known(&&Some(place.clone())) && Arc::ptr_eq(&place.session, &session) {
                true => standings[at] = self.unchanged(claim, &place, (asked, told)),
                false => unheard.push((at, claim, place)),
            }
        }
        self.ask_about(&unheard, asked, &mut standings).await?;
        Ok(standings)
    }

    /// The standing of a claim for which nothing has changed.
    fn unchanged(&self, claim: &Claim, place: &Place, when: (Moment, Moment)) -> Standing {
        match &place.line {
            None => Standing::Holds {
                order: place.node.as_ref().map_or(0, |node| node.order),
                lease_left: self.lease_left(claim, &place.session, when),
            },
            Some(line) => self.waits(line.len(), &place.session),
        }
    }

    /// Asks the servers about those claims for which nobody listens yet, or whose news is to be looked at.
    async fn ask_about(
        self: &Arc<Self>,
        unheard: &[(usize, &Claim, Place)],
        asked: Moment,
        standings: &mut [Standing],
    ) -> Result<(), Error> {
        let Some((_, _, first)) = unheard.first() else {
            return Ok(());
        };
        let listed: Vec<_> = unheard
            .iter()
            .map(|(_, claim, place)| (*claim, place))
            .collect();
        let (sent, alive, unchanged) = self.ask(&first.session, &listed, asked).await?;
        let seen = alive.into_iter().zip(unchanged);
        for ((at, claim, place), seen) in unheard.iter().zip(seen) {
            standings[*at] = self.standing(claim, place, seen, (asked, sent)).await?;
        }
        Ok(())
    }

    /// Waits for a sign of life that was asked for now, and tells when that was: of the one server, or of the leader. All
    /// news from before it have come before it. Those who ask at the same time share it; of many holds, those who ask at
    /// about the same time.
    async fn sign_of_life(
        &self,
        session: &Session,
        asked: Moment,
        places: &[Option<Place>],
    ) -> Result<Moment, Error> {
        let mut word = self.word.lock().await;
        let all_hold = || places.iter().flatten().all(|place| place.line.is_none());
        let slack = match places.len() > FEW && all_hold() {
            true => a_moment(session),
            false => Duration::ZERO,
        };
        if let Some(word) = &*word
            && word.session == session.id()
            && word.sent + slack >= asked
        {
            return Ok(word.sent);
        }
        let during = "renewing leases";
        let sent = self.clock.now();
        let told = match session.voters {
            Voters::One => session.client.ping().await,
            _ => session
                .client
                .sync(&self.config.chroot)
                .await
                .map(|()| sent),
        };
        let sent = told.map_err(|error| fault(during, error))?;
        *word = Some(Word {
            sent,
            session: session.id(),
        });
        Ok(sent)
    }

    /// The place of a claim that is in the list, as far as this keeper knows; its lease starts anew.
    async fn settled(&self, claim: &Claim, now: Moment) -> Result<Option<Place>, Error> {
        let Some(place) = self.claims.renew(claim, now).filter(|place| !place.over) else {
            return Ok(None);
        };
        if place.node.is_some() {
            return Ok(Some(place));
        }
        match self.find(claim, &place.session).await? {
            true => Ok(self.claims.place(&key(claim))),
            false => Ok(None),
        }
    }

    /// Which of the claims' nodes are there, and for whom nothing has changed ahead. Everything is sent
    /// at once. Without the leader's word, which `sync` is, a server that lost the leader could answer
    /// for a session that is over. When the question was sent is told too.
    async fn ask(
        &self,
        session: &Session,
        listed: &[(&Claim, &Place)],
        asked: Moment,
    ) -> Result<(Moment, Vec<bool>, Vec<bool>), Error> {
        let during = "renewing leases";
        let own: Vec<String> = listed
            .iter()
            .map(|(claim, place)| {
                let child = place.node.as_ref().map_or("", |node| node.child.as_str());
                self.path(&claim.name, child)
            })
            .collect();
        let few = own.len() <= FEW;
        let synced = few.then(|| session.client.sync(&self.config.chroot));
        let each = own.iter().filter(|_| few);
        let each = join_all(each.map(|path| session.client.stat(path)));
        let ahead = join_all(listed.iter().map(|(claim, place)| {
            let watched = place.watched().into_iter();
            let asks = watched.map(|contender| {
                let stat = session
                    .client
                    .stat(&self.path(&claim.name, &contender.child));
                async move {
                    Ok::<_, zk::Error>(
                        stat.await?
                            .is_some_and(|stat| stat.version == contender.version),
                    )
                }
            });
            join_all(asks)
        }));
        let (sent, alive) = match synced {
            Some(synced) => {
                synced.await.map_err(|error| fault(during, error))?;
                let stats: Result<Vec<_>, zk::Error> = each.await.into_iter().collect();
                let stats = stats.map_err(|error| fault(during, error))?;
                (asked, stats.iter().map(Option::is_some).collect())
            }
            None => {
                let (called, all) = self.call_the_roll(session, asked).await?;
                let alive = own.iter().map(|path| all.contains(path));
                (called.min(asked), alive.collect())
            }
        };
        let mut unchanged = Vec::with_capacity(listed.len());
        for answers in ahead.await {
            let answers: Result<Vec<bool>, zk::Error> = answers.into_iter().collect();
            let answers = answers.map_err(|error| fault(during, error))?;
            // Whoever watches nobody has not looked at the line yet.
            unchanged.push(!answers.is_empty() && answers.into_iter().all(|same| same));
        }
        Ok((sent, alive, unchanged))
    }

    /// The list of all nodes of the session, and when it was asked for. Those who ask at about the same time
    /// share it.
    async fn call_the_roll(
        &self,
        session: &Session,
        asked: Moment,
    ) -> Result<(Moment, Arc<HashSet<String>>), Error> {
        let mut roll = self.roll.lock().await;
        if let Some(roll) = &*roll
            && roll.called + a_moment(session) >= asked
            && roll.session == session.id()
        {
            return Ok((roll.called, roll.paths.clone()));
        }
        let during = "renewing leases";
        let called = self.clock.now();
        let synced = session.client.sync(&self.config.chroot);
        let listed = session.client.ephemerals(&self.config.chroot);
        synced.await.map_err(|error| fault(during, error))?;
        let paths = listed.await.map_err(|error| fault(during, error))?;
        let paths = Arc::new(paths.into_iter().collect::<HashSet<String>>());
        *roll = Some(Roll {
            called,
            session: session.id(),
            paths: paths.clone(),
        });
        Ok((called, paths))
    }

    async fn standing(
        self: &Arc<Self>,
        claim: &Claim,
        place: &Place,
        (alive, unchanged): (bool, bool),
        when: (Moment, Moment),
    ) -> Result<Standing, Error> {
        let (Some(node), true) = (&place.node, alive) else {
            self.claims.forget(&key(claim));
            return Ok(Standing::Gone);
        };
        let session = &place.session;
        match &place.line {
            None => Ok(Standing::Holds {
                order: node.order,
                lease_left: self.lease_left(claim, session, when),
            }),
            Some(line) if unchanged && line.is_told_of_all(place.mode()) => {
                Ok(self.waits(line.len(), session))
            }
            Some(_) => {
                let listed = self.list(session, &claim.name).await?;
                let judged = self.judge(&key(claim), (session, node), listed).await?;
                if judged == Judged::Holds {
                    waiting::tell_those_behind(self, key(claim));
                }
                Ok(self.stands(claim, judged, session))
            }
        }
    }

    /// What is left of the lease by what was sent a little before it was asked for.
    fn lease_left(
        &self,
        claim: &Claim,
        session: &Session,
        (asked, sent): (Moment, Moment),
    ) -> Duration {
        let believed = claim.lease.min(session.silence) - (asked - sent);
        if self.claims.len() < MANY {
            return believed;
        }
        in_step(asked, believed)
    }

    pub(super) async fn downgrade(self: &Arc<Self>, claim: &Claim) -> Result<Standing, Error> {
        self.check_lease(claim)?;
        let now = self.clock.now();
        let Some(place) = self.settled(claim, now).await? else {
            return Ok(Standing::Gone);
        };
        let mut note = place.note.clone();
        match note.mode {
            Mode::Shared => {}
            Mode::Exclusive => {
                note.mode = Mode::Shared;
                let child = place.node.as_ref().map_or("", |node| node.child.as_str());
                let path = self.path(&claim.name, child);
                let session = &place.session;
                match session.client.set_data(&path, note.text().as_bytes()).await {
                    Ok(()) => self.claims.becomes_shared(&key(claim)),
                    Err(zk::Error::NoNode) => {
                        self.claims.forget(&key(claim));
                        return Ok(Standing::Gone);
                    }
                    Err(error) => return Err(fault("downgrading", error)),
                }
                // As a reader it may be let in where it had to wait.
                if let (Some(node), Some(_)) = (&place.node, &place.line) {
                    let listed = self.list(session, &claim.name).await?;
                    let judged = self.judge(&key(claim), (session, node), listed).await?;
                    return Ok(self.stands(claim, judged, session));
                }
            }
            // It would stand in the way of the permits beside it.
            mode => {
                return Err(Error::invalid(format_args!(
                    "a claim of mode {mode} cannot be downgraded"
                )));
            }
        }
        let standings = self.renew(std::slice::from_ref(claim)).await?;
        Ok(standings.into_iter().next().unwrap_or(Standing::Gone))
    }
}

/// Of many holds, those who ask within so short a time of each other share an answer. Their leases are counted from the
/// first of them.
fn a_moment(session: &Session) -> Duration {
    session.silence / 64
}

/// A lease that ends so that its renewal, after a third of it, falls on a beat that all claims share.
fn in_step(asked: Moment, believed: Duration) -> Duration {
    let beat = u64::try_from(believed.as_nanos() / 6)
        .unwrap_or(u64::MAX)
        .max(1);
    let due = asked.nanos().saturating_add(2 * beat);
    let on_beat = due - due % beat;
    Duration::from_nanos(3 * (on_beat - asked.nanos())).min(believed)
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: W3
    #[test]
    fn the_renewals_of_many_claims_fall_together() {
        let believed = Duration::from_secs(6);
        let mut dues = HashSet::new();
        for millis in 0..2000 {
            let asked = Moment::from_nanos(millis * 1_000_000 + 1);
            let left = in_step(asked, believed);
            assert!(left > believed / 2 && left <= believed, "{left:?}");
            dues.insert((asked + left / 3).nanos() / 1_000_000);
        }
        assert!(dues.len() <= 3, "{dues:?}");
    }
}
