//! What others see, and what an operator breaks.

use std::time::Duration;

use futures_util::future::join_all;

use super::client::{Session, fault};
use super::entering::order_of;
use super::names::{Contender, name_of};
use super::note::{Note, stranger};
use super::shared::Shared;
use super::wire as zk;
use crate::backend::{ClaimView, LockView, Query, Released};
use crate::claim::Party;
use crate::error::Error;
use crate::{Name, Token, rule};

/// The node that keeps what operators broke; no lock's name becomes this.
const BROKEN: &str = "%broken";
/// So many of the latest breaks are kept.
const BROKEN_KEPT: usize = 100;
/// A record of longer ones would outgrow what a server takes.
const LONGEST_REASON: usize = 500;
/// How often the record is tried for when several operators break at once.
const ATTEMPTS: usize = 20;

/// A claim with what its node says.
struct Seen {
    contender: Contender,
    order: u64,
    note: Option<Note>,
    party: Party,
    made: Duration,
}

impl Shared {
    pub(super) async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        let session = self.session().await?;
        let mut names = match query {
            Query::One(name) => vec![name.clone()],
            Query::All => self.names(&session).await?,
        };
        names.sort();
        let views = names.into_iter().map(|name| self.view(&session, name));
        let mut all = Vec::new();
        for view in join_all(views).await {
            all.extend(view?);
        }
        Ok(all)
    }

    /// All names that have a node, in use or not.
    async fn names(&self, session: &Session) -> Result<Vec<Name>, Error> {
        let chroot = &self.config.chroot;
        let synced = session.client.sync(chroot);
        let listed = session.client.children(chroot);
        synced.await.map_err(|error| fault("catching up", error))?;
        match listed.await {
            Ok(children) => Ok(children.iter().filter_map(|child| name_of(child)).collect()),
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(fault("listing the names", error)),
        }
    }

    async fn view(&self, session: &Session, name: Name) -> Result<Option<LockView>, Error> {
        let seen = self.look(session, &name).await?;
        if seen.is_empty() {
            return Ok(None);
        }
        let held = rule::holders(seen.iter().map(|seen| seen.contender.mode));
        let wall = self.clock.wall();
        let views = seen.into_iter().map(|seen| seen.view(wall));
        let mut holders = views.collect::<Result<Vec<_>, Error>>()?;
        let waiters = holders.split_off(held);
        Ok(Some(LockView {
            name,
            holders,
            waiters,
        }))
    }

    /// The claims of a name in their order, with what their nodes say.
    async fn look(&self, session: &Session, name: &Name) -> Result<Vec<Seen>, Error> {
        let listed = self.list(session, name).await?;
        let paths = listed.iter().map(|one| self.path(name, &one.child));
        let read = join_all(paths.map(|path| session.client.data(&path))).await;
        let mut all = Vec::with_capacity(listed.len());
        for (mut contender, read) in listed.into_iter().zip(read) {
            let (data, stat) = match read {
                Ok(read) => read,
                Err(zk::Error::NoNode) => continue,
                Err(error) => return Err(fault("looking at the claims", error)),
            };
            let note = Note::read(&data);
            if let Some(note) = &note {
                contender.mode = note.mode;
            }
            let party = match &note {
                Some(note) => (*note.party).clone(),
                None => stranger(&contender.child, &data),
            };
            all.push(Seen {
                order: order_of(&stat)?,
                note,
                party,
                made: Duration::from_millis(u64::try_from(stat.ctime).unwrap_or(0)),
                contender,
            });
        }
        all.sort_by_key(|seen| seen.order);
        Ok(all)
    }

    pub(super) async fn evict(
        &self,
        name: &Name,
        order: u64,
        why: &str,
    ) -> Result<Released, Error> {
        let session = self.session().await?;
        let seen = self.look(&session, name).await?;
        let Some(seen) = seen.into_iter().find(|seen| seen.order == order) else {
            return Ok(Released::Gone);
        };
        let path = self.path(name, &seen.contender.child);
        let why: String = why.chars().take(LONGEST_REASON).collect();
        let party: String = seen
            .party
            .to_string()
            .chars()
            .take(LONGEST_REASON)
            .collect();
        let line = format!("{name:?} order {order} of {party}: {why:?}");
        for _ in 0..ATTEMPTS {
            let (record, version) = self.record(&session).await?;
            let lines = record.lines().chain([line.as_str()]);
            let lines: Vec<&str> = lines.collect();
            let kept = lines[lines.len().saturating_sub(BROKEN_KEPT)..].join("\n");
            let record = self.record_path();
            let record = (record.as_str(), kept.as_bytes(), version);
            match session.client.delete_and_set(&path, record).await {
                Ok(()) => return Ok(Released::Freed),
                Err(zk::Error::NoNode) => return Ok(Released::Gone),
                Err(zk::Error::BadVersion) => {}
                Err(error) => return Err(fault("breaking a claim", error)),
            }
        }
        Err(fault(
            "breaking a claim, beside many others who do",
            zk::Error::BadVersion,
        ))
    }

    fn record_path(&self) -> String {
        format!("{}/{BROKEN}", self.config.chroot)
    }

    /// What operators broke so far, and the version of that record.
    async fn record(&self, session: &Session) -> Result<(String, i32), Error> {
        let path = self.record_path();
        let during = "reading the record of breaks";
        match session.client.data(&path).await {
            Ok((data, stat)) => Ok((String::from_utf8_lossy(&data).into_owned(), stat.version)),
            Err(zk::Error::NoNode) => {
                let kind = zk::Kind::Lasting;
                match session.client.create(&path, &[], kind, self.access()).await {
                    Ok(_) | Err(zk::Error::NodeExists) => Ok((String::new(), 0)),
                    Err(error) => Err(fault(during, error)),
                }
            }
            Err(error) => Err(fault(during, error)),
        }
    }
}

impl Seen {
    fn view(self, wall: Duration) -> Result<ClaimView, Error> {
        Ok(ClaimView {
            token: Token::new(self.order, 0).map_err(Error::invalid)?,
            mode: self.contender.mode,
            party: self.party,
            since: wall.saturating_sub(self.made),
            // Its keeper alone knows when it was renewed; a foreign client does not even say for how long.
            lease_left: self.note.map_or(Duration::ZERO, |note| note.lease),
        })
    }
}
