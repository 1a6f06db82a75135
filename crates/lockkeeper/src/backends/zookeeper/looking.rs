//! Looking at a name's line: listing it, sorting it, and what it means for a claim.

use std::sync::Arc;

use futures_util::future::join_all;

use super::claims::{Key, Node};
use super::client::{Session, fault};
use super::line::{self, Line, Sorted};
use super::names::{Contender, contender};
use super::note::Note;
use super::shared::Shared;
use super::wire as zk;
use crate::error::Error;
use crate::rule::Verdict;
use crate::{Mode, Name};

/// What a line means for a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Holds,
    /// With so many ahead.
    Waits(usize),
    Gone,
}

/// The claims among the children of a name's node, in no order.
pub(super) fn contenders(children: &[String]) -> Vec<Contender> {
    children
        .iter()
        .filter_map(|child| contender(child))
        .collect()
}

impl Shared {
    /// The claims of a name, as everybody who was answered before this question knows them.
    pub(super) async fn list(
        &self,
        session: &Session,
        name: &Name,
    ) -> Result<Vec<Contender>, Error> {
        Ok(contenders(&self.children(session, name).await?))
    }

    pub(super) async fn children(
        &self,
        session: &Session,
        name: &Name,
    ) -> Result<Vec<String>, Error> {
        let parent = self.parent(name);
        // A server may lag behind the others; this catches up with them first.
        let synced = session.client.sync(&parent);
        let listed = session.client.children(&parent);
        synced.await.map_err(|error| fault("catching up", error))?;
        match listed.await {
            Ok(children) => Ok(children),
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(fault("listing the claims", error)),
        }
    }

    /// The claims of a name as the server knows them that has just told us of a change. It may lag behind the others: then
    /// it shows some who have left since, and a watch on one of them will tell.
    pub(super) async fn list_here(
        &self,
        session: &Session,
        name: &Name,
    ) -> Result<Vec<Contender>, Error> {
        match session.client.children(&self.parent(name)).await {
            Ok(children) => Ok(contenders(&children)),
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            Err(error) => Err(fault("listing the claims", error)),
        }
    }

    /// What these contenders mean for the claim, which is written down.
    pub(super) async fn judge(
        &self,
        key: &Key,
        (session, node): (&Arc<Session>, &Node),
        contenders: Vec<Contender>,
    ) -> Result<Judged, Error> {
        let own = contenders.iter().find(|one| one.child == node.child);
        let number = own.map(|own| own.number);
        let mut line = match line::sort(contenders, &node.child) {
            Sorted::Behind(line) => line,
            Sorted::Unclear(all) => self.by_creation(session, key, node, all).await?,
            Sorted::Missing => {
                self.claims.forget(key);
                return Ok(Judged::Gone);
            }
        };
        let Some(place) = self.claims.place(key) else {
            return Ok(Judged::Gone);
        };
        let mode = place.mode();
        if mode == Mode::Shared && line.verdict(mode) == Verdict::Waits {
            self.learn_of_downgrades(session, &key.0, &mut line).await?;
        }
        if line.verdict(mode) == Verdict::Holds {
            self.claims.holds(key, number.filter(|_| line.len() == 0));
            return Ok(Judged::Holds);
        }
        let ahead = line.len();
        self.claims.waits(key, line);
        Ok(Judged::Waits(ahead))
    }

    /// The line by the transactions that made its nodes, for when their numbers do not tell.
    async fn by_creation(
        &self,
        session: &Session,
        key: &Key,
        node: &Node,
        all: Vec<Contender>,
    ) -> Result<Line, Error> {
        let paths = all.iter().map(|one| self.path(&key.0, &one.child));
        let asked = join_all(paths.map(|path| session.client.stat(&path))).await;
        let mut dated = Vec::with_capacity(all.len());
        for (one, stat) in all.into_iter().zip(asked) {
            let stat = stat.map_err(|error| fault("looking at the claims ahead", error))?;
            if let Some(stat) = stat {
                dated.push((stat.czxid, one));
            }
        }
        let own = i64::try_from(node.order).unwrap_or(i64::MAX);
        Ok(Line::by_creation(dated, own))
    }

    /// The name of a node says how its claim entered; that an exclusive one has become shared since,
    /// only its data does. It matters to readers only.
    async fn learn_of_downgrades(
        &self,
        session: &Session,
        name: &Name,
        line: &mut Line,
    ) -> Result<(), Error> {
        let mut exclusive: Vec<&mut Contender> = line
            .iter_mut()
            .filter(|contender| contender.mode == Mode::Exclusive)
            .collect();
        let paths = exclusive.iter().map(|one| self.path(name, &one.child));
        let read = join_all(paths.map(|path| session.client.data(&path))).await;
        for (contender, read) in exclusive.iter_mut().zip(read) {
            match read {
                Ok((data, stat)) => {
                    contender.version = stat.version;
                    contender.mode = Note::read(&data).map_or(Mode::Exclusive, |note| note.mode);
                }
                // It has just left, which its watch will tell.
                Err(zk::Error::NoNode) => {}
                Err(error) => return Err(fault("looking at the claims ahead", error)),
            }
        }
        Ok(())
    }
}
