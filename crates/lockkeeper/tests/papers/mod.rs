//! An authority and what it signed, as files: for servers with TLS, and for clients that have to show who they are.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};

/// The authority itself is in `ca.pem`.
pub(crate) struct Papers {
    directory: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Papers {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap());
        let papers = Self {
            directory: tempfile::tempdir().unwrap(),
            authority: authority.unwrap(),
        };
        std::fs::write(papers.file("ca.pem"), papers.authority.pem()).unwrap();
        papers
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A certificate for `host`, good until this year, in `NAME.crt`, its key in `NAME.key`, both in `NAME.pem`.
    pub(crate) fn sign(&self, name: &str, host: &str, last_year: i32) {
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap().pem();
        let key = key.serialize_pem();
        std::fs::write(self.file(&format!("{name}.crt")), &certificate).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), &key).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), key + &certificate).unwrap();
    }

    /// The settings of a URL that show this certificate.
    pub(crate) fn shown(&self, name: &str) -> String {
        let (cert, key) = (format!("{name}.crt"), format!("{name}.key"));
        let (cert, key) = (self.file(&cert), self.file(&key));
        format!("&cert={}&key={}", cert.display(), key.display())
    }
}
