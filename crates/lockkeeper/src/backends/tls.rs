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
    #[cfg_attr(
        not(any(feature = "redis", feature = "postgres", feature = "mysql")),
        allow(dead_code)
    )]
    pub(crate) fn trusting(ca: Option<&str>) -> Result<Self, Error> {
        let (config, certificates) = trusting(ca)?;
        Ok(Self(
            Arc::new(config.with_no_client_auth()),
            certificates.into(),
        ))
    }
}

/// Settings that trust the same, and show a certificate with its key, from PEM files, to servers that want to know us.
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
pub(crate) fn introducing(
    ca: Option<&str>,
    identity: Option<(&str, &str)>,
) -> Result<rustls::ClientConfig, Error> {
    use rustls::pki_types::PrivateKeyDer;

    let (config, _) = trusting(ca)?;
    let Some((cert, key)) = identity else {
        return Ok(config.with_no_client_auth());
    };
    let wrong = |error: &dyn fmt::Display| unreadable("the certificate", "cert", cert, error);
    let shown = certificates("cert", cert)?;
    if shown.is_empty() {
        return Err(wrong(&"there is none in it"));
    }
    let secret = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| unreadable("the key", "key", key, &error))?;
    config
        .with_client_auth_cert(shown, secret)
        .map_err(|error| wrong(&error))
}

type Trusting = rustls::ConfigBuilder<rustls::ClientConfig, rustls::client::WantsClientCert>;

fn trusting(ca: Option<&str>) -> Result<(Trusting, Vec<CertificateDer<'static>>), Error> {
    let mut roots = rustls::RootCertStore::empty();
    let authorities = match ca {
        Some(file) => certificates("ca", file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    // Of the system's, some old ones may be unreadable; one's own must be right.
    let (_, unreadable) = roots.add_parsable_certificates(authorities.iter().cloned());
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
        .with_root_certificates(roots);
    Ok((config, authorities))
}

/// The certificates in the file that this setting names.
fn certificates(setting: &str, file: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |error: &dyn fmt::Display| unreadable("the certificates", setting, file, error);
    let pem = std::fs::read(file).map_err(|error| wrong(&error))?;
    CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(&error))
}

fn unreadable(what: &str, setting: &str, file: &str, error: &dyn fmt::Display) -> Error {
    Error::invalid(format!(
        "{what} of {setting}={file} cannot be read: {error}"
    ))
}
