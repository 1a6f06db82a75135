//! One server: where it is and how it lets us in.

use std::fmt;

use crate::backends::tls::Tls;
use crate::backends::url::Url;
use crate::error::Error;

/// The port of Redis.
pub(crate) const PORT: u16 = 6379;

/// One server: where it is and how it lets us in. `Debug` and `Display` show no secret.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) access: Access,
}

/// How a server lets us in: alike for all nodes of a Sentinel set, a cluster, or a Redlock.
#[derive(Clone, Default)]
pub(crate) struct Access {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: i64,
    pub(crate) tls: Option<Tls>,
}

impl Node {
    /// The same way in, at another place.
    pub(crate) fn at(host: impl Into<String>, port: u16, access: &Access) -> Self {
        Self {
            host: host.into(),
            port,
            access: access.clone(),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({self}, {:?})", self.access)
    }
}

impl Access {
    /// From the URL's user, password and, with `encrypted`, its setting `ca`.
    pub(crate) fn from_url(url: &mut Url, encrypted: bool) -> Result<Self, Error> {
        let ca = url.setting("ca")?;
        let tls = match (encrypted, ca) {
            (true, ca) => Some(Tls::trusting(ca.as_deref())?),
            (false, None) => None,
            (false, Some(_)) => {
                let cure = "ca= is for encrypted connections: write rediss:// or leave it out";
                return Err(Error::invalid(cure));
            }
        };
        Ok(Self {
            user: url.user.clone(),
            password: url.password.clone(),
            db: 0,
            tls,
        })
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret = self.password.as_ref().map(|_| "***");
        f.debug_struct("Access")
            .field("user", &self.user)
            .field("password", &secret)
            .field("db", &self.db)
            .field("tls", &self.tls.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let mut url = Url::parse("redis://me:hush@h:7?x=1").unwrap();
        let access = Access::from_url(&mut url, false).unwrap();
        let node = Node::at("h", 7, &access);
        let shown = format!("{node} {node:?} {access:?}");
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains("h:7") && shown.contains("me"), "{shown}");
        assert_eq!(Node::at("::1", 7, &access).to_string(), "[::1]:7");
    }

    #[test]
    fn an_unreadable_authority_is_refused() {
        let mut url = Url::parse("rediss://h?ca=/nowhere/ca.pem").unwrap();
        let error = Access::from_url(&mut url, true).unwrap_err();
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
        let mut url = Url::parse("redis://h?ca=/nowhere/ca.pem").unwrap();
        assert!(Access::from_url(&mut url, false).is_err());
    }
}
