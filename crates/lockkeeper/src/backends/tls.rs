//! Encrypted connections by rustls: whom to trust, and nothing that would trust less.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::error::Error;

/// The settings of an encrypted connection; made once, shared by all connections.
#[derive(Clone)]
pub(crate) struct Tls(
    #[cfg_attr(not(any(feature = "redis", feature = "postgres")), allow(dead_code))]
    pub(crate)  Arc<rustls::ClientConfig>,
    /// Whom it trusts, for clients that make their own settings of it.
    #[cfg_attr(not(feature = "mysql"), allow(dead_code))]
    pub(crate) Arc<[CertificateDer<'static>]>,
);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
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
        let (_, unreadable) = roots.add_parsable_certificates(certificates.iter().cloned());
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
        Ok(Self(Arc::new(config), certificates.into()))
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
