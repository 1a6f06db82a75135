//! Redis: a value and, in a key beside it, the highest pass; one script compares and writes.
//!
//! The key of the fence has the value's key as its hash tag, so both live in the same slot of a cluster. It
//! must neither expire nor be evicted (`maxmemory-policy noeviction`), and it is as durable as the server:
//! after a fail-over or a restart that lost the last writes, the fence has forgotten them together with the
//! values that it protected.

use redis::aio::ConnectionLike;
use redis::{RedisError, Script};

use crate::{Fence, FenceError, Pass, Token};

/// The script, for other clients. Its first line lists its arguments.
pub const WRITE: &str = include_str!("write.lua");

/// A key behind a fence.
///
/// ```no_run
/// # async fn example(connection: redis::aio::MultiplexedConnection, token: lockkeeper_fence::Token)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// use lockkeeper_fence::redis::RedisFence;
/// use lockkeeper_fence::{Fence, Pass};
///
/// let report = RedisFence::new(connection, "report");
/// report.write(&Pass::from(token), b"42").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisFence<C> {
    connection: C,
    value: Vec<u8>,
    fence: Vec<u8>,
    script: Script,
}

impl<C: ConnectionLike + Clone + Send + Sync> RedisFence<C> {
    /// Puts a fence around a key. All writers must go through it.
    ///
    /// A key with a `}` but without a hash tag works on one server; a cluster refuses it.
    pub fn new(connection: C, key: impl Into<Vec<u8>>) -> Self {
        let value = key.into();
        Self {
            connection,
            fence: fence_key(&value),
            value,
            script: Script::new(WRITE),
        }
    }

    async fn invoke(&self, pass: &Pass, value: &[u8]) -> Result<Option<Vec<u8>>, RedisError> {
        let mut call = self.script.key(&self.value[..]);
        call.key(&self.fence[..])
            .arg(format!("{:019}", pass.token().get()))
            .arg(pass.claim().to_string())
            .arg(value);
        call.invoke_async(&mut self.connection.clone()).await
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> Fence for RedisFence<C> {
    type Value = [u8];
    type Error = RedisError;

    /// One round trip.
    async fn write(&self, pass: &Pass, value: &[u8]) -> Result<(), FenceError<RedisError>> {
        let refused_by = self.invoke(pass, value).await.map_err(FenceError::Store)?;
        let Some(record) = refused_by else {
            return Ok(());
        };
        // The script has refused, so this is an error even if the client would admit the pass.
        pass.after(Some(&readable(&record)?))?;
        Err(unreadable(&record))
    }

    async fn highest(&self) -> Result<Option<Pass>, FenceError<RedisError>> {
        let mut connection = self.connection.clone();
        let get = redis::cmd("GET").arg(&self.fence[..]).to_owned();
        let record: Option<Vec<u8>> = get
            .query_async(&mut connection)
            .await
            .map_err(FenceError::Store)?;
        record.map(|record| readable(&record)).transpose()
    }
}

/// `{key}:fence`, or `key:fence` where the key has a hash tag of its own.
fn fence_key(key: &[u8]) -> Vec<u8> {
    let open = key.iter().position(|byte| *byte == b'{');
    let tag = open.and_then(|open| key[open + 1..].iter().position(|byte| *byte == b'}'));
    let (before, after): (&[u8], &[u8]) = match tag {
        Some(length) if length > 0 => (b"", b":fence"),
        _ => (b"{", b"}:fence"),
    };
    [before, key, after].concat()
}

fn record(pass: &Pass) -> String {
    format!("{:019}.{}", pass.token().get(), pass.claim())
}

fn unreadable(record: &[u8]) -> FenceError<RedisError> {
    FenceError::unreadable(String::from_utf8_lossy(record))
}

/// A token in 19 digits, a point, a claim: exactly as [`WRITE`] stores it, or it is no record.
fn readable(bytes: &[u8]) -> Result<Pass, FenceError<RedisError>> {
    let pass = || {
        let (token, claim) = std::str::from_utf8(bytes).ok()?.split_once('.')?;
        let token = Token::try_from(token.parse::<u64>().ok()?).ok()?;
        let pass = Pass::new(token, claim.parse().ok()?);
        (record(&pass).as_bytes() == bytes).then_some(pass)
    };
    pass().ok_or_else(|| unreadable(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_and_fence_share_a_slot() {
        assert_eq!(fence_key(b"stock"), b"{stock}:fence");
        assert_eq!(fence_key(b"{shop}stock"), b"{shop}stock:fence");
    }
}
