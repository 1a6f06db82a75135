//! TLS: a server is trusted for its certificate and its host name, or not spoken to.

use std::net::TcpListener;

use lockkeeper::{Error, Keeper};
use lockkeeper_testbed::{Setup, ZooKeeper};

use crate::papers::Papers;
use crate::stage::{SOON, server};

impl Papers {
    /// A server that has this certificate, and its port for TLS.
    fn server(&self, name: &str, client_auth: &str) -> (ZooKeeper, u16) {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let factory = "org.apache.zookeeper.server.NettyServerCnxnFactory";
        let text = |file: &str| self.file(file).display().to_string();
        let setup = Setup::new()
            .setting("serverCnxnFactory", factory)
            .setting("secureClientPort", &port.to_string())
            .setting("secureClientPortAddress", "127.0.0.1")
            .setting("ssl.keyStore.location", &text(&format!("{name}.pem")))
            .setting("ssl.trustStore.location", &text("ca.pem"))
            .setting("ssl.clientAuth", client_auth);
        (ZooKeeper::start_with(&setup).unwrap(), port)
    }

    fn url(&self, host: &str, port: u16, more: &str) -> String {
        let ca = self.file("ca.pem");
        format!(
            "zookeeper://me:hunter2@{host}:{port}/locks?ca={}{more}",
            ca.display()
        )
    }
}

async fn is_refused(url: &str) {
    match Keeper::connect(url).await {
        Err(error @ Error::Unreachable { .. }) => {
            let text = error.to_string();
            assert!(
                text.contains("certificate") && !text.contains("hunter2"),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
}

// S1: no silent downgrade, no certificate of somebody else's, none for another host, none that is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_trusted_or_not_spoken_to() {
    let papers = Papers::new();
    papers.sign("good", "localhost", 2100);
    let (_server, port) = papers.server("good", "none");
    let keeper = Keeper::connect(&papers.url("localhost", port, ""))
        .await
        .unwrap();
    let guard = keeper.lock("a").acquire_within(SOON).await.unwrap();
    guard.release().await.unwrap();
    // The certificate is not for this name of the host.
    is_refused(&papers.url("127.0.0.1", port, "")).await;
    // Not of an authority that is trusted.
    is_refused(&Papers::new().url("localhost", port, "")).await;
    let system = format!("zookeeper://localhost:{port}/locks?tls=on");
    is_refused(&system).await;
    // A server that speaks plain text only is not spoken to in plain text.
    is_refused(&papers.url("localhost", server().address().port(), "")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_over_is_refused() {
    let papers = Papers::new();
    papers.sign("old", "localhost", 2021);
    let (_server, port) = papers.server("old", "none");
    is_refused(&papers.url("localhost", port, "")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_to_know_us_is_told_who_we_are() {
    let papers = Papers::new();
    papers.sign("server", "localhost", 2100);
    papers.sign("client", "localhost", 2100);
    let (_server, port) = papers.server("server", "need");
    is_refused(&papers.url("localhost", port, "")).await;
    let keeper = Keeper::connect(&papers.url("localhost", port, &papers.shown("client")))
        .await
        .unwrap();
    let guard = keeper.lock("a").acquire_within(SOON).await.unwrap();
    guard.release().await.unwrap();
    // A file that is no certificate is named.
    let key = papers.file("client.key").display().to_string();
    let wrong = format!("&cert={key}&key={key}");
    let told = Keeper::connect(&papers.url("localhost", port, &wrong)).await;
    assert!(matches!(told, Err(Error::Invalid { .. })), "{told:?}");
}
