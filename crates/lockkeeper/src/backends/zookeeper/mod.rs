//! `zookeeper://h1,h2,h3/chroot`: claims are ephemeral sequential nodes, and live by the keeper's session.
//!
//! # Where the locks live
//!
//! | node | what it is |
//! |---|---|
//! | `<chroot>/<name>` | a container; the servers remove it some time after its last claim has left |
//! | `<chroot>/<name>/_c_<uuid>-lock-<number>` | an exclusive claim as Curator's `InterProcessMutex` writes it |
//! | `<chroot>/<name>/<uuid>__lock__<number>` | the same as kazoo's `Lock` writes it (`?style=kazoo`) |
//! | `…shared-lock-<number>`, `…permits.2.5-lock-<number>` | a shared claim, one for 2 of 5 permits |
//! | `<chroot>/%broken` | the latest claims that operators broke, and why |
//!
//! A name is one path element; what a path cannot have is written `%XX`, the slash too. So Curator's
//! `InterProcessMutex(client, "/locks/orders")` and kazoo's `Lock("/locks/orders")` contend with the name
//! `orders` under `zookeeper://…/locks`. We wait for both whatever our own style is; each of them waits
//! for those called its own way only. Children that look like nobody's claim are ignored.
//!
//! # How it works
//!
//! Entering makes the node and lists its siblings in one round trip; the transaction that made the node
//! (`czxid`) is the order number, and the claim id in the node's name finds it again when the reply was
//! lost. Releasing deletes it. A waiter watches the one node ahead whose leaving can let it in, and knows by
//! its last listing whether it holds then, without asking. A hold that lasts watches its own node: who is broken
//! by an operator learns it at once.
//!
//! A renewal asks for a sign of life: a ping, or where servers are several a `sync`, which is the leader's word that
//! the session lives. That nothing happened to its nodes is known by their watches. Leases of single claims are kept by
//! this process: it deletes the nodes of those that were not renewed. If it is dead, the session ends, and
//! everything with it.
//!
//! # What to know before relying on it
//!
//! - No lease is shorter than the session's timeout (`?session=`, as far as the servers agree), because a
//!   killed process's claims stay that long. However long a lease is, a hold is believed in for no longer
//!   than the session surely lasts after an answer: its timeout on one server, 81 % of it on several,
//!   since followers tell the leader of our requests with a delay of up to half a tick. That leaves room
//!   for it if the timeout is at least five ticks of the servers.
//! - Whoever may write below the path may delete any claim. Use `user:password@`; then every node is that
//!   user's alone, and all who share the locks connect as that user, over TLS.
//! - Curator's and kazoo's read-write locks do not see our exclusive claims on the same path the way we see
//!   theirs: share exclusive locks with them, not read-write ones.
//! - ZooKeeper 3.6 or later.

mod backend;
mod claims;
mod client;
mod config;
mod entering;
mod escape;
mod familiar;
mod holding;
mod inspecting;
mod line;
mod looking;
mod names;
mod note;
mod renewing;
mod shared;
mod waiting;
mod wire;

use std::sync::Arc;

pub use config::Config;
pub use names::Style;

use self::backend::ZooKeeperBackend;
use self::client::{Session, Voters};
use self::shared::Shared;
use crate::backend::Backend;
use crate::error::Error;
use crate::guarantees::{Class, Guarantees};
use crate::lifecycle::deadline::Clock;

const BACKEND: &str = "zookeeper";

/// Opens a session with the ensemble, for one keeper.
///
/// # Errors
/// [`Error::Unreachable`] when no server answers, [`Error::Invalid`] when a file for TLS is of no use.
///
/// # Cancel safety
/// Cancel safe: a dropped call leaves at most a session without nodes, which ends by itself.
pub async fn connect(config: &Config, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    let session = Session::open(config, &clock).await?;
    let guarantees = guarantees(&session);
    let shared = Shared::new(config.clone(), clock.clone(), guarantees, session.clone());
    let shared = Arc::new(shared);
    tokio::spawn(shared::keep_beat(Arc::downgrade(&session), clock.clone()));
    let tasks = [
        tokio::spawn(shared::keep_session(Arc::downgrade(&shared), session)).abort_handle(),
        tokio::spawn(shared::end_leases(Arc::downgrade(&shared), clock.clone())).abort_handle(),
        tokio::spawn(holding::mind_all(Arc::downgrade(&shared), clock)).abort_handle(),
    ];
    Ok(Arc::new(ZooKeeperBackend { shared, tasks }))
}

fn guarantees(session: &Session) -> Guarantees {
    let (class, reason) = match session.voters {
        Voters::Many(voters @ 3..) => (Class::Consensus, format!("{voters} servers vote")),
        Voters::One => (
            Class::Durable,
            "one server: it does not outlive its disk".into(),
        ),
        Voters::Many(_) => (
            Class::Durable,
            "fewer than three servers vote: none of them can be lost".into(),
        ),
        Voters::Unknown => (
            Class::Durable,
            "the servers do not tell how many they are: let this user read /zookeeper/config"
                .into(),
        ),
    };
    let mut survives = vec![
        "a killed process, holding or waiting",
        "a lost connection that comes back within the session's timeout",
        "a restart of the servers, their disks kept",
        "a wrong or jumping wall clock, on either side",
    ];
    if class == Class::Consensus {
        survives.push("the loss of a minority of the servers, the leader included");
        survives.push("a partition: a minority grants nothing");
    }
    Guarantees {
        class_reason: reason,
        survives,
        caveats: vec![
            "a process that is paused past the end of its lease goes on believing: fence the resource".into(),
            "servers that do not wait for their disks (forceSync=no), which they do not tell, may forget grants in a power cut".into(),
            format!("claims live by the session: after {:?} without an answer a hold is lost, however long its lease", session.silence),
            "the session's timeout should be five ticks of the servers or more".into(),
            "how long ago a claim came is told by the wall clocks of both sides".into(),
        ],
        clock: "the servers' monotonic clocks, and this machine's boot-time clock",
        token: "the transaction that made the claim's node; it rises as long as the servers' data is neither deleted nor restored".into(),
        shortest_lease: session.timeout,
        longest_silence: session.silence,
        ..Guarantees::of(BACKEND, class)
    }
}
