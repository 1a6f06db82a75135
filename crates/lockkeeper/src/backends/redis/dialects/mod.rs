//! Dialects: locks that are shared with services which use somebody else's client.
//!
//! `redis://host?dialect=simple` is one plain key, the lock's name itself: `SET NX PX`, compare and
//! delete, what redis-py's `Lock` and the Redlock libraries do on one node. `dialect=redisson` is the hash
//! of Redisson's `RLock`, with its message when the lock is free. `&prefix=app:` is put before every name
//! to make the key.
//!
//! A dialect is a *gate*: a few Lua functions that ask, take and free the strangers' lock (`lua/simple.lua`,
//! `lua/redisson.lua`). In front of it the lockkeepers stand in a line of their own (`lua/line.lua`), and its
//! head alone asks the gate. So lockkeepers are served in order and disturb nobody, their tokens rise, and
//! inspection shows them; against strangers chance decides, as between strangers. For that a release frees
//! the gate instead of handing it on: whoever is next in line would otherwise keep the strangers out.
//!
//! ```text
//! <prefix><name>                   the gate, as the dialect demands; below it is called <key>
//! lockkeeper.dialect:line:<key>    claim ids by order number
//! lockkeeper.dialect:ends:<key>    claim ids by the end of their lease
//! lockkeeper.dialect:claims:<key>  who asks, and whether it holds
//! lockkeeper.dialect:names         all <key>s, by the end of their last lease
//!                                  (these four are gone with the last claim)
//! lockkeeper.dialect:order         the last order number
//! lockkeeper.dialect:broken        what operators broke, the newest first; gone 30 days after the last
//! lockkeeper.dialect:probe:<k>     what keeper k tries its rights on while it connects
//! lockkeeper.dialect:wake:<k>      channel: claims of keeper k that should look
//! ```
//!
//! Our own keys go by the key of the gate, not by prefix and name: `prefix=app:` with the name `x` and no
//! prefix with the name `app:x` are one lock, so they are one line and draw from one counter.
//!
//! A user needs no more than this, which is tried when connecting (but for `ping`, and for `info` and
//! `config|get`, which only let it see how the server stores). A URL with a database other than 0 needs
//! `+select` too; `dialect=simple` needs neither `&redisson_lock__channel:*` nor `+unsubscribe`.
//!
//! ```text
//! ACL SETUSER locks on >PASSWORD ~<prefix>* ~lockkeeper.dialect:* &lockkeeper.dialect:*
//!   &redisson_lock__channel:* -@all +eval +evalsha +time +exists +get +set +del +hset +hget +hdel +hexists
//!   +hkeys +zadd +zrem +zrank +zscore +zrange +zrangebyscore +zremrangebyscore +zscan +pexpire +pttl
//!   +publish +subscribe +unsubscribe +lpush +ltrim +ping +info +config|get
//! ```

mod backend;
mod client;
mod config;
mod ears;

use std::sync::Arc;

pub use config::{Config, Kind};

use super::doctor::{self, Facts};
use crate::backend::Backend;
use crate::error::Error;
use crate::guarantees::{Guarantees, Modes, Order, WakeBy};
use crate::lifecycle::deadline::Clock;
use backend::DialectBackend;
use client::Client;

/// Connects, as the dialect's URL says.
///
/// # Errors
/// [`Error::Unreachable`] when the server does not answer, [`Error::Denied`] when it does not let us in,
/// [`Error::Refused`] when it cannot keep locks.
///
/// # Cancel safety
/// Cancel safe: a dropped call leaves no connection.
pub async fn connect(config: &Config, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    let (client, facts) = Client::connect(config).await?;
    Ok(Arc::new(DialectBackend {
        client,
        clock,
        guarantees: guarantees(config.kind, &facts),
    }))
}

/// What the server itself makes possible, less what is lost by sharing locks with others.
fn guarantees(kind: Kind, facts: &Facts) -> Guarantees {
    let unfenced = "other clients share the lock, and their critical sections are unfenced: they carry no token";
    let (backend, wake, news) = match kind {
        Kind::Simple => (
            "redis?dialect=simple",
            WakeBy::Poll,
            "a release by another client is noticed by looking, about every 100 ms",
        ),
        Kind::Redisson => (
            "redis?dialect=redisson",
            WakeBy::Push,
            "what Redisson takes as a fair, read-write or multi lock counts as held by another client",
        ),
    };
    let mut all = doctor::guarantees(std::slice::from_ref(facts), &[unfenced]);
    all.caveats.extend(
        [
            "other clients and lockkeepers are served by chance; lockkeepers among themselves in order",
            "the list of all names leaves out those that only other clients use",
            news,
        ]
        .map(str::to_owned),
    );
    Guarantees {
        backend,
        token:
            "one counter, never below the server's time in microseconds: it rises over data loss \
                unless the server's clock is set back at the same time"
                .into(),
        wake,
        order: Order::Chance,
        modes: Modes {
            shared: false,
            permits: false,
        },
        ..all
    }
}
