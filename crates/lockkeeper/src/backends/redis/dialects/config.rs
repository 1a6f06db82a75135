//! Which dialect on which server, from the URL.

use std::fmt;

use super::super::node::{Access, Node, PORT};
use crate::Name;
use crate::backends::url::Url;
use crate::claim::ClaimId;
use crate::error::Error;

/// All keys of our own begin so; no lock may. The prefix is no part of it: a key is one lock with one line,
/// through whichever prefix it is reached.
pub(super) const OWN: &str = "lockkeeper.dialect:";

const KNOWN: &str = "dialect, prefix and, with rediss, ca";

/// Whose locks are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// One plain key: redis-py's `Lock`, Redlock libraries on one node.
    Simple,
    /// The hash of Redisson's `RLock`.
    Redisson,
}

/// Which dialect on which server. `Debug` and `Display` show no secret.
#[derive(Debug, Clone)]
pub struct Config {
    pub(super) kind: Kind,
    pub(super) node: Node,
    encrypted: bool,
    prefix: String,
}

impl Config {
    /// Whether the URL asks for a dialect.
    pub fn is_for(url: &str) -> bool {
        let settings = url.split_once('?').map_or("", |(_, settings)| settings);
        settings.split('&').any(|one| one.starts_with("dialect="))
    }

    /// From `redis://user:password@host:port/database?dialect=simple&prefix=app:`, or `rediss://` and
    /// `dialect=redisson`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when something in the URL is wrong or unknown.
    pub fn from_url(text: &str) -> Result<Self, Error> {
        let mut url = Url::parse(text)?;
        let encrypted = match url.scheme.as_str() {
            "redis" => false,
            "rediss" => true,
            other => {
                return Err(Error::invalid(format!(
                    "{other}: has no dialects, because other clients there agree on less: use one \
                     server, redis:// or rediss://"
                )));
            }
        };
        let kind = match url.setting("dialect")?.as_deref() {
            Some("simple") => Kind::Simple,
            Some("redisson") => Kind::Redisson,
            _ => {
                let cure = "dialect= must be simple or redisson";
                return Err(Error::invalid(cure));
            }
        };
        let prefix = url.setting("prefix")?.unwrap_or_default();
        let mut access = Access::from_url(&mut url, encrypted)?;
        access.db = database(&url.path)?;
        let node = match url.hosts.as_slice() {
            [(host, port)] => Node::at(host, port.unwrap_or(PORT), &access),
            _ => {
                let cure = "a dialect lives on one server: name one host";
                return Err(Error::invalid(cure));
            }
        };
        url.nothing_left(KNOWN)?;
        Ok(Self {
            kind,
            node,
            encrypted,
            prefix,
        })
    }

    /// The key that strangers know the lock by.
    pub(super) fn key(&self, name: &Name) -> Result<String, Error> {
        let key = format!("{}{name}", self.prefix);
        if key.starts_with(OWN) {
            let what = format!("no lock may begin with {OWN:?}: choose another name");
            return Err(Error::invalid(what));
        }
        Ok(key)
    }

    /// The name of the lock at this key.
    pub(super) fn name(&self, key: &str) -> Option<Name> {
        Name::new(key.strip_prefix(&self.prefix)?).ok()
    }

    /// The claim's id as this dialect writes a holder.
    pub(super) fn holder(&self, id: ClaimId) -> String {
        let hex: String = id.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        match self.kind {
            Kind::Simple => hex,
            // Redisson's clients have a UUID each, and their threads a number.
            Kind::Redisson => {
                let parts = [
                    &hex[..8],
                    &hex[8..12],
                    &hex[12..16],
                    &hex[16..20],
                    &hex[20..],
                ];
                format!("{}:1", parts.join("-"))
            }
        }
    }

    /// The claim whose id was written so.
    pub(super) fn claim_of(holder: &[u8]) -> Option<ClaimId> {
        let text = std::str::from_utf8(holder).ok()?;
        let text = text.split(':').next()?.replace('-', "");
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
        }
        Some(ClaimId::from_bytes(bytes))
    }

    /// The channel on which strangers tell that the lock at this key is free, if they do.
    pub(super) fn channel(&self, key: &str) -> Option<String> {
        match self.kind {
            Kind::Simple => None,
            Kind::Redisson if key.contains('{') => Some(format!("redisson_lock__channel:{key}")),
            Kind::Redisson => Some(format!("redisson_lock__channel:{{{key}}}")),
        }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.encrypted { "rediss" } else { "redis" };
        let dialect = match self.kind {
            Kind::Simple => "simple",
            Kind::Redisson => "redisson",
        };
        let (node, database) = (&self.node, self.node.access.db);
        write!(f, "{scheme}://{node}/{database}?dialect={dialect}")?;
        match self.prefix.as_str() {
            "" => Ok(()),
            prefix => write!(f, "&prefix={prefix}"),
        }
    }
}

fn database(path: &str) -> Result<i64, Error> {
    let number = match path {
        "" => Some(0),
        digits => digits.parse().ok().filter(|number: &i64| *number >= 0),
    };
    number.ok_or_else(|| {
        Error::invalid(format!(
            "/{path} is no database: write its number, as in /0"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_in_all_its_parts() {
        let config =
            Config::from_url("redis://me:hush@h:7/3?dialect=redisson&prefix=app:").unwrap();
        assert_eq!(config.kind, Kind::Redisson);
        assert!(Config::is_for("redis://h?prefix=a&dialect=simple"));
        assert!(!Config::is_for("redis://h?prefix=dialect"));
        assert_eq!(
            config.to_string(),
            "redis://h:7/3?dialect=redisson&prefix=app:"
        );
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        let name: Name = "orders".parse().unwrap();
        assert_eq!(config.key(&name).unwrap(), "app:orders");
        assert_eq!(config.name("app:orders").unwrap(), name);
        assert_eq!(config.name("orders"), None);
    }

    #[test]
    fn wrong_ones_are_refused() {
        for bad in [
            "redis://h",
            "redis://h?dialect=other",
            "redis://h?dialect=simple&colour=red",
            "redis://h/x?dialect=simple",
            "redis://h/-1?dialect=simple",
            "redis://h1,h2?dialect=simple",
            "redis+cluster://h?dialect=simple",
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn ids_come_back_and_look_as_strangers_write_them() {
        let id = ClaimId::from_bytes(*b"0123456789abcdef");
        for (dialect, text) in [
            ("simple", "30313233343536373839616263646566"),
            ("redisson", "30313233-3435-3637-3839-616263646566:1"),
        ] {
            let config = Config::from_url(&format!("redis://h?dialect={dialect}")).unwrap();
            assert_eq!(config.holder(id), text);
            assert_eq!(Config::claim_of(text.as_bytes()), Some(id));
        }
        assert_eq!(Config::claim_of("é".repeat(16).as_bytes()), None);
        assert_eq!(Config::claim_of(b"short"), None);
    }

    #[test]
    fn our_own_keys_cannot_be_locked() {
        let config = Config::from_url("redis://h?dialect=simple").unwrap();
        let name = "lockkeeper.dialect:order".parse().unwrap();
        assert!(config.key(&name).is_err());
    }
}
