//! Entering and leaving: making a claim's node, finding it again after a lost reply, deleting it.

use std::sync::Arc;

use super::BACKEND;
use super::claims::{Begun, Key, Node, Place, key};
use super::client::{Session, fault};
use super::holding;
use super::line;
use super::looking::{Judged, contenders};
use super::names::{Contender, is_of, prefix};
use super::shared::Shared;
use super::waiting;
use super::wire as zk;
use crate::backend::{Entry, Released, Standing};
use crate::claim::Claim;
use crate::error::Error;
use crate::rule::Verdict;
use crate::{Mode, Name, Token};

/// A name's node may vanish between its making and its use, since the servers remove empty ones.
const ATTEMPTS: usize = 5;
/// A longer line does not fit into what a server may answer.
const LONGEST_LINE: usize = 10_000;
/// What a sequence number is taken for that a claim which is only thought of would get.
const IMAGINED: &str = "";

/// A claim's node that was just made.
enum Made {
    /// It is the only one.
    Alone,
    /// It is among these.
    Among(Node, Vec<Contender>),
}

impl Shared {
    pub(super) async fn enter(
        self: &Arc<Self>,
        claim: &Claim,
        entry: Entry,
    ) -> Result<Standing, Error> {
        self.check_lease(claim)?;
        let (session, begun) = self.begin(claim).await?;
        if let Begun::Known(place) = begun {
            match self.enter_again(claim, &place).await? {
                Standing::Gone => {}
                // Its node was made by a question that was never answered; whoever tries does not wait.
                Standing::Waits { .. } if entry == Entry::Try => {
                    self.take_out(&key(claim)).await?;
                    return Ok(Standing::Gone);
                }
                standing => return Ok(standing),
            }
            // If the session ended meanwhile, `make_node` finds no entry and fails.
            self.claims.begin(claim, &session, self.clock.now());
        }
        // Whoever tries again and again to get a busy name writes nothing for it.
        if entry == Entry::Try
            && self.familiar.was_busy(&claim.name)
            && self.is_taken(&session, claim).await?
        {
            self.claims.forget(&key(claim));
            return Ok(Standing::Gone);
        }
        let judged = match self.make_node(&session, claim).await? {
            Made::Alone => Judged::Holds,
            Made::Among(node, listed) => self.judge(&key(claim), (&session, &node), listed).await?,
        };
        if entry == Entry::Try {
            self.familiar
                .note_busy(&claim.name, judged != Judged::Holds);
        }
        match judged {
            Judged::Waits(_) if entry == Entry::Try => {
                self.take_out(&key(claim)).await?;
                Ok(Standing::Gone)
            }
            Judged::Waits(ahead) if ahead > LONGEST_LINE => {
                self.take_out(&key(claim)).await?;
                Err(Error::Refused {
                    backend: BACKEND,
                    why: format!(
                        "{ahead} claims wait for this name already, and a server lists no more"
                    ),
                })
            }
            judged => Ok(self.stands(claim, judged, &session)),
        }
    }

    /// Records the claim under a session that lives. A session that ends between the two steps is followed by the next.
    async fn begin(&self, claim: &Claim) -> Result<(Arc<Session>, Begun), Error> {
        loop {
            let session = self.session().await?;
            match self.claims.begin(claim, &session, self.clock.now()) {
                Begun::Ended => {}
                begun => return Ok((session, begun)),
            }
        }
    }

    /// The standing of a claim that has just been looked at; a task listens for what may change it.
    pub(super) fn stands(
        self: &Arc<Self>,
        claim: &Claim,
        judged: Judged,
        session: &Session,
    ) -> Standing {
        match (judged, self.claims.place(&key(claim))) {
            (Judged::Holds, Some(place)) => {
                holding::mind(self, &key(claim));
                Standing::Holds {
                    order: place.node.map_or(0, |node| node.order),
                    lease_left: claim.lease.min(session.silence),
                }
            }
            (Judged::Waits(ahead), Some(_)) => {
                waiting::listen(self, key(claim));
                self.waits(ahead, session)
            }
            _ => Standing::Gone,
        }
    }

    pub(super) fn waits(&self, ahead: usize, session: &Session) -> Standing {
        Standing::Waits {
            ahead,
            // A push tells; asking again keeps the session's proof of life young.
            look_again_in: session.silence / 3,
        }
    }

    /// A claim that entered before keeps its place, if it has one.
    async fn enter_again(
        self: &Arc<Self>,
        claim: &Claim,
        place: &Place,
    ) -> Result<Standing, Error> {
        if place.over {
            self.take_out(&key(claim)).await?;
            return Ok(Standing::Gone);
        }
        if place.node.is_none() && !self.find(claim, &place.session).await? {
            return Ok(Standing::Gone);
        }
        let standings = self.renew(std::slice::from_ref(claim)).await?;
        let standing = standings.into_iter().next().unwrap_or(Standing::Gone);
        if standing == Standing::Gone {
            self.claims.forget(&key(claim));
        }
        Ok(standing)
    }

    /// Looks for the node of a claim whose making was never answered. One of another session is dying
    /// with it, and must not be taken over (bug 59).
    pub(super) async fn find(&self, claim: &Claim, session: &Session) -> Result<bool, Error> {
        let mut found = false;
        for child in self.children(session, &claim.name).await? {
            if !is_of(&child, &claim.id) {
                continue;
            }
            let path = self.path(&claim.name, &child);
            let stat = session.client.stat(&path).await;
            let stat = stat.map_err(|error| fault("finding the own claim", error))?;
            let Some(stat) = stat else { continue };
            if stat.ephemeral_owner == session.id() && !found {
                let order = order_of(&stat)?;
                self.claims.settle(&key(claim), Node { child, order });
                found = true;
            } else {
                let deleted = session.client.delete(&path).await;
                deleted
                    .or_else(no_node)
                    .map_err(|error| fault("deleting a dead claim", error))?;
            }
        }
        Ok(found)
    }

    /// Whether somebody stands in the way of the claim, for all that can be seen without entering.
    async fn is_taken(&self, session: &Session, claim: &Claim) -> Result<bool, Error> {
        let mut all = self.list(session, &claim.name).await?;
        let last = all
            .iter()
            .map(|contender| contender.number)
            .max()
            .unwrap_or(0);
        all.push(Contender {
            child: IMAGINED.into(),
            number: last.wrapping_add(1),
            mode: claim.mode,
            version: 0,
        });
        Ok(match line::sort(all, IMAGINED) {
            // An exclusive claim may have become shared, which only entering finds out.
            line::Sorted::Behind(line) if claim.mode != Mode::Shared => {
                line.verdict(claim.mode) == Verdict::Waits
            }
            _ => false,
        })
    }

    /// Makes the claim's node and lists its siblings: both are sent at once, and the servers answer a
    /// session in order. Where we were alone just now, the number of the new node tells whether we still
    /// are, and nothing has to be listed: see [`super::familiar`].
    async fn make_node(&self, session: &Session, claim: &Claim) -> Result<Made, Error> {
        let Some(place) = self.claims.place(&key(claim)) else {
            return Err(fault("entering", zk::Error::SessionExpired));
        };
        let parent = self.parent(&claim.name);
        let prefix = prefix(self.config.style, &claim.id, claim.mode);
        let path = format!("{parent}/{prefix}");
        let note = place.note.text();
        let mut left = self.familiar.take_left(&claim.name);
        for _ in 0..ATTEMPTS {
            let kind = zk::Kind::EphemeralSequential;
            let made = session
                .client
                .create(&path, note.as_bytes(), kind, self.access());
            let known = left.as_ref().is_some_and(|left| left.parent.is_some());
            // Whoever comes again will come once more.
            let heard = (left.is_some() && !known).then(|| session.client.stat_and_watch(&parent));
            let listed = (!known).then(|| session.client.children(&parent));
            let (made, stat) = match made.await {
                Ok(made) => made,
                Err(zk::Error::NoNode) => {
                    left = None;
                    self.make_parent(session, &claim.name).await?;
                    continue;
                }
                Err(error) => return Err(self.not_made(claim, error)),
            };
            let number = made.strip_prefix(&path).unwrap_or_default();
            let node = Node {
                child: format!("{prefix}{number}"),
                order: order_of(&stat)?,
            };
            self.claims.settle(&key(claim), node.clone());
            let number = number.parse().unwrap_or(0);
            if left.as_ref().is_some_and(|left| left.proves_alone(number)) {
                self.claims.holds(&key(claim), Some(number));
                return Ok(Made::Alone);
            }
            if let Some(heard) = heard
                && let Ok(Some((_, watcher))) = heard.await
            {
                self.familiar.note_parent(&claim.name, watcher);
            }
            let children = match listed {
                Some(listed) => listed.await,
                None => session.client.children(&parent).await,
            };
            let children = children.map_err(|error| fault("listing the claims", error))?;
            return Ok(Made::Among(node, contenders(&children)));
        }
        Err(fault(
            "entering, as the name's node vanished each time",
            zk::Error::NoNode,
        ))
    }

    fn not_made(&self, claim: &Claim, error: zk::Error) -> Error {
        let error = fault("entering", error);
        if !error.is_unknown() {
            self.claims.forget(&key(claim));
        }
        error
    }

    /// The name's node is a container: the servers remove it some time after it is empty.
    async fn make_parent(&self, session: &Session, name: &Name) -> Result<(), Error> {
        let parent = self.parent(name);
        let during = "making the name's node";
        let make = || {
            let kind = zk::Kind::Container;
            session.client.create(&parent, &[], kind, self.access())
        };
        match make().await {
            Ok(_) | Err(zk::Error::NodeExists) => return Ok(()),
            Err(zk::Error::NoNode) => {}
            Err(error) => return Err(fault(during, error)),
        }
        let path = session.client.make_path(&self.config.chroot, self.access());
        path.await
            .map_err(|error| fault("making the path of the locks", error))?;
        match make().await {
            Ok(_) | Err(zk::Error::NodeExists) => Ok(()),
            Err(error) => Err(fault(during, error)),
        }
    }

    pub(super) async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let key = key(claim);
        if self.claims.knows(&key) {
            return self.take_out(&key).await;
        }
        // Of an earlier session, perhaps, which may outlive what was believed of it.
        let session = self.session().await?;
        self.delete_of(&session, &key).await
    }

    /// Takes the claim out, whatever its state. Only once that is certain is it forgotten (bug 18).
    pub(super) async fn take_out(&self, key: &Key) -> Result<Released, Error> {
        let Some(place) = self.claims.leaves(key) else {
            return Ok(Released::Gone);
        };
        let released = match &place.node {
            Some(node) => {
                let path = self.path(&key.0, &node.child);
                match place.session.client.delete(&path).await {
                    Ok(()) => {
                        if let Some(number) = place.alone {
                            self.familiar.note_left(&key.0, number);
                        }
                        Released::Freed
                    }
                    Err(zk::Error::NoNode) => Released::Gone,
                    Err(error) => return Err(fault("releasing", error)),
                }
            }
            // A making that was never answered is ahead of this in the session's order.
            None => self.delete_of(&place.session, key).await?,
        };
        self.claims.forget(key);
        // A lease that had ended was over before somebody got round to deleting the node.
        Ok(if place.over { Released::Gone } else { released })
    }

    /// Deletes whatever was made for this claim, by this session or another.
    async fn delete_of(&self, session: &Session, (name, id): &Key) -> Result<Released, Error> {
        let mut released = Released::Gone;
        for child in self.children(session, name).await? {
            if !is_of(&child, id) {
                continue;
            }
            match session.client.delete(&self.path(name, &child)).await {
                Ok(()) => released = Released::Freed,
                Err(zk::Error::NoNode) => {}
                Err(error) => return Err(fault("releasing", error)),
            }
        }
        Ok(released)
    }
}

/// A node that is gone already is as good as deleted.
fn no_node(error: zk::Error) -> Result<(), zk::Error> {
    match error {
        zk::Error::NoNode => Ok(()),
        error => Err(error),
    }
}

/// The transaction that made a node: epoch and counter, so it rises over changes of leader too. 2^23
/// epochs fit a token; an ensemble that elects a leader each minute has them after 16 years.
pub(super) fn order_of(stat: &zk::Stat) -> Result<u64, Error> {
    let order = u64::try_from(stat.czxid).unwrap_or(0);
    if (1..=Token::MAX_ORDER).contains(&order) {
        return Ok(order);
    }
    Err(Error::Refused {
        backend: BACKEND,
        why: format!(
            "transaction {} of the servers does not fit a fencing token: start a new ensemble",
            stat.czxid
        ),
    })
}
