//! `etcd://h1,h2,h3/prefix`: the lists live in etcd, and a majority of its members decides.
//!
//! # How it works
//!
//! A claim is a key `PREFIX/NAME/TICKET`; its *create revision* is its order number, and so its token: etcd
//! counts revisions for all keys together, and never back. Entering is one transaction that makes the key and
//! reads who is ahead; where nobody is expected, a smaller one comes first that makes it only if nobody is there.
//! Releasing deletes it. Whoever waits watches the key of the one before it. The rule is
//! applied to the list as it was read: what is ahead of a claim can only leave, never come. A claim that had to wait and
//! holds on says so in its key, so that the next one need not read the list when that one leaves.
//!
//! **Leases.** A keeper has one etcd lease for each length of lease in use, in whole seconds, and its claims of
//! that length share it: ten thousand claims are kept alive by one message. A claim that is no longer renewed,
//! although others keep its lease alive, is deleted by its keeper at its own end. The claims of a process that was killed
//! go when etcd ends the lease: it looks twice a second, so up to half a second later, and later still after a
//! change of leader. Nobody believes longer for that: belief counts from the sending of the last keep-alive,
//! on this side's clock.
//!
//! **No requests while nothing changes.** A renewal is answered from what is known, if the revision that comes
//! with the keep-alive says that nothing has been written since. Where there are several members, one may lag, so one reading is asked for. Of many claims
//! one question tells which keys are still bound to their lease.
//!
//! **Late entries.** A transaction without an answer may still be carried out. Since the lease is shared, what
//! it leaves behind would be kept alive; so every entry also compares the keeper's *session key*, and taking out a
//! claim whose entry was not answered changes that key in the same step.
//!
//! # Together with Go's `concurrency.Mutex` and `etcdctl lock`
//!
//! They make a key `PFX/LEASE` and wait for all older keys below `PFX/`; with `PFX` = `PREFIX/NAME` they and
//! lockkeeper wait for each other in the order of arrival. To lockkeeper their keys are exclusive claims; to
//! them every claim of lockkeeper is exclusive, also a reader's. Names other than letters, digits and `._-:@+,=` are written
//! with `%` and two hex digits.
//!
//! # Rights
//!
//! One role, with read and write on the prefix, nothing else:
//!
//! ```text
//! etcdctl role add locks
//! etcdctl role grant-permission locks --prefix=true readwrite /lockkeeper/
//! ```
//!
//! Whoever has it can break any claim: etcd compares no claim ids. A claim's id is not in etcd: its key has a
//! digest of it.
//!
//! # What to know before relying on it
//!
//! - Leases are whole seconds there, and not shorter than 1.5 election timeouts; shorter ones are refused.
//! - A holder that is cut off learns of its end by its own clock. One that is paused learns of it afterwards: fence
//!   the resource.
//! - A leader that was stalled may, as it wakes up, have leases ended that its successor keeps alive (seen on 3.4.23 and
//!   on 3.5.17). No client can prevent that: the holder is told, but the next one holds some milliseconds
//!   before.
//! - A server whose database is full grants nothing, but releases and breaks claims; of what is broken then it
//!   keeps no record.
//! - Lock-delay is not offered: etcd deletes the keys of a lease at its end, and cannot hold them back.

mod backend;
mod background;
mod claims;
mod client;
mod config;
mod doctor;
mod enter;
mod faults;
mod grpc;
mod inspect;
mod keep_alive;
mod keys;
mod leases;
mod list;
mod proto;
mod renew;
mod roll;
mod shared;
mod socket;
mod watch;

use std::sync::Arc;
use std::time::Duration;

pub use config::Config;

use self::backend::EtcdBackend;
use self::client::Client;
use self::doctor::Examined;
use self::faults::Fault;
use self::keys::Keys;
use self::proto::{Grant, GrantAnswer, Members, Nothing, Range, Status, method};
use self::shared::{Parts, Shared};
use crate::backend::Backend;
use crate::error::Error;
use crate::guarantees::{Class, Guarantees};
use crate::lifecycle::deadline::Clock;

const BACKEND: &str = "etcd";
/// How long connecting waits for one answer.
const HELLO_WITHIN: Duration = Duration::from_secs(3);
/// The shortest lease of a server with the usual settings, in seconds.
const UNKNOWN_FLOOR: u64 = 2;

/// Connects, for one keeper.
///
/// # Errors
/// [`Error::Unreachable`] when no member answers, [`Error::Denied`] when the server does not let us in or is not
/// trusted, [`Error::Refused`] when it is too old.
///
/// # Cancel safety
/// Cancel safe: a dropped call leaves a lease of a second behind, at most.
pub async fn connect(config: &Config, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    let client = Arc::new(Client::connect(config).await?);
    let examined = match examine(&client, config).await {
        Err(error) if config.tls.is_some() => return Err(faults::hung_up(error)),
        examined => examined?,
    };
    let shared = Shared::start(Parts {
        guarantees: guarantees(&examined),
        keys: Keys::under(&config.prefix),
        place: config.place(),
        voters: examined.voters,
        client,
        clock,
    });
    Ok(Arc::new(EtcdBackend(shared)))
}

async fn examine(client: &Arc<Client>, config: &Config) -> Result<Examined, Error> {
    let probe = Grant {
        ttl: 1,
        id: leases::new_id()?,
    };
    // Whoever may not read the prefix learns it now, not with the first lock.
    let glance = Range {
        limit: 1,
        ..list::whole(&Keys::under(&config.prefix).all())
    };
    let (status, members, granted, seen) = tokio::join!(
        client.ask::<_, Status>(method::STATUS, &Nothing {}, HELLO_WITHIN),
        client.ask::<_, Members>(method::MEMBERS, &Nothing {}, HELLO_WITHIN),
        client.ask::<_, GrantAnswer>(method::GRANT, &probe, HELLO_WITHIN),
        client.range(&glance, HELLO_WITHIN),
    );
    seen?;
    let status = status?.answer;
    if doctor::parsed(&status.version).is_some_and(|version| version < (3, 4, 0)) {
        return Err(Error::Refused {
            backend: BACKEND,
            why: format!(
                "the server is version {}; 3.4 or later is needed",
                status.version
            ),
        });
    }
    let floor = match granted {
        Ok(told) => u64::try_from(told.answer.ttl).ok(),
        // The first answer was lost; what it said is not known.
        Err(Fault::LeaseExists) => Some(UNKNOWN_FLOOR),
        // A full server grants nothing, but what is there can be looked at and released.
        Err(Fault::Full | Fault::Told(Error::Refused { .. })) => None,
        Err(fault) => return Err(fault.into()),
    };
    let client = client.clone();
    tokio::spawn(async move { leases::revoke(&client, probe.id).await });
    let voters = members.map_or(0, |told| {
        let members = told.answer.members.iter();
        members.filter(|member| !member.is_learner).count()
    });
    Ok(Examined {
        status,
        voters,
        floor,
        tls: config.tls.is_some(),
        login: config.user.is_some(),
    })
}

/// How long one member is waited for: where there is another one, it gets its chance within the call.
fn patience(lease: Duration, members: usize) -> Duration {
    if members == 1 {
        (lease / 3).clamp(Duration::from_millis(200), Duration::from_secs(5))
    } else {
        (lease / 7).clamp(Duration::from_millis(150), Duration::from_secs(2))
    }
}

fn guarantees(examined: &Examined) -> Guarantees {
    let (class, reason) = match examined.voters {
        0 => (
            Class::Durable,
            "the server does not say how many members it has",
        ),
        1 => (Class::Durable, "one member: it does not outlive its disk"),
        2 => (Class::Durable, "two members: neither may be lost"),
        _ => (Class::Consensus, ""),
    };
    let mut caveats = vec![
        "a process that is paused past the end of its lease goes on believing: fence the resource".into(),
        "the claims of a killed process go up to half a second after their lease, and later after a change of leader".into(),
        "whoever may write under the prefix can break claims".into(),
    ];
    if examined.voters != 1 {
        caveats.push("a leader that was stalled may end leases that its successor keeps alive: their holders are told, but the next ones hold some milliseconds before; fence the resource".into());
    }
    caveats.extend(doctor::findings(examined));
    Guarantees {
        class_reason: reason.into(),
        survives: vec![
            "a killed process, holding or waiting",
            "a killed or paused member, leader or not, as long as a majority is up",
            "a partition: the minority grants nothing",
            "a wrong or jumping wall clock, here or there",
            "a restart of all members",
        ],
        caveats,
        clock: "the leader's monotonic clock, and our own boot-time clock, whichever ends first",
        token: "the revision at which the claim was made; it rises as long as etcd is not restored from an older copy".into(),
        shortest_lease: Duration::from_secs(examined.floor.unwrap_or(UNKNOWN_FLOOR)),
        ..Guarantees::of(BACKEND, class)
    }
}
