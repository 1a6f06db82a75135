//! The wire: one session with the ensemble, and what the client's errors mean for the caller.

use std::sync::Arc;
use std::time::Duration;

use super::BACKEND;
use super::config::{Config, Tls};
use super::wire as zk;
use crate::backends::tls::introducing;
use crate::error::Error;
use crate::lifecycle::deadline::Clock;

/// A session: ephemeral nodes live by it, and its requests are carried out in the order in which they
/// are sent.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: zk::Client,
    /// What the server agreed to.
    pub(super) timeout: Duration,
    /// After so long without an answer the session may be over; see [`super`].
    pub(super) silence: Duration,
    pub(super) voters: Voters,
}

/// How many servers vote, as far as they tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voters {
    One,
    Many(usize),
    Unknown,
}

/// For so long a server that does not answer is tried again, for it may be busy or about to come up.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

impl Session {
    /// A new session, if a server answers soon.
    pub(super) async fn open(config: &Config, clock: &Clock) -> Result<Arc<Self>, Error> {
        let until = clock.now() + PATIENCE;
        loop {
            match Self::open_once(config, clock).await {
                Err(error) if error.is_unknown() && clock.now() < until => {
                    clock.sleep_until(clock.now() + PAUSE).await;
                }
                told => return told,
            }
        }
    }

    async fn open_once(config: &Config, clock: &Clock) -> Result<Arc<Self>, Error> {
        let settings = zk::Settings {
            hosts: hosts(config),
            timeout: config.session,
            digest: config
                .digest
                .as_ref()
                .map(|digest| format!("{}:{}", digest.user, digest.password)),
            tls: config.tls.as_ref().map(tls_settings).transpose()?,
        };
        let client = zk::Client::connect(settings, clock.clone()).await;
        let client = client.map_err(|error| match error {
            zk::Error::NoHosts => not_there(config),
            error => fault(&format!("connecting to {}", config.place()), error),
        })?;
        let timeout = client.timeout();
        let voters = voters(&client).await;
        let silence = match voters {
            Voters::One => timeout,
            Voters::Many(_) | Voters::Unknown => timeout * 81 / 100,
        };
        Ok(Arc::new(Self {
            client,
            timeout,
            silence,
            voters,
        }))
    }

    /// How often the session is to be heard of, so that [`Session::silence`] holds; `None` where the server
    /// that answers is the one that counts.
    pub(super) fn beat(&self) -> Option<Duration> {
        (self.voters != Voters::One).then(|| self.timeout / 12)
    }

    pub(super) fn id(&self) -> i64 {
        self.client.id()
    }

    pub(super) fn is_over(&self) -> bool {
        self.client.is_over()
    }
}

fn not_there(config: &Config) -> Error {
    let hint = match &config.tls {
        Some(_) => {
            "is it up, does it speak TLS on this port, and is its certificate for this host name and by a trusted authority (see ca=)?"
        }
        None => "is it up, and does it expect plain text on this port?",
    };
    Error::Unreachable {
        backend: BACKEND,
        during: format!("connecting to {} ({hint})", config.place()),
        source: None,
    }
}

fn hosts(config: &Config) -> Vec<(String, u16)> {
    let hosts = config.hosts.iter();
    hosts.map(|host| (host.name.clone(), host.port)).collect()
}

/// Where the ensemble says who belongs to it.
const SERVERS: &str = "/zookeeper/config";

/// How many servers vote, from the ensemble's own configuration.
async fn voters(client: &zk::Client) -> Voters {
    match client.data(SERVERS).await {
        Ok((data, _)) => {
            let text = String::from_utf8_lossy(&data);
            let servers = text.lines().filter(|line| line.starts_with("server."));
            let (all, voting) = servers.fold((0, 0), |(all, voting), line| {
                (all + 1, voting + usize::from(!line.contains(":observer")))
            });
            // An observer tells the leader of us as late as a follower does.
            match all {
                0 | 1 => Voters::One,
                _ => Voters::Many(voting),
            }
        }
        Err(_) => Voters::Unknown,
    }
}

fn tls_settings(tls: &Tls) -> Result<Arc<rustls::ClientConfig>, Error> {
    let identity = tls.certificate.as_deref().zip(tls.key.as_deref());
    introducing(tls.authorities.as_deref(), identity).map(Arc::new)
}

/// What a client's error means. Whatever is not known to have changed nothing may have changed anything.
pub(super) fn fault(during: &str, error: zk::Error) -> Error {
    let refused = |why: &str| Error::Refused {
        backend: BACKEND,
        why: format!("{why} ({during})"),
    };
    match error {
        zk::Error::NoAuth => Error::Denied {
            backend: BACKEND,
            what: format!(
                "{during}: the node belongs to another user; connect as that user (user:password@), or have its access list changed"
            ),
        },
        zk::Error::AuthFailed => Error::Denied {
            backend: BACKEND,
            what: format!("{during}: the servers do not accept this user"),
        },
        zk::Error::InvalidAcl => Error::Denied {
            backend: BACKEND,
            what: format!("{during}: the servers do not know this user's kind of authentication"),
        },
        zk::Error::QuotaExceeded => {
            refused("a quota of the servers is exceeded: raise it, or leave fewer claims waiting")
        }
        zk::Error::Unimplemented => refused(
            "the servers are too old: container nodes and listing of ephemeral ones need 3.6",
        ),
        zk::Error::NoChildrenForEphemerals => {
            refused("a node on the way is somebody's ephemeral node: choose another path")
        }
        error => Error::Unreachable {
            backend: BACKEND,
            during: during.to_owned(),
            source: Some(Arc::new(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each kind of answer, and what the caller is to do about it: ask again, or not.
    #[test]
    fn what_is_not_known_to_be_without_effect_is_unknown() {
        use zk::Error as Zk;
        let unknown = [
            Zk::ConnectionLoss,
            Zk::SessionExpired,
            Zk::Closed,
            Zk::NoHosts,
            Zk::Garbled,
            Zk::Code(-1),
            Zk::NoNode,
        ];
        for error in unknown {
            assert!(fault("a test", error.clone()).is_unknown(), "{error}");
        }
        let definite = [
            Zk::NoAuth,
            Zk::AuthFailed,
            Zk::InvalidAcl,
            Zk::QuotaExceeded,
            Zk::Unimplemented,
        ];
        for error in definite {
            assert!(!fault("a test", error.clone()).is_unknown(), "{error}");
        }
    }
}
