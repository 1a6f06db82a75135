//! Which nodes make the set, and how it treats leases and lost data: from a URL.

use std::time::Duration;

use crate::backends::redis::node::{Access, Node, PORT};
use crate::backends::url::Url;
use crate::error::Error;

/// The longest lease unless the URL says otherwise: as long as a node that lost its data abstains.
const LONGEST_LEASE: Duration = Duration::from_secs(60);
/// More nodes make nothing safer that is worth asking them.
const MOST_NODES: usize = 15;
/// Which keys the nodes have and what is in them: keepers that keep the numbers elsewhere must not ask the same nodes.
const LAYOUT: u32 = 2;
const KNOWN: &str = "prefix, longest-lease, fresh, tls and ca";

/// The nodes of a set, and its settings.
#[derive(Debug, Clone)]
pub struct Config {
    pub(super) nodes: Vec<Node>,
    pub(super) prefix: String,
    pub(super) longest_lease: Duration,
    /// The operator says that these nodes have never held a lock.
    pub(super) fresh: bool,
}

impl Config {
    /// From `redlock://user:password@h1,h2,h3?prefix=redlock&longest-lease=60s`.
    ///
    /// `fresh=yes` lets nodes without data vote at once: only for nodes that never held locks.
    /// List and `longest-lease` must be the same for all keepers: the nodes refuse others.
    /// `tls=on` or `off`; on is the default unless all nodes are on this machine; `ca=FILE` names the
    /// authorities to trust instead of the system's.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the URL is anything else; unknown settings are refused.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let mut url = Url::parse(url)?;
        if url.scheme != "redlock" || !url.path.is_empty() {
            return Err(Error::invalid(
                "redlock://h1,h2,h3 was expected, without a path",
            ));
        }
        let encrypted = match url.setting("tls")?.as_deref() {
            None => !url.is_loopback(),
            Some("on") => true,
            Some("off") => false,
            Some(other) => return Err(wrong("tls", other, "on or off")),
        };
        let access = Access::from_url(&mut url, encrypted)?;
        let nodes = nodes(&url.hosts, &access)?;
        let longest_lease = match url.setting("longest-lease")? {
            None => LONGEST_LEASE,
            Some(text) => span(&text)?,
        };
        let fresh = match url.setting("fresh")?.as_deref() {
            None | Some("no") => false,
            Some("yes") => true,
            Some(other) => return Err(wrong("fresh", other, "yes or no")),
        };
        let prefix = prefix(url.setting("prefix")?)?;
        url.nothing_left(KNOWN)?;
        Ok(Self {
            nodes,
            prefix,
            longest_lease,
            fresh,
        })
    }

    /// What all keepers of a set must have in common, in words: the nodes, in an order that does not
    /// depend on how they were written, the longest lease, which is how long a node rests, and where everything is kept.
    pub(super) fn set(&self) -> String {
        let longest = self.longest_lease.as_millis();
        format!(
            "{} longest-lease={longest}ms layout={LAYOUT}",
            sorted(&self.nodes).join(",")
        )
    }

    /// A short name of the set, which every node stores and every question carries.
    pub(super) fn digest(&self) -> String {
        let hash = self
            .set()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        format!("{hash:016x}")
    }

    /// For people, without secrets.
    pub(super) fn place(&self) -> String {
        let nodes = sorted(&self.nodes).join(",");
        format!("redlock://{nodes}?prefix={}", self.prefix)
    }
}

fn sorted(nodes: &[Node]) -> Vec<String> {
    let mut all: Vec<String> = nodes.iter().map(Node::to_string).collect();
    all.sort();
    all
}

fn wrong(name: &str, value: &str, expected: &str) -> Error {
    Error::invalid(format!(
        "redlock: {name}={value:?} is not known: write {expected}"
    ))
}

fn nodes(hosts: &[(String, Option<u16>)], access: &Access) -> Result<Vec<Node>, Error> {
    let node = |(host, port): &(String, Option<u16>)| {
        Node::at(host.as_str(), port.unwrap_or(PORT), access)
    };
    let nodes: Vec<Node> = hosts.iter().map(node).collect();
    let count = nodes.len();
    if !(3..=MOST_NODES).contains(&count) || count.is_multiple_of(2) {
        return Err(Error::invalid(format!(
            "redlock: {count} nodes: name an odd number from 3 to {MOST_NODES}; an even one survives no more \
             failures than one less"
        )));
    }
    let mut distinct = sorted(&nodes);
    distinct.dedup();
    if distinct.len() < count {
        return Err(Error::invalid(
            "redlock: a node stands twice in the list: it would vote twice",
        ));
    }
    Ok(nodes)
}

fn prefix(text: Option<String>) -> Result<String, Error> {
    let prefix = text.unwrap_or_else(|| "redlock".into());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.chars().all(plain) {
        return Err(Error::invalid(
            "redlock: a prefix is 1 to 64 letters, digits or any of - _ . : /",
        ));
    }
    Ok(prefix)
}

/// `500ms`, `60s`, `5m`, `1h`.
fn span(text: &str) -> Result<Duration, Error> {
    let wrong = || {
        wrong(
            "longest-lease",
            text,
            "a time from 1s to 24h such as 90s or 5m",
        )
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: u64 = digits.parse().map_err(|_| wrong())?;
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    let span = Duration::from_millis(count.saturating_mul(unit));
    let possible = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
    possible.contains(&span).then_some(span).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_settings() {
        let url = "redlock://me:hush@b:2,a,c?prefix=x&longest-lease=5m&fresh=yes&tls=off";
        let config = Config::from_url(url).unwrap();
        assert_eq!(config.place(), "redlock://a:6379,b:2,c:6379?prefix=x");
        assert_eq!(config.longest_lease, Duration::from_secs(300));
        assert!(config.fresh);
        assert!(!format!("{config:?}").contains("hush"));
    }

    #[test]
    fn the_order_of_the_list_does_not_matter() {
        let digest = |url| Config::from_url(url).unwrap().digest();
        let one = digest("redlock://localhost:1,localhost:2,localhost:3");
        assert_eq!(one, digest("redlock://localhost:3,localhost:1,localhost:2"));
        assert_ne!(one, digest("redlock://localhost:4,localhost:1,localhost:2"));
        let longer = "redlock://localhost:1,localhost:2,localhost:3?longest-lease=5m";
        assert_ne!(one, digest(longer));
    }

    #[test]
    fn what_is_wrong_is_refused_with_the_reason() {
        for (bad, why) in [
            ("redlock://127.0.0.1", "odd"),
            ("redlock://127.0.0.1:1,127.0.0.1:2", "odd"),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4",
                "odd",
            ),
            ("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:1", "twice"),
            ("redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/1", "path"),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?lease=3s",
                "longest-lease",
            ),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?longest-lease=1",
                "90s",
            ),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?longest-lease=9d",
                "90s",
            ),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?fresh=maybe",
                "yes or no",
            ),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?prefix=a*",
                "prefix",
            ),
            (
                "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?was=a,b,c",
                "was",
            ),
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
            assert!(error.to_string().contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn other_machines_are_spoken_to_in_secret() {
        let tls = |url| Config::from_url(url).unwrap().nodes[0].access.tls.is_some();
        assert!(!tls("redlock://127.0.0.1:1,localhost:2,[::1]:3"));
        assert!(!tls("redlock://a,b,c?tls=off"));
    }
}
