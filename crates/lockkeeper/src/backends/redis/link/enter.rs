//! How a claim enters the queue: one script, chosen by what this connection knows of the bucket's counter.

use redis::{RedisError, Value};

use super::super::counters::Next;
use super::super::scripts::Numbering;
use super::super::wire::{self, Asking};
use super::{Link, Told};

impl Link {
    /// Enters a claim, and gives it a number; answers as the scripts do.
    pub(in super::super) async fn enter(
        &self,
        scripts: &Numbering,
        asking: &Asking<'_>,
    ) -> Result<Value, RedisError> {
        let pipe = self.connection().await?;
        let counter = pipe.counters().of(asking.bucket);
        let sent = self.clock.now();
        let next = counter.next(sent);
        let script = match next {
            Next::Raised => &scripts.lifting,
            Next::Counted => &scripts.counting,
            Next::Behind => &scripts.behind,
        };
        let claim = asking.claim();
        let (args, count) = asking.args(&claim);
        let call = (&**script, &asking.keys[..], &args[..count]);
        let told = self.call_on(&pipe, call, Told::InTurn).await?;
        if next == Next::Raised {
            counter.raised(sent);
        }
        counter.granted(wire::number(&told).is_some());
        Ok(told)
    }
}
