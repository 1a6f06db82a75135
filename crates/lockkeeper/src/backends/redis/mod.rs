//! `redis://`: the lists live in a Redis server (7.0 or later, or Valkey), one Lua script per verb.
//!
//! **Keys.** All keys of a name are in one hash slot: `PREFIX:{BUCKET}:k:NAME` is the name's own. A claim
//! that is alone is its plain value, whose expiry is the lease: one call in, one call out. As soon as
//! a second claim stands in line, the value is the head of a list and there are three keys beside it:
//! `…:r:NAME`, the records by claim; `…:q:NAME`, the queue by order number; `…:e:NAME`, the ends of the
//! leases. So nothing that a hand-over does grows with the number of waiters. All four expire soon after the
//! last lease. `PREFIX:{BUCKET}:order` is the last order number given in a bucket; there are 64 buckets, so
//! counters do not pile up.
//!
//! **Pushes.** Each keeper listens to a channel of its own, `PREFIX:wake:RANDOM`, on the same connection
//! (RESP3). The script that lets a claim hold publishes that to its keeper alone.
//!
//! **Least privilege.** A user needs no more than
//!
//! ```text
//! ACL SETUSER locks on >PASSWORD ~lk:* &lk:wake:* -@all +eval +evalsha +time +exists +del +set +get +incr
//!   +hset +hsetnx +hget +hgetall +hdel +zadd +zrem +zrank +zscore +zrange +zrangebyscore +zcard +pexpire +pexpireat
//!   +pexpiretime +publish +subscribe +lpush +ltrim +scan +ping +info +config|get
//! ```
//!
//! A cluster needs `+cluster|slots +asking` besides, a database other than 0 `+select`. `info` and `config|get` only
//! let it see how the server stores, and `scan` lists all locks.

pub(crate) mod answer;
mod backend;
mod cluster;
mod config;
mod counters;
pub mod dialects;
mod doctor;
mod keys;
pub(crate) mod link;
pub(crate) mod node;
pub(crate) mod packed;
mod pipe;
mod reply;
mod route;
mod scripts;
mod sentinel;
mod slots;
mod socket;
mod wire;

use std::sync::Arc;

pub use config::Config;

use crate::backend::{Backend, Bell, Wake};
use crate::claim::ClaimId;
use crate::error::Error;
use ::redis::RedisError;
use answer::meaning;
use backend::RedisBackend;
use cluster::Cluster;
use config::Servers;
use doctor::Facts;
use link::{Event, Link};
use route::Route;
use sentinel::Sentinel;

/// Connects one keeper.
///
/// # Errors
/// [`Error::Unreachable`] when the server does not answer, [`Error::Denied`] when it does not let us in,
/// [`Error::Refused`] when it cannot keep locks.
///
/// # Cancel safety
/// Cancel safe: a dropped call leaves no connection behind.
pub async fn connect(config: &Config) -> Result<Arc<dyn Backend>, Error> {
    let bell = Bell::default();
    let keeper = keeper()?;
    let channel = config.keys.channel(&keeper);
    let (route, weakness) = route(&config.servers, &channel, &bell).await?;
    let mut facts = Vec::new();
    for link in route.masters() {
        facts.push(Facts::of(&link).await?);
    }
    let is_cluster = matches!(route, Route::Cluster(_));
    facts
        .iter()
        .try_for_each(|facts| facts.usable(is_cluster))?;
    let probe = config.keys.probe(&keeper);
    doctor::may_run_scripts(&route, probe, &channel).await?;
    let backend = RedisBackend {
        route,
        keys: config.keys.clone(),
        bell,
        channel,
        guarantees: doctor::guarantees(&facts, weakness),
        place: config.place(),
        waited: backend::Waited::default(),
        record: backend::Record::default(),
    };
    Ok(backend.shared())
}

/// The way to the servers, up and with its ears open, and what is weak about it.
async fn route(
    servers: &Servers,
    channel: &str,
    bell: &Bell,
) -> Result<(Route, &'static [&'static str]), Error> {
    let bell = bell.clone();
    let ringing = move |event: Event<'_>| ring(&bell, event);
    let made: Result<_, RedisError> = async {
        match servers {
            Servers::One(node) => {
                let link = Arc::new(Link::start(node.clone(), ringing));
                link.subscribe(channel.as_bytes()).await?;
                Ok((Route::One(link), &[][..]))
            }
            Servers::Sentinel {
                sentinels,
                master,
                access,
            } => {
                let sentinel = Sentinel::start(sentinels, (master, access), ringing);
                sentinel.master.subscribe(channel.as_bytes()).await?;
                Ok((Route::Sentinel(sentinel), FAIL_OVER))
            }
            Servers::Cluster { seeds } => {
                let cluster = Cluster::new(seeds, channel, ringing);
                cluster.describe().await?;
                Ok((Route::Cluster(Box::new(cluster)), FAIL_OVER))
            }
        }
    }
    .await;
    made.map_err(|error| meaning(error, "connecting"))
}

/// What is weak about every server that another may follow.
const FAIL_OVER: &[&str] =
    &["a replica that is promoted may lack the last grants (replication does not wait)"];

/// A name for the keeper's channel that nobody can guess, so that nobody listens in.
fn keeper() -> Result<String, Error> {
    let id = ClaimId::random()?;
    Ok(id
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

fn ring(bell: &Bell, event: Event<'_>) {
    match event {
        Event::Message { payload, .. } => {
            if let Some(wake) = wire::wake(payload) {
                bell.ring(wake);
            }
        }
        Event::Up => bell.ring(Wake::LookAll),
        Event::Broken => {}
    }
}
