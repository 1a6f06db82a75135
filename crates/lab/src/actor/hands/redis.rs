//! Redis: raw commands of the naive locks, and the resource that all stories write to.

use std::collections::HashMap;
use std::time::Duration;

use lockkeeper_fence::redis::RedisFence;
use lockkeeper_fence::{Fence, FenceError, Pass};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::Result;
use crate::actor::deeds::Answer;

/// Slower than this is a broken lab, on any machine.
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);

/// One connection per server.
#[derive(Default)]
pub(super) struct Connections {
    open: HashMap<String, MultiplexedConnection>,
}

impl Connections {
    async fn to(&mut self, address: &str) -> Result<MultiplexedConnection> {
        if let Some(open) = self.open.get(address) {
            return Ok(open.clone());
        }
        let client = redis::Client::open(format!("redis://{address}"))?;
        // A story may hold an answer back for as long as it likes, and a machine may be slow to connect.
        let patient = redis::AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(Some(CONNECTED_WITHIN));
        let fresh = client
            .get_multiplexed_async_connection_with_config(&patient)
            .await?;
        self.open.insert(address.to_owned(), fresh.clone());
        Ok(fresh)
    }

    pub(super) async fn command(&mut self, address: &str, words: &[String]) -> Result<Answer> {
        let (first, rest) = words.split_first().ok_or("no command")?;
        let mut connection = self.to(address).await?;
        let asked: redis::RedisResult<Value> = redis::cmd(first)
            .arg(rest)
            .query_async(&mut connection)
            .await;
        match asked {
            Ok(value) => Ok(answer(value)),
            // A server's error is an answer; a broken connection is none.
            Err(error) if error.code().is_some() => Ok(Answer::Failed(error.to_string())),
            Err(error) => {
                self.open.remove(address);
                Ok(Answer::Unknown(error.to_string()))
            }
        }
    }

    pub(super) async fn write(
        &mut self,
        address: &str,
        key: &str,
        value: &str,
        pass: Option<Pass>,
    ) -> Result<Answer> {
        let Some(pass) = pass else {
            let set = ["SET", key, value, "GET"].map(str::to_owned);
            return self.command(address, &set).await;
        };
        let fence = RedisFence::new(self.to(address).await?, key);
        match fence.write(&pass, value.as_bytes()).await {
            Ok(()) => Ok(Answer::Accepted {
                token: pass.token().get(),
            }),
            Err(FenceError::Refused(refusal)) => Ok(Answer::Refused {
                offered: refusal.offered().get(),
                highest: refusal.highest().get(),
            }),
            Err(error) => Ok(Answer::Unknown(error.to_string())),
        }
    }
}

fn answer(value: Value) -> Answer {
    match value {
        Value::Nil => Answer::Nothing,
        other => Answer::Text(text(&other)),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Okay => "OK".to_owned(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}
