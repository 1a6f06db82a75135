//! `redlock://h1,h2,h3,h4,h5`: independent Redis nodes (7.0 or later, or Valkey), of which a majority
//! decides.
//!
//! **A vote.** Every verb asks all nodes at the same time and returns as soon as a majority of **all** of
//! them, down ones included, has decided; one dead or slow node costs nothing. A claim holds when a majority
//! has stored it under the same number and enough of its lease is left: lease, less the time of asking, less
//! what clocks may drift apart. Otherwise everything is given back at once, on every node that did not
//! refuse. Renewing needs a majority too, and puts the claim back on nodes that lost it.
//!
//! **Keys**, on each node: `PREFIX:lock:NAME` is whoever has this node's vote, with the server's expiry;
//! `PREFIX:line:NAME` and `PREFIX:wait:NAME` are who waits, and `PREFIX:flag:NAME` that somebody does; `PREFIX:node`
//! is the marker and the counters; `PREFIX:broken` the last claims that operators broke.
//!
//! **The token** is offered with the question, one above the highest number that the keeper has heard of. A
//! node stores it if it is above all that the node has seen. A majority that granted and stored the same
//! number needs no second round; otherwise a higher one is written back until a majority has stored it, and
//! only then the claim holds. `tests.rs` searches all orders of events of small sets for a token that does
//! not rise or a second holder, and finds them as soon as any part of this is left out.
//!
//! **Waiting.** There is no common queue, so order is chance. A release makes each node tell one waiter;
//! whoever loses a split vote gives its votes back and asks again after a random while.
//!
//! **Lost data.** A node whose marker is missing, or that was restarted and did not write every change to disk
//! before, may have forgotten grants. It abstains for the longest lease that the set allows (`longest-lease`),
//! by its own clock, then gets the highest number of a majority of the others, then votes again. Keepers see
//! to all of that; a holder that it forgot may put its claim back meanwhile. Where no majority has kept its
//! numbers, as in a new set, all nodes must answer for it to begin. A new set rests as well, unless the URL says
//! `fresh=yes`: write that only for nodes that never held locks, and take it out afterwards. A node that may evict
//! keys (`maxmemory-policy` other than `noeviction`) has no vote.
//!
//! **Members.** The marker names the list of nodes, the longest lease and the layout of the keys; a keeper with others
//! is refused. To change them, stop all keepers, wait for one longest lease, delete `PREFIX:node` on every node of both lists,
//! and start all keepers with the new URL. To replace a node by an empty one under the same address nothing is
//! to be done.
//!
//! **Least privilege.** A user needs no more than
//!
//! ```text
//! ACL SETUSER locks on >PASSWORD ~redlock:* &redlock:wake:* -@all +eval +evalsha +script|load +time +get +set +del
//!   +pexpire +pttl +hset +hget +hmget +hgetall +hdel +zadd +zrem +zrange +publish +subscribe +lpush +ltrim +scan
//!   +ping +info +config|get
//! ```
//!
//! of which `config|get` only lets it see whether a node keeps its data over a restart.

mod backend;
mod ballot;
mod care;
mod config;
mod debts;
mod ear;
mod member;
mod quorum;
mod set;
#[cfg(test)]
mod tests;
mod view;
mod wire;

use std::sync::Arc;

pub use config::Config;

use crate::backend::{Backend, Bell};
use crate::error::Error;
use crate::guarantees::{Class, Guarantees, Modes, Order};
use crate::lifecycle::deadline::Clock;

/// The backend's name in errors.
const REDLOCK: &str = "redlock";

/// Connects one keeper.
///
/// # Errors
/// [`Error::Unreachable`] when no majority answers, [`Error::Denied`] when a majority does not let this user in,
/// [`Error::Refused`] when a node belongs to another set or stands in the list under two names.
///
/// # Cancel safety
/// Cancel safe: a dropped call leaves no connection behind.
pub async fn connect(config: &Config, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    let bell = Bell::default();
    let set = set::Set::connect(config, &clock, keeper()?, &bell).await?;
    Ok(Arc::new(backend::Redlock {
        set,
        bell,
        guarantees: guarantees(config),
        place: config.place(),
        held: std::sync::Mutex::default(),
    }))
}

/// A name for this keeper's channel that no other keeper has: 16 letters.
fn keeper() -> Result<String, Error> {
    let bits = getrandom::u64().map_err(|source| Error::Unreachable {
        backend: REDLOCK,
        during: "making a name for the keeper".into(),
        source: Some(Arc::new(source)),
    })?;
    Ok(format!("{bits:016x}"))
}

fn guarantees(config: &Config) -> Guarantees {
    let nodes = config.nodes.len();
    Guarantees {
        class_reason: "a majority of the nodes decides by their clocks: a node's clock that jumps while no more than a \
                       majority has the claim, or a holder that is stopped between the check of its lease and its \
                       write, can make two holders"
            .into(),
        survives: vec![
            "the loss of a minority of the nodes",
            "nodes that lose their data or are restarted",
            "wall clocks that jump on so few nodes that a majority still has the claim",
            "lost, late and repeated messages",
        ],
        caveats: vec![
            format!("fewer than {} of {nodes} nodes: no lock is granted or renewed", nodes / 2 + 1),
            format!(
                "a node that was emptied or restarted does not vote for {:?}, the longest lease",
                config.longest_lease
            ),
            "a set that is new, or that lost most of its data, begins only when all its nodes answer".into(),
            "waiters are served as chance has it; shared locks and semaphores are refused".into(),
        ],
        clock: "the wall clocks of a majority of the nodes, and the keeper's boot-time clock",
        token: "the highest number that a majority has seen, plus one, stored by a majority before the grant; \
                when a majority has lost its data at once, the nodes' clocks in microseconds, so it then rises \
                unless they were set back"
            .into(),
        order: Order::Chance,
        modes: Modes {
            shared: false,
            permits: false,
        },
        longest_lease: config.longest_lease,
        ..Guarantees::of(REDLOCK, Class::BestEffort)
    }
}
