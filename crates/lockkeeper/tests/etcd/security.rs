//! Who gets in, and over which kind of line.

use std::path::Path;
use std::time::Duration;

use lockkeeper::Error;
use lockkeeper::backend::Query;
use lockkeeper_testbed::{Etcd, Proxy, Setup};
use tokio::time::{sleep, timeout};

use crate::papers::Papers;
use crate::stage::{LEASE, acquires, keeper_at, try_keeper};

const PASSWORD: &str = "sesame-9f3c";

/// A server with logins: `keeper` may use `/locks/`, `reader` may look at it.
fn guarded() -> Etcd {
    let server = Etcd::start().unwrap();
    let root = format!("root:{PASSWORD}");
    let keeper = format!("keeper:{PASSWORD}");
    let reader = format!("reader:{PASSWORD}");
    for command in [
        &["user", "add", &root][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "locks"],
        &[
            "role",
            "grant-permission",
            "locks",
            "--prefix=true",
            "readwrite",
            "/locks/",
        ],
        &["user", "add", &keeper],
        &["user", "grant-role", "keeper", "locks"],
        &["role", "add", "looks"],
        &[
            "role",
            "grant-permission",
            "looks",
            "--prefix=true",
            "read",
            "/locks/",
        ],
        &["user", "add", &reader],
        &["user", "grant-role", "reader", "looks"],
        &["auth", "enable"],
    ] {
        server.ctl(command).unwrap();
    }
    server
}

fn assert_denied<T: std::fmt::Debug>(told: Result<T, Error>) {
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
async fn a_user_with_a_role_on_the_prefix() {
    let server = guarded();
    let at = server.address();
    let keeper = keeper_at(&format!("etcd://keeper:{PASSWORD}@{at}/locks")).await;
    let guard = acquires(keeper.lock("a")).await;
    assert!(!keeper.place().contains(PASSWORD));
    assert!(!format!("{keeper:?}").contains(PASSWORD));
    // Outside of it nothing can be had.
    assert_denied(try_keeper(&format!("etcd://keeper:{PASSWORD}@{at}/other")).await);
    // With the right to read one can look, and nothing else.
    let reader = keeper_at(&format!("etcd://reader:{PASSWORD}@{at}/locks")).await;
    assert_eq!(reader.inspect(&Query::All).await.unwrap().len(), 1);
    assert_denied(reader.lock("b").try_acquire().await);
    assert_denied(reader.evict(guard.name(), guard.token(), "no right").await);
    guard.check().expect("untouched");
    guard.release().await.expect("released");
}

// security S2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_no_login_is_denied() {
    let server = guarded();
    let at = server.address();
    for credentials in ["", "keeper:hunter2@", "nobody:hunter2@"] {
        assert_denied(try_keeper(&format!("etcd://{credentials}{at}/locks")).await);
    }
}

/// A restart forgets all tokens; the keeper logs in again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_was_forgotten_is_repeated() {
    let server = guarded();
    let at = server.address();
    let url = format!("etcd://keeper:{PASSWORD}@{at}/locks");
    let (one, two) = (keeper_at(&url).await, keeper_at(&url).await);
    let lease = Duration::from_secs(15);
    let guard = acquires(one.lock("a").lease(lease)).await;
    let waiting = tokio::spawn(acquires(two.lock("a").lease(lease)));
    sleep(Duration::from_millis(500)).await;
    server.server().restart().unwrap();
    sleep(lease).await;
    guard.check().expect("renewed with a new token");
    assert!(!waiting.is_finished(), "two holders");
    guard.release().await.expect("released");
    let guard = waiting.await.expect("granted");
    guard.release().await.expect("released");
}

async fn forgets_logins(server: &Etcd) {
    // What is not yet on disk would be carried out again after the restart, the login too.
    sleep(Duration::from_secs(1)).await;
    server.server().restart().unwrap();
}

/// While one question logs in again, the others wait for it: none is refused for want of a token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_denied_while_another_logs_in() {
    let server = guarded();
    let at = server.address();
    let keeper = keeper_at(&format!("etcd://keeper:{PASSWORD}@{at}/locks")).await;
    let lease = Duration::from_secs(20);
    let _held = acquires(keeper.lock("a").lease(lease)).await;
    forgets_logins(&server).await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..50 {
        let lock = keeper.lock(format!("n{n}")).lease(lease);
        tasks.spawn(async move { drop(acquires(lock).await) });
        sleep(Duration::from_millis(10)).await;
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("acquired");
    }
}

/// A login that was not answered is repeated by the next question.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_fails_is_repeated() {
    let server = guarded();
    let proxy = Proxy::to(server.address()).unwrap();
    let at = proxy.address();
    let keeper = keeper_at(&format!("etcd://keeper:{PASSWORD}@{at}/locks")).await;
    forgets_logins(&server).await;
    // The token is refused; the answer to the login comes when nobody waits for it any more.
    proxy.delay_replies(Duration::from_millis(2500)).unwrap();
    let lock = keeper.lock("a").lease(Duration::from_secs(20));
    let told = timeout(Duration::from_secs(12), lock.clone().try_acquire()).await;
    let denied = matches!(told, Ok(Err(Error::Denied { .. })));
    assert!(!denied, "{told:?}");
    proxy.heal().unwrap();
    acquires(lock).await.release().await.expect("released");
}

/// A server with TLS whose certificate is for this name or address.
fn with_tls(directory: &Path, host: &str) -> Etcd {
    let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
    let (certificate, key) = (directory.join("cert.pem"), directory.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let setup = Setup::new()
        .setting("cert-file", &certificate.display().to_string())
        .setting("key-file", &key.display().to_string());
    Etcd::start_with(&setup).unwrap()
}

// security S1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_right_certificate_will_do() {
    let (good, wrong) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = with_tls(good.path(), "127.0.0.1");
    let misnamed = with_tls(wrong.path(), "other.example");
    let ca =
        |directory: &tempfile::TempDir| directory.path().join("cert.pem").display().to_string();
    let url = format!("etcd://{}/locks?ca={}", server.address(), ca(&good));
    let keeper = keeper_at(&url).await;
    let guard = acquires(keeper.lock("a").lease(LEASE)).await;
    sleep(2 * LEASE).await;
    guard.check().expect("kept");
    guard.release().await.expect("released");

    let at = server.address();
    // Signed by nobody whom the system knows, by somebody else, or for another name.
    assert_denied(try_keeper(&format!("etcd://{at}/locks?tls=on")).await);
    assert_denied(try_keeper(&format!("etcd://{at}/locks?ca={}", ca(&wrong))).await);
    let at = misnamed.address();
    assert_denied(try_keeper(&format!("etcd://{at}/locks?ca={}", ca(&wrong))).await);
    // Nobody falls back to plain text, on either side.
    let plain = Etcd::start().unwrap();
    let told = try_keeper(&format!("etcd://{}/locks?tls=on", plain.address())).await;
    assert!(told.is_err(), "plain text instead of TLS");
    let told = try_keeper(&format!("etcd://{}/locks?tls=off", server.address())).await;
    assert!(told.is_err(), "plain text instead of TLS");
}

/// One of two members has a certificate that nobody trusts. It is passed over.
// security S1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_not_trusted_is_passed_over() {
    let (good, wrong) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = with_tls(good.path(), "127.0.0.1");
    let misnamed = with_tls(wrong.path(), "other.example");
    let proxy = Proxy::to(server.address()).unwrap();
    let ca = good.path().join("cert.pem").display().to_string();
    let members = format!("{},{}", proxy.address(), misnamed.address());
    let keeper = keeper_at(&format!("etcd://{members}/locks?ca={ca}")).await;
    let lease = Duration::from_secs(20);
    let guard = acquires(keeper.lock("a").lease(lease)).await;
    proxy.cut().unwrap();
    let told = keeper.lock("b").lease(lease).try_acquire().await;
    assert!(told.is_err_and(|error| error.is_unknown()), "not definite");
    proxy.heal().unwrap();
    let _other = acquires(keeper.lock("b").lease(lease)).await;
    sleep(lease / 2).await;
    guard.check().expect("kept");
    guard.release().await.expect("released");
}

/// A server that lets in only whom its authority has signed.
fn that_wants_certificates(papers: &Papers) -> Etcd {
    let file = |name: &str| papers.file(name).display().to_string();
    let setup = Setup::new()
        .setting("cert-file", &file("server.crt"))
        .setting("key-file", &file("server.key"))
        .setting("trusted-ca-file", &file("ca.pem"))
        .setting("client-cert-auth", "true");
    Etcd::start_with(&setup).unwrap()
}

// security S1, S2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_to_know_us_is_told_who_we_are() {
    let (papers, strangers) = (Papers::new(), Papers::new());
    papers.sign("server", "127.0.0.1", 2100);
    papers.sign("client", "client", 2100);
    papers.sign("old", "client", 2021);
    strangers.sign("client", "client", 2100);
    let server = that_wants_certificates(&papers);
    let ca = papers.file("ca.pem");
    let at = format!("etcd://{}/locks?ca={}", server.address(), ca.display());
    let keeper = keeper_at(&(at.clone() + &papers.shown("client"))).await;
    let guard = acquires(keeper.lock("a").lease(LEASE)).await;
    sleep(2 * LEASE).await;
    guard.check().expect("kept");
    guard.release().await.expect("released");

    // No certificate, one of somebody else's authority, one that is over. Whether the server's reason arrives before it
    // hangs up is chance; what to do about it is told in any case.
    for shown in [
        String::new(),
        strangers.shown("client"),
        papers.shown("old"),
    ] {
        let error = try_keeper(&(at.clone() + &shown)).await;
        let error = error.expect_err("it was let in");
        let is_right = matches!(error, Error::Denied { .. } | Error::Unreachable { .. });
        let said = error.to_string();
        assert!(
            is_right && said.contains("cert=FILE and key=FILE"),
            "{said}"
        );
    }
    // Files that are no certificate and key are named, and not shown.
    let key = papers.file("client.key").display().to_string();
    let told = try_keeper(&format!("{at}&cert={key}&key={key}")).await;
    assert!(matches!(told, Err(Error::Invalid { .. })), "{told:?}");
    assert!(!format!("{told:?}").contains("PRIVATE KEY"), "{told:?}");
}
