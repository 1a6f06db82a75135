//! What etcd itself can do: the bare limit, the floor of a hand-over, and etcd's own lock service.

use tokio::sync::mpsc::UnboundedSender;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::etcd_wire::{
    Compare, DELETE, Delete, DeleteAnswer, Found, GRANT, Grant, GrantAnswer, LOCK, Lock, Locked,
    Operation, Put, RANGE, Range, TXN, Txn, TxnAnswer, UNLOCK, Unlock, Unlocked, WATCH,
    WatchAnswer, WatchCancel, WatchCreate, WatchWord, call,
};
use super::{Client, Contender};
use crate::Result;

/// Outlives every round, so that nothing has to be kept alive.
const LEASE_SECONDS: i64 = 600;
const DELETED: i32 = 1;

/// A connection and a lease, which is what all of them need.
#[derive(Clone)]
struct Session {
    channel: Channel,
    lease: i64,
}

impl Session {
    async fn connect(host: &str) -> Result<Self> {
        let channel = Endpoint::new(format!("http://{host}"))?.tcp_nodelay(true);
        let channel = channel.connect().await?;
        let seconds = LEASE_SECONDS;
        let granted: GrantAnswer = call(&channel, GRANT, Grant { seconds }).await?;
        let lease = granted.id;
        Ok(Self { channel, lease })
    }

    fn put(&self, key: &str) -> Operation {
        let put = Put {
            key: key.into(),
            value: Vec::new(),
            lease: self.lease,
        };
        Operation {
            put: Some(put),
            range: None,
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let key = key.into();
        let answer: DeleteAnswer = call(&self.channel, DELETE, Delete { key }).await?;
        match answer.deleted {
            1 => Ok(()),
            other => Err(format!("{other} keys were deleted instead of one").into()),
        }
    }
}

/// A conditional put and a delete.
pub(crate) struct Bare(Session);

impl Bare {
    pub(super) async fn connect(host: &str) -> Result<Self> {
        Session::connect(host).await.map(Self)
    }
}

impl Client for Bare {
    type Contender = Key;

    async fn contender(&self, name: &str) -> Result<Key> {
        Ok(Key {
            session: self.0.clone(),
            key: format!("bare/{name}"),
        })
    }
}

pub(crate) struct Key {
    session: Session,
    key: String,
}

impl Contender for Key {
    async fn acquire(&mut self) -> Result<()> {
        let absent = Compare {
            result: 0,
            target: 1,
            key: self.key.clone().into_bytes(),
            create_revision: Some(0),
        };
        let txn = Txn {
            compare: vec![absent],
            success: vec![self.session.put(&self.key)],
        };
        let answer: TxnAnswer = call(&self.session.channel, TXN, txn).await?;
        match answer.succeeded {
            true => Ok(()),
            false => Err("a key of the bare limit is there already".into()),
        }
    }

    async fn release(&mut self) -> Result<()> {
        self.session.delete(&self.key).await
    }
}

/// A queue of keys; each waits for the end of the one before it, on a watch that lives already.
pub(crate) struct Watch(Session);

impl Watch {
    pub(super) async fn connect(host: &str) -> Result<Self> {
        Session::connect(host).await.map(Self)
    }
}

impl Client for Watch {
    type Contender = Queued;

    async fn contender(&self, name: &str) -> Result<Queued> {
        let session = self.0.clone();
        let (words, receiver) = tokio::sync::mpsc::unbounded_channel();
        // etcd opens its half of the stream with the first word only.
        watch(&words, format!("nobody/{name}").as_bytes())?;
        let mut grpc = Grpc::new(session.channel.clone());
        grpc.ready().await?;
        let path = PathAndQuery::from_static(WATCH);
        let codec: ProstCodec<WatchWord, WatchAnswer> = ProstCodec::default();
        let stream = UnboundedReceiverStream::new(receiver);
        let answers = grpc.streaming(tonic::Request::new(stream), path, codec);
        let mut answers = answers.await?.into_inner();
        next(&mut answers).await?;
        Ok(Queued {
            session,
            prefix: format!("queue/{name}/"),
            turn: 0,
            words,
            answers,
        })
    }
}

pub(crate) struct Queued {
    session: Session,
    prefix: String,
    turn: u64,
    words: UnboundedSender<WatchWord>,
    answers: Streaming<WatchAnswer>,
}

impl Queued {
    /// A new key for each turn: one that came again would be waited for by those behind it.
    fn key(&self) -> String {
        format!("{}{:x}-{}", self.prefix, self.session.lease, self.turn)
    }

    /// Lines up; the key before, if there is one.
    async fn enter(&self) -> Result<Option<Vec<u8>>> {
        let mut range_end = self.prefix.clone().into_bytes();
        // The byte after the prefix's closing slash.
        range_end.pop();
        range_end.push(b'0');
        let last = Range {
            key: self.prefix.clone().into_bytes(),
            range_end,
            limit: 1,
            sort_order: 2,
            sort_target: 2,
            keys_only: true,
        };
        let last = Operation {
            range: Some(last),
            put: None,
        };
        let txn = Txn {
            compare: Vec::new(),
            success: vec![last, self.session.put(&self.key())],
        };
        let mut answer: TxnAnswer = call(&self.session.channel, TXN, txn).await?;
        let found = answer
            .responses
            .first_mut()
            .and_then(|one| one.range.take());
        Ok(found.and_then(|mut found| found.kvs.pop()).map(|kv| kv.key))
    }

    async fn exists(&self, key: &[u8]) -> Result<bool> {
        let range = Range {
            key: key.to_vec(),
            keys_only: true,
            ..Range::default()
        };
        let found: Found = call(&self.session.channel, RANGE, range).await?;
        Ok(!found.kvs.is_empty())
    }
}

impl Contender for Queued {
    async fn acquire(&mut self) -> Result<()> {
        self.turn += 1;
        let Some(before) = self.enter().await? else {
            return Ok(());
        };
        watch(&self.words, &before)?;
        let watch_id = loop {
            let answer = next(&mut self.answers).await?;
            if answer.created {
                break answer.watch_id;
            }
        };
        if self.exists(&before).await? {
            let is_end = |answer: &WatchAnswer| answer.events.iter().any(|one| one.kind == DELETED);
            while !is_end(&next(&mut self.answers).await?) {}
        }
        let cancel = Some(WatchCancel { watch_id });
        self.words.send(WatchWord {
            create: None,
            cancel,
        })?;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.session.delete(&self.key()).await
    }
}

fn watch(words: &UnboundedSender<WatchWord>, key: &[u8]) -> Result<()> {
    let create = Some(WatchCreate { key: key.to_vec() });
    let cancel = None;
    Ok(words.send(WatchWord { create, cancel })?)
}

async fn next(answers: &mut Streaming<WatchAnswer>) -> Result<WatchAnswer> {
    let answer = answers.message().await?;
    Ok(answer.ok_or("etcd closed the stream of watches")?)
}

/// The lock service that etcd brings along.
pub(crate) struct V3Lock(Session);

impl V3Lock {
    pub(super) async fn connect(host: &str) -> Result<Self> {
        Session::connect(host).await.map(Self)
    }
}

impl Client for V3Lock {
    type Contender = Served;

    async fn contender(&self, name: &str) -> Result<Served> {
        Ok(Served {
            session: self.0.clone(),
            name: format!("v3lock/{name}"),
            key: Vec::new(),
        })
    }
}

pub(crate) struct Served {
    session: Session,
    name: String,
    key: Vec<u8>,
}

impl Contender for Served {
    async fn acquire(&mut self) -> Result<()> {
        let question = Lock {
            name: self.name.clone().into_bytes(),
            lease: self.session.lease,
        };
        let locked: Locked = call(&self.session.channel, LOCK, question).await?;
        self.key = locked.key;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let key = std::mem::take(&mut self.key);
        let _done: Unlocked = call(&self.session.channel, UNLOCK, Unlock { key }).await?;
        Ok(())
    }
}
