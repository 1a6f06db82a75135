//! ZooKeeper's protocol, as much of it as the locks need: a session that survives its connections, requests that are
//! answered in order, watches. It tells when the server was last known to answer, which is what a hold is
//! believed in by.

mod error;
mod link;
mod record;
mod session;
mod socket;
mod watches;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

pub(super) use self::error::Error;
pub(super) use self::link::State;
use self::link::{Answer, Link};
pub(super) use self::record::Stat;
use self::record::{Frame, Op, Reader};
use self::socket::Grant;
pub(super) use self::watches::{Ear, Event, Watcher};
use crate::lifecycle::deadline::{Clock, Moment};

/// Where the servers are and how to speak to them.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) hosts: Vec<(String, u16)>,
    /// Asked for; the servers may give another.
    pub(super) timeout: Duration,
    /// `user:password`.
    pub(super) digest: Option<String>,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
}

/// What a node lives by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Lasting = 0,
    /// By the session; its name gets a number.
    EphemeralSequential = 3,
    /// By its children.
    Container = 4,
}

/// Who may do what to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Anyone,
    Creator,
}

/// A session. When the last user drops it, it is closed.
pub(super) struct Client {
    link: Arc<Link>,
    grant: Grant,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {:#x}", self.grant.session)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl Client {
    /// A new session with the first server that answers.
    pub(super) async fn connect(settings: Settings, clock: Clock) -> Result<Self, Error> {
        let link = Arc::new(Link::new(clock));
        let grant = session::start(settings, link.clone()).await?;
        Ok(Self { link, grant })
    }

    pub(super) fn id(&self) -> i64 {
        self.grant.session
    }

    /// What the servers agreed to.
    pub(super) fn timeout(&self) -> Duration {
        self.grant.timeout
    }

    pub(super) fn is_over(&self) -> bool {
        *self.link.state.borrow() == State::Over
    }

    pub(super) fn states(&self) -> watch::Receiver<State> {
        self.link.state.subscribe()
    }

    /// Makes a node; tells its path, which has a number at its end if it is sequential.
    pub(super) fn create(
        &self,
        path: &str,
        data: &[u8],
        kind: Kind,
        access: Access,
    ) -> impl Future<Output = Result<(String, Stat), Error>> + Send + use<> {
        const ALL_RIGHTS: i32 = 31;
        let op = match kind {
            Kind::Container => Op::CreateContainer,
            _ => Op::Create,
        };
        let frame = Frame::asking(op).text(path).bytes(data);
        let frame = frame.int(1).int(ALL_RIGHTS);
        let frame = match access {
            Access::Anyone => frame.text("world").text("anyone"),
            Access::Creator => frame.text("auth").text(""),
        };
        self.ask(frame.int(kind as i32), |reader| {
            Ok((reader.text()?, reader.stat()?))
        })
    }

    pub(super) fn delete(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let frame = Frame::asking(Op::Delete).text(path).int(ANY_VERSION);
        self.ask(frame, |_| Ok(()))
    }

    pub(super) fn stat(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<Stat>, Error>> + Send + use<> {
        let frame = Frame::asking(Op::Exists).text(path).flag(false);
        let told = self.ask(frame, |reader| reader.stat());
        async { or_none(told.await) }
    }

    /// What is known of the node, and who tells when that changes.
    pub(super) fn stat_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<(Stat, Watcher)>, Error>> + Send + use<> {
        let frame = Frame::asking(Op::Exists).text(path).flag(true);
        let (told, watcher) = self.link.ask_and_watch(frame, path);
        async {
            let stat = or_none(read(told, |reader| reader.stat()).await)?;
            Ok(stat.map(|stat| (stat, watcher)))
        }
    }

    /// Who tells when something happens to these nodes, or has happened since the last answer.
    pub(super) async fn watch_all(&self, paths: &[String]) -> Result<Vec<Watcher>, Error> {
        let (told, watchers) = self.link.watch_all(paths);
        read(told, |_| Ok(())).await?;
        Ok(watchers)
    }

    pub(super) fn data(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<u8>, Stat), Error>> + Send + use<> {
        let frame = Frame::asking(Op::GetData).text(path).flag(false);
        self.ask(frame, |reader| {
            Ok((reader.bytes()?.to_vec(), reader.stat()?))
        })
    }

    pub(super) fn set_data(
        &self,
        path: &str,
        data: &[u8],
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.set_data_of(ANY_VERSION, path, data)
    }

    /// Only if the node has this version.
    pub(super) fn set_data_of(
        &self,
        version: i32,
        path: &str,
        data: &[u8],
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let frame = Frame::asking(Op::SetData).text(path).bytes(data);
        self.ask(frame.int(version), |_| Ok(()))
    }

    pub(super) fn children(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let frame = Frame::asking(Op::GetChildren).text(path).flag(false);
        self.ask(frame, |reader| reader.texts())
    }

    /// All nodes below this one that live by the session.
    pub(super) fn ephemerals(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let frame = Frame::asking(Op::GetEphemerals).text(path);
        self.ask(frame, |reader| reader.texts())
    }

    /// Lets the server catch up with the leader, and is the leader's word that the session lives.
    pub(super) fn sync(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        self.ask(Frame::asking(Op::Sync).text(path), |_| Ok(()))
    }

    /// A sign of life of the server that we are connected to; tells when it was asked for.
    pub(super) fn ping(&self) -> impl Future<Output = Result<Moment, Error>> + Send + use<> {
        let told = self.link.ping();
        async { told.await.unwrap_or(Err(Error::Closed)) }
    }

    /// Deletes one node and changes another, if it has this version: both or nothing.
    pub(super) fn delete_and_set(
        &self,
        path: &str,
        (other, data, version): (&str, &[u8], i32),
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        const NO_CODE: i32 = -1;
        let part = |frame: Frame, op: i32| frame.int(op).flag(op == NO_CODE).int(NO_CODE);
        let frame = part(Frame::asking(Op::Multi), Op::Delete as i32);
        let frame = part(frame.text(path).int(ANY_VERSION), Op::SetData as i32);
        let frame = frame.text(other).bytes(data).int(version);
        self.ask(part(frame, NO_CODE), first_fault)
    }

    /// Makes a node that lasts, and those above it.
    pub(super) async fn make_path(&self, path: &str, access: Access) -> Result<(), Error> {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            let made = self.create(&path[..end], &[], Kind::Lasting, access);
            match made.await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn ask<T: Send + 'static>(
        &self,
        frame: Frame,
        decode: fn(&mut Reader<'_>) -> Result<T, Error>,
    ) -> impl Future<Output = Result<T, Error>> + Send + use<T> {
        read(self.link.ask(frame), decode)
    }
}

const ANY_VERSION: i32 = -1;

async fn read<T>(
    told: oneshot::Receiver<Answer>,
    decode: fn(&mut Reader<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    // Nobody answers when the runtime, and with it the session's task, is gone.
    let answer = told.await.unwrap_or(Err(Error::Closed))?;
    decode(&mut Reader(&answer))
}

fn or_none<T>(told: Result<T, Error>) -> Result<Option<T>, Error> {
    match told {
        Ok(found) => Ok(Some(found)),
        Err(Error::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Of several requests that were carried out together or not at all, what was wrong.
fn first_fault(reader: &mut Reader<'_>) -> Result<(), Error> {
    const FAILED: i32 = -1;
    // Said of those that failed because another did.
    const ALONG: i32 = -2;
    loop {
        let (op, done, code) = (reader.int()?, reader.flag()?, reader.int()?);
        if done {
            return Ok(());
        }
        if op == FAILED {
            reader.int()?;
            if code != ALONG {
                Error::of_code(code)?;
            }
        } else if op == Op::SetData as i32 {
            reader.stat()?;
        }
    }
}
