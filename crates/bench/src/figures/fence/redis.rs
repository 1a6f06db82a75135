//! Redis: the script, beside `SET`.

use std::time::Duration;

use lockkeeper_fence::Fence;
use lockkeeper_fence::redis::RedisFence;
use redis::{AsyncCommands, AsyncConnectionConfig};

use super::{Pair, pass, value};
use crate::Result;
use crate::figures::local::runtime;
use crate::place::Place;
use crate::report::Figure;

pub(super) fn measure(_: &Place) -> Result<Vec<Figure>> {
    let server = lockkeeper_testbed::Redis::durable()?;
    let client = redis::Client::open(format!("redis://{}", server.address()))?;
    runtime()?.block_on(async {
        // The default of half a second is short on a loaded machine.
        let patient =
            AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&patient)
            .await?;
        let fence = RedisFence::new(connection.clone(), "fenced");
        let pair = Pair::new("redis: a key, every command on disk", 200).measure(
            async |n| Ok(connection.set::<_, _, ()>("plain", value(n)).await?),
            async |n| Ok(fence.write(&pass(n)?, value(n).as_bytes()).await?),
        );
        Ok(vec![pair.await?])
    })
}
