//! Redis: the script, and the same as separate commands.

use std::time::Duration;

use lockkeeper_fence::redis::RedisFence;
use lockkeeper_fence::{Fence, FenceError, Pass, Token};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig};

use super::{Seen, Store, text, writer_of};
use crate::history::Verdict;
use crate::writer::{compared, verdict};

pub(crate) struct Fenced {
    connection: MultiplexedConnection,
    fence: RedisFence<MultiplexedConnection>,
}

pub(crate) async fn connect(url: &str) -> Result<MultiplexedConnection, String> {
    let client = redis::Client::open(url).map_err(text)?;
    // The default of half a second is short on a loaded machine.
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(20)));
    let connection = client.get_multiplexed_async_connection_with_config(&patient);
    connection.await.map_err(text)
}

fn record(text: &str) -> Option<Pass> {
    let (token, claim) = text.split_once('.')?;
    let token = Token::try_from(token.parse::<u64>().ok()?).ok()?;
    Some(Pass::new(token, claim.parse().ok()?))
}

impl Store for Fenced {
    async fn open(target: &str) -> Result<Self, String> {
        let connection = connect(target).await?;
        let fence = RedisFence::new(connection.clone(), "resource");
        Ok(Self { connection, fence })
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        verdict(self.fence.write(pass, value.as_bytes()).await)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict {
        let Ok(highest) = self.fence.highest().await else {
            return Verdict::Unknown;
        };
        if let Some(refused) = compared(pass, highest, pause).await {
            return refused;
        }
        let fence = format!("{:019}.{}", pass.token().get(), pass.claim());
        let pairs = [("{resource}:fence", fence.as_str()), ("resource", value)];
        let outcome = self.connection.mset::<_, _, ()>(&pairs).await;
        verdict(outcome.map_err(FenceError::Store))
    }

    async fn read(&mut self) -> Result<Seen, String> {
        let keys = ["{resource}:fence", "resource"];
        let both: Vec<Option<String>> = self.connection.mget(&keys[..]).await.map_err(text)?;
        let fence = both[0].as_deref().and_then(record);
        Ok((fence, both[1].as_deref().and_then(writer_of)))
    }
}
