//! Encrypted connections: only the right certificate will do, and nothing falls back to plain text.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use lockkeeper::Error;
use lockkeeper::backend::Entry;
use lockkeeper_testbed::Postgres;

use crate::stage::{backend, claim, order, try_backend, until};

fn certificate(directory: &Path, host: &str) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
    std::fs::write(directory.join("ca.pem"), made.cert.pem()).unwrap();
    made
}

/// Turns TLS on in a running server; its key must be its user's.
fn encrypt(server: &Postgres, made: &rcgen::CertifiedKey<rcgen::KeyPair>) {
    let directory = server.server().directory();
    let owner = std::fs::metadata(directory.join("data")).unwrap();
    let (cert, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    for file in [&cert, &key] {
        chown(file, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    for (setting, file) in [("ssl_cert_file", &cert), ("ssl_key_file", &key)] {
        let sql = format!("ALTER SYSTEM SET {setting} = '{}'", file.display());
        server.sql(&sql).unwrap();
    }
    server.sql("ALTER SYSTEM SET ssl = on").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
}

// security S1
#[tokio::test]
async fn only_the_right_certificate_will_do() {
    let (good, wrong) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Postgres::start().unwrap();
    encrypt(&server, &certificate(good.path(), "127.0.0.1"));
    certificate(wrong.path(), "127.0.0.1");
    until("TLS is on", async || {
        server.sql("SHOW ssl").unwrap() == "on"
    })
    .await;
    let address = server.address();
    let url = |host: &str, ca: &Path| {
        let ca = ca.join("ca.pem").display().to_string();
        format!(
            "postgres://postgres@{host}:{}/postgres?ca={ca}",
            address.port()
        )
    };
    for mode in ["lease", "session"] {
        let url = format!("{}&mode={mode}", url("127.0.0.1", good.path()));
        let one = backend(&url).await;
        let held = claim("a");
        order(one.enter(&held, Entry::Queue).await.unwrap());
        // Waiting and leaving the line speak to the server by another connection.
        let waits = claim("a");
        one.enter(&waits, Entry::Queue).await.unwrap();
        one.release(&waits).await.unwrap();
        one.release(&held).await.unwrap();
        let plain = "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                     WHERE a.application_name = 'lockkeeper' AND NOT s.ssl";
        assert_eq!(server.sql(plain).unwrap(), "0", "{mode}");
    }
    for bad in [
        url("127.0.0.1", wrong.path()),
        // The right authority, another name.
        url("localhost", good.path()),
    ] {
        let error = try_backend(&bad).await.unwrap_err();
        assert!(matches!(error, Error::Denied { .. }), "{bad}: {error}");
        assert!(error.to_string().contains("certificate"), "{bad}: {error}");
    }
}
