//! Who is let in, and what must never be shown.

use lockkeeper::Error;
use lockkeeper::backend::Entry;
use lockkeeper_testbed::{Redis, Setup};

use crate::stage::{backend, exclusive, order, try_backend};

const PASSWORD: &str = "hush-hush";

fn guarded() -> Redis {
    let server = Redis::start().unwrap();
    let password = format!(">{PASSWORD}");
    let user = [
        "ACL", "SETUSER", "me", "on", &password, "~lk:*", "&lk:*", "+@all",
    ];
    server.ask(&user).unwrap();
    server
}

// A script that may not run its last command has still run the others: found out at the door.
#[tokio::test]
async fn a_user_who_may_not_run_everything_is_told_what_is_missing() {
    let server = guarded();
    for (taken, word) in [
        ("-pexpire", "+pexpire"),
        ("-hset", "+hset"),
        ("-publish", "+publish"),
        ("-evalsha", "evalsha"),
        ("-subscribe", "subscribe"),
    ] {
        server.ask(&["ACL", "SETUSER", "me", taken]).unwrap();
        let url = format!("redis://me:{PASSWORD}@{}", server.address());
        let told = try_backend(&url).await.unwrap_err();
        assert!(matches!(told, Error::Denied { .. }), "{told}");
        assert!(told.to_string().contains(word), "{told}");
        assert!(!format!("{told} {told:?}").contains(PASSWORD));
        server.ask(&["ACL", "SETUSER", "me", "+@all"]).unwrap();
    }
    let keys = server.ask(&["DBSIZE"]).unwrap().text();
    assert_eq!(keys, "0", "the probe leaves nothing");
    let other = format!("redis://me:{PASSWORD}@{}?prefix=other", server.address());
    let told = try_backend(&other).await.unwrap_err();
    assert!(matches!(told, Error::Denied { .. }), "{told}");
}

#[tokio::test]
async fn wrong_passwords_are_denied_and_no_password_is_shown() {
    let server = guarded();
    for (user, password) in [("me", "wrong-one"), ("nobody", "wrong-one")] {
        let url = format!("redis://{user}:{password}@{}", server.address());
        let told = try_backend(&url).await.unwrap_err();
        assert!(matches!(told, Error::Denied { .. }), "{told}");
        assert!(!format!("{told} {told:?}").contains(password), "{told:?}");
    }
    server
        .ask(&["CONFIG", "SET", "requirepass", PASSWORD])
        .unwrap();
    let told = try_backend(&format!("redis://{}", server.address()))
        .await
        .unwrap_err();
    assert!(matches!(told, Error::Denied { .. }), "{told}");
    let one = backend(&format!("redis://me:{PASSWORD}@{}", server.address())).await;
    let shown = format!("{one:?} {} {:?}", one.place(), one.guarantees());
    assert!(!shown.contains(PASSWORD), "{shown}");
    order(one.enter(&exclusive("n"), Entry::Try).await.unwrap());
}

// Encrypted, with an authority of one's own; no process-wide crypto provider is installed for it.
#[tokio::test]
async fn an_encrypted_connection_trusts_whom_it_is_told_to() {
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name).display().to_string();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    std::fs::write(file("cert"), made.cert.pem()).unwrap();
    std::fs::write(file("key"), made.signing_key.serialize_pem()).unwrap();
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(file("other"), other.cert.pem()).unwrap();

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let setup = Setup::new()
        .setting("tls-port", &port)
        .setting("tls-cert-file", &file("cert"))
        .setting("tls-key-file", &file("key"))
        .setting("tls-ca-cert-file", &file("cert"))
        .setting("tls-auth-clients", "no");
    let server = Redis::start_with(&setup).unwrap();

    let one = backend(&format!("rediss://127.0.0.1:{port}?ca={}", file("cert"))).await;
    order(one.enter(&exclusive("n"), Entry::Try).await.unwrap());
    assert!(one.place().starts_with("rediss://"));
    for url in [
        format!("rediss://127.0.0.1:{port}?ca={}", file("other")),
        format!("rediss://{}?ca={}", server.address(), file("cert")),
        format!("redis://127.0.0.1:{port}"),
    ] {
        let told = try_backend(&url).await.unwrap_err();
        assert!(told.is_unknown(), "{told}");
    }
}
