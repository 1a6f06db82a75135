//! What Redis itself can do, through the client crate that lockkeeper uses: the bare limit of one
//! server and of several, and the floor of a hand-over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Script, cmd};

use super::{Client, Contender, LEASE_MS};
use crate::Result;

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// The least that gives a number with the lock, in one question.
const SET_AND_COUNT: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end return 0";

/// `SET NX PX` and a compare-and-delete script, on all servers at once.
pub(crate) struct Bare {
    servers: Vec<MultiplexedConnection>,
    /// Takes the lock and counts, where it has to be numbered.
    numbering: Option<Arc<str>>,
    script: Arc<str>,
    values: AtomicU64,
}

impl Bare {
    /// The same with a number for each lock, as a fencing token needs one.
    pub(super) async fn numbered(hosts: &str) -> Result<Self> {
        let mut bare = Self::connect(hosts).await?;
        let script = Script::new(SET_AND_COUNT);
        for server in &mut bare.servers {
            script.load_async(server).await?;
        }
        bare.numbering = Some(script.get_hash().into());
        Ok(bare)
    }

    pub(super) async fn connect(hosts: &str) -> Result<Self> {
        let mut servers = Vec::new();
        let script = Script::new(COMPARE_AND_DELETE);
        for host in hosts.split(',') {
            let client = redis::Client::open(format!("redis://{host}"))?;
            let mut connection = client.get_multiplexed_async_connection().await?;
            script.load_async(&mut connection).await?;
            servers.push(connection);
        }
        Ok(Self {
            servers,
            numbering: None,
            script: script.get_hash().into(),
            values: AtomicU64::new(0),
        })
    }
}

impl Client for Bare {
    type Contender = Key;

    async fn contender(&self, name: &str) -> Result<Key> {
        let number = self.values.fetch_add(1, Ordering::Relaxed);
        Ok(Key {
            servers: self.servers.clone(),
            numbering: self.numbering.clone(),
            script: self.script.clone(),
            key: name.to_owned(),
            // As long as a random id would be, and nobody else's.
            value: format!("{:016x}{number:016x}", std::process::id()),
        })
    }
}

pub(crate) struct Key {
    servers: Vec<MultiplexedConnection>,
    numbering: Option<Arc<str>>,
    script: Arc<str>,
    key: String,
    value: String,
}

impl Contender for Key {
    async fn acquire(&mut self) -> Result<()> {
        let (key, value) = (&self.key, &self.value);
        let numbering = self.numbering.as_deref();
        let set = |mut server: MultiplexedConnection| async move {
            let Some(script) = numbering else {
                let mut command = cmd("SET");
                command.arg(key).arg(value);
                command.arg("NX").arg("PX").arg(LEASE_MS);
                return command.query_async::<bool>(&mut server).await;
            };
            let mut command = cmd("EVALSHA");
            command.arg(script).arg(2).arg(key).arg("numbers");
            command.arg(value).arg(LEASE_MS);
            let number: u64 = command.query_async(&mut server).await?;
            Ok(number > 0)
        };
        all_yes(try_join_all(self.servers.iter().cloned().map(set)).await?)
    }

    async fn release(&mut self) -> Result<()> {
        let (key, value, script) = (&self.key, &self.value, &*self.script);
        let delete = |mut server: MultiplexedConnection| async move {
            let mut command = cmd("EVALSHA");
            command.arg(script).arg(1).arg(key).arg(value);
            command.query_async::<bool>(&mut server).await
        };
        all_yes(try_join_all(self.servers.iter().cloned().map(delete)).await?)
    }
}

fn all_yes(answers: Vec<bool>) -> Result<()> {
    match answers.iter().all(|yes| *yes) {
        true => Ok(()),
        false => Err("a key of the bare limit is not its own".into()),
    }
}

/// One element that is handed round: whoever has popped it holds. RPUSH of one wakes BLPOP of another.
pub(crate) struct List {
    client: redis::Client,
}

impl List {
    pub(super) fn connect(host: &str) -> Result<Self> {
        let client = redis::Client::open(format!("redis://{host}"))?;
        Ok(Self { client })
    }
}

impl Client for List {
    type Contender = Element;

    async fn contender(&self, name: &str) -> Result<Element> {
        // Its own connection, since waiting blocks it.
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        let client = &self.client;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&patient)
            .await?;
        let key = format!("list/{name}");
        let mut first = cmd("SET");
        first.arg(format!("{key}/begun")).arg(1).arg("NX");
        let is_first: bool = first.query_async(&mut connection).await?;
        let mut element = Element { connection, key };
        if is_first {
            element.release().await?;
        }
        Ok(element)
    }
}

pub(crate) struct Element {
    connection: MultiplexedConnection,
    key: String,
}

impl Contender for Element {
    async fn acquire(&mut self) -> Result<()> {
        let mut command = cmd("BLPOP");
        command.arg(&self.key).arg(0);
        let _element: [String; 2] = command.query_async(&mut self.connection).await?;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let mut command = cmd("RPUSH");
        command.arg(&self.key).arg("token");
        let _length: u64 = command.query_async(&mut self.connection).await?;
        Ok(())
    }
}
