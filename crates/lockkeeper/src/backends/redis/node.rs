//! One server: where it is and how it lets us in.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::url::Url;
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

/// The settings of an encrypted connection; made once, shared by all connections.
#[derive(Clone)]
pub(crate) struct Tls(pub(crate) Arc<rustls::ClientConfig>);

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

impl Tls {
    /// Trusts whoever the system trusts, or only the authorities in this PEM file.
    pub(crate) fn trusting(ca: Option<&str>) -> Result<Self, Error> {
        let mut roots = rustls::RootCertStore::empty();
        let certificates = match ca {
            Some(file) => authorities(file)?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        // Of the system's, some old ones may be unreadable; one's own must be right.
        let (_, unreadable) = roots.add_parsable_certificates(certificates);
        if roots.is_empty() || (ca.is_some() && unreadable > 0) {
            let place = ca.unwrap_or("the system's store");
            return Err(Error::invalid(format!(
                "no usable certificate authority in {place}: name a PEM file with ca=FILE"
            )));
        }
        // Given here, so that no process-wide provider is ever chosen behind the program's back.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::invalid(format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

fn authorities(file: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |error: &dyn fmt::Display| {
        Error::invalid(format!(
            "the certificates of ca={file} cannot be read: {error}"
        ))
    };
    let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
    CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(&error))
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
