//! Which server to ask: the one, the one that is master now, or the one that serves the slot.

use std::sync::Arc;

use redis::{RedisError, Value};

use super::cluster::Cluster;
use super::link::{Link, Script, Told};
use super::scripts::Numbering;
use super::sentinel::Sentinel;
use super::wire::Asking;

/// The way to the servers.
#[derive(Debug)]
pub(super) enum Route {
    /// One server holds everything.
    One(Arc<Link>),
    /// One server at a time does, as the sentinels say.
    Sentinel(Sentinel),
    /// Many share the buckets.
    Cluster(Box<Cluster>),
}

impl Route {
    /// Calls a script where its keys are, for as long as the caller likes; on a cluster they are all of one bucket.
    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[impl AsRef<[u8]> + Sync],
        args: &[&[u8]],
        told: Told,
    ) -> Result<Value, RedisError> {
        match self {
            Self::One(link) => link.call_for_long(script, keys, args, told).await,
            Self::Sentinel(sentinel) => {
                let master = &sentinel.master;
                let told = master.call_for_long(script, keys, args, told).await;
                sentinel.heed(told)
            }
            // On the heap: every call of a single server would carry its size along.
            Self::Cluster(cluster) => Box::pin(cluster.call(script, keys, args)).await,
        }
    }

    /// Brings a claim in, and gives it a number; answers as the scripts do.
    pub(super) async fn enter(
        &self,
        scripts: &Numbering,
        asking: &Asking<'_>,
    ) -> Result<Value, RedisError> {
        match self {
            Self::One(link) => link.enter(scripts, asking).await,
            Self::Sentinel(sentinel) => {
                let told = sentinel.master.enter(scripts, asking).await;
                sentinel.heed(told)
            }
            // Data come to a node of a cluster by themselves, whoever is connected: every number is lifted there.
            Self::Cluster(cluster) => {
                let claim = asking.claim();
                let (args, count) = asking.args(&claim);
                let call = cluster.call(&scripts.lifting, &asking.keys, &args[..count]);
                Box::pin(call).await
            }
        }
    }

    /// Whether keys of several buckets may go into one call.
    pub(super) fn mixes_buckets(&self) -> bool {
        !matches!(self, Self::Cluster(_))
    }

    /// All servers that hold keys.
    pub(super) fn masters(&self) -> Vec<Arc<Link>> {
        match self {
            Self::One(link) => vec![link.clone()],
            Self::Sentinel(sentinel) => vec![sentinel.master.clone()],
            Self::Cluster(cluster) => cluster.masters(),
        }
    }
}
