//! Who gets in, and over which kind of line.

use lockkeeper::{Error, Keeper};
use lockkeeper_testbed::{MariaDb, Setup};

use crate::stage::Corner;

const PASSWORD: &str = "sesame-9f3c";

fn assert_denied(told: Result<Keeper, Error>) {
    let Err(error @ Error::Denied { .. }) = told else {
        panic!("it was let in, or told otherwise: {told:?}");
    };
    let shown = format!("{error} {error:?}");
    assert!(
        !shown.contains(PASSWORD) && !shown.contains("hunter2"),
        "{shown}"
    );
}

// security S2, S3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_no_login_or_no_right_is_denied() {
    let server = MariaDb::start().unwrap();
    let users = format!(
        "CREATE DATABASE locks; CREATE USER keeper@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'; \
         CREATE USER reader@'127.0.0.1'; GRANT ALL ON locks.* TO keeper@'127.0.0.1'; \
         GRANT SELECT ON locks.* TO reader@'127.0.0.1'"
    );
    server.sql(&users).unwrap();
    let at = server.address();
    for credentials in ["keeper:hunter2@", "keeper@", "nobody:hunter2@"] {
        assert_denied(Keeper::connect(&format!("mysql://{credentials}{at}/locks")).await);
    }
    assert_denied(Keeper::connect(&format!("mysql://keeper:{PASSWORD}@{at}/mysql")).await);
    // Whoever may only read can neither make the tables nor write to them.
    assert_denied(Keeper::connect(&format!("mysql://reader@{at}/locks")).await);
    let keeper = Keeper::connect(&format!("mysql://keeper:{PASSWORD}@{at}/locks"))
        .await
        .unwrap();
    assert!(!format!("{keeper:?} {}", keeper.place()).contains(PASSWORD));
    keeper
        .lock("n")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let reader = Keeper::connect(&format!("mysql://reader@{at}/locks"))
        .await
        .unwrap();
    let told = reader.lock("n").try_acquire().await.unwrap_err();
    assert!(matches!(told, Error::Denied { .. }), "{told}");
    assert!(told.to_string().contains("lockkeeper init"), "{told}");
}

/// Encrypted and checked, or not at all.
// security S1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_is_checked_and_nothing_falls_back_to_plain_text() {
    let plain = MariaDb::start().unwrap();
    let corner = Corner::lease(plain.address());
    assert_denied(Keeper::connect(&format!("{}&tls=on", corner.url())).await);

    let directory = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let inside = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(inside("cert"), certificate.pem()).unwrap();
    std::fs::write(inside("key"), key.serialize_pem()).unwrap();
    for file in [
        directory.path().display().to_string(),
        inside("cert"),
        inside("key"),
    ] {
        use std::os::unix::fs::PermissionsExt;
        // The server runs as another user.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let setup = Setup::new()
        .setting("ssl-cert", &inside("cert"))
        .setting("ssl-key", &inside("key"));
    let server = MariaDb::start_with(&setup).unwrap();
    let corner = Corner::lease(server.address());
    // Not one of the system's authorities.
    assert_denied(Keeper::connect(&format!("{}&tls=on", corner.url())).await);
    let trusting = format!("{}&ca={}", corner.url(), inside("cert"));
    let keeper = Keeper::connect(&trusting).await.unwrap();
    keeper
        .lock("n")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    // Another name than the one that was asked for.
    assert_denied(Keeper::connect(&trusting.replace("127.0.0.1", "localhost")).await);
}
