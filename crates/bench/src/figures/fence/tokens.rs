//! What it costs to take the fencing tokens from another engine: a lock on Redis with numbers of its own, with numbers
//! from etcd, and a lock on etcd.

use lockkeeper::Keeper;
use lockkeeper_testbed::{Etcd, Redis};

use super::Pair;
use crate::Result;
use crate::figures::local::runtime;
use crate::place::Place;
use crate::report::Figure;

const PER_ROUND: u64 = 20;

pub(super) fn measure(_: &Place) -> Result<Vec<Figure>> {
    let (redis, etcd) = (Redis::start()?, Etcd::start()?);
    runtime()?.block_on(async {
        let plain = Keeper::connect(&redis.url()).await?;
        let source = Keeper::connect(&format!("etcd://{}", etcd.address())).await?;
        let builder = Keeper::builder().tokens(source.clone());
        let numbered = builder.connect(&redis.url()).await?;
        let beside_redis = Pair::new(
            "redis with tokens from etcd, of redis: acquire + release",
            PER_ROUND,
        );
        let beside_redis = beside_redis.without_target().measure(
            async |_| cycle(&plain, "plain").await,
            async |_| cycle(&numbered, "numbered").await,
        );
        let beside_redis = beside_redis.await?;
        let beside_etcd = Pair::new(
            "redis with tokens from etcd, of etcd: acquire + release",
            PER_ROUND,
        );
        let beside_etcd = beside_etcd.without_target().measure(
            async |_| cycle(&source, "plain").await,
            async |_| cycle(&numbered, "numbered").await,
        );
        Ok(vec![beside_redis, beside_etcd.await?])
    })
}

async fn cycle(keeper: &Keeper, name: &str) -> Result<()> {
    let guard = keeper.lock(name).acquire().await?;
    Ok(guard.release().await?)
}
