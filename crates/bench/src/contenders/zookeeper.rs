//! What ZooKeeper itself can do, through the client crate that lockkeeper uses: the bare limit and
//! the floor of a hand-over.

use std::time::Duration;

use zookeeper_client::{Acls, Client as Session, CreateMode, Error};

use super::{Client, Contender, LEASE_MS};
use crate::Result;

async fn session(host: &str) -> Result<Session> {
    let timeout = Duration::from_millis(LEASE_MS.into());
    let connector = Session::connector().with_session_timeout(timeout);
    Ok(connector.connect(host).await?)
}

/// Makes the parent of what is measured; somebody else may have made it.
async fn make_parent(session: &Session, path: &str) -> Result<()> {
    let plain = CreateMode::Persistent.with_acls(Acls::anyone_all());
    Ok(session.mkdir(path, &plain).await?)
}

/// One ephemeral node: created, deleted.
pub(crate) struct Bare(Session);

impl Bare {
    pub(super) async fn connect(host: &str) -> Result<Self> {
        let session = session(host).await?;
        make_parent(&session, "/bare").await?;
        Ok(Self(session))
    }
}

impl Client for Bare {
    type Contender = Node;

    async fn contender(&self, name: &str) -> Result<Node> {
        Ok(Node {
            session: self.0.clone(),
            path: format!("/bare/{name}"),
        })
    }
}

pub(crate) struct Node {
    session: Session,
    path: String,
}

impl Contender for Node {
    async fn acquire(&mut self) -> Result<()> {
        let ephemeral = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        self.session.create(&self.path, b"", &ephemeral).await?;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        Ok(self.session.delete(&self.path, None).await?)
    }
}

/// Sequential nodes; each waits for the end of the one before it and does not look round again.
pub(crate) struct Watch(Session);

impl Watch {
    pub(super) async fn connect(host: &str) -> Result<Self> {
        session(host).await.map(Self)
    }
}

impl Client for Watch {
    type Contender = Queued;

    async fn contender(&self, name: &str) -> Result<Queued> {
        let parent = format!("/queue/{name}");
        make_parent(&self.0, &parent).await?;
        Ok(Queued {
            session: self.0.clone(),
            parent,
            own: String::new(),
        })
    }
}

pub(crate) struct Queued {
    session: Session,
    parent: String,
    own: String,
}

impl Contender for Queued {
    async fn acquire(&mut self) -> Result<()> {
        let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let path = format!("{}/n-", self.parent);
        let (_stat, number) = self.session.create(&path, b"", &mode).await?;
        self.own = format!("n-{number}");
        let mut before = self.session.list_children(&self.parent).await?;
        before.retain(|one| *one < self.own);
        let Some(last) = before.into_iter().max() else {
            return Ok(());
        };
        let last = format!("{}/{last}", self.parent);
        let (found, watcher) = self.session.check_and_watch_stat(&last).await?;
        if found.is_some() {
            watcher.changed().await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let path = format!("{}/{}", self.parent, self.own);
        match self.session.delete(&path, None).await {
            Err(Error::NoNode) => Err(format!("{path} was gone before its release").into()),
            told => Ok(told?),
        }
    }
}
