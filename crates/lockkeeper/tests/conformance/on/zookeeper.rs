//! ZooKeeper for the laws: one server and three, each started with the first law that needs it. A law has
//! a path of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::Backend;
use lockkeeper::backends::zookeeper::{Config, connect};
use lockkeeper::conformance::Engine;
use lockkeeper_testbed::{ZooKeeper, ZooKeeperThree};
use zookeeper_client::Client;

/// The session's timeout, and so the shortest lease. Java machines beside the tests on two cores may be
/// silent for a second; and no law has more than six leases' time.
const SESSION: Duration = Duration::from_millis(1500);

pub(crate) struct One(Corner);
pub(crate) struct Three(Corner);

/// A path of its own on some servers.
struct Corner {
    hosts: Vec<SocketAddr>,
    path: String,
    session: Duration,
    connections: AtomicUsize,
    /// Looks only; the law's own connections may be deaf or cut off.
    sweeper: Client,
}

impl Corner {
    async fn on(hosts: Vec<SocketAddr>, session: Duration) -> Self {
        static CORNERS: AtomicUsize = AtomicUsize::new(0);
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        let sweeper = Client::connect(&hosts[0].to_string()).await;
        Self {
            hosts,
            path: format!("/laws/{corner}"),
            session,
            connections: AtomicUsize::new(0),
            sweeper: sweeper.expect("a server"),
        }
    }

    /// Each connection prefers another server.
    async fn backend(&self) -> Arc<dyn Backend> {
        let mut hosts: Vec<String> = self.hosts.iter().map(SocketAddr::to_string).collect();
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        hosts.rotate_left(number % self.hosts.len());
        let (hosts, path) = (hosts.join(","), &self.path);
        let session = self.session.as_millis();
        let url = format!("zookeeper://{hosts}{path}?session={session}ms");
        let config = Config::from_url(&url).expect("a good URL");
        let backend = connect(&config, Clock::system()).await;
        backend.expect("a server that answers")
    }

    /// How many nodes are below those of the names.
    async fn residue(&self) -> usize {
        self.sweeper.sync("/").await.expect("an answer");
        let names = self.sweeper.list_children(&self.path).await;
        let mut claims = 0;
        for name in names.unwrap_or_default() {
            let path = format!("{}/{name}", self.path);
            let below = self.sweeper.list_children(&path).await;
            claims += below.unwrap_or_default().len();
        }
        claims
    }
}

#[async_trait]
impl Engine for One {
    async fn start() -> Self {
        static SERVER: OnceLock<ZooKeeper> = OnceLock::new();
        let server = SERVER.get_or_init(|| ZooKeeper::start().expect("a ZooKeeper server"));
        Self(Corner::on(vec![server.address()], SESSION).await)
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        self.0.backend().await
    }

    async fn residue(&self) -> usize {
        self.0.residue().await
    }

    fn lease(&self) -> Duration {
        self.0.session
    }
}

#[async_trait]
impl Engine for Three {
    async fn start() -> Self {
        static SERVERS: OnceLock<ZooKeeperThree> = OnceLock::new();
        let servers = SERVERS.get_or_init(|| ZooKeeperThree::start().expect("three servers"));
        Self(Corner::on(servers.addresses(), SESSION).await)
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        self.0.backend().await
    }

    async fn residue(&self) -> usize {
        self.0.residue().await
    }

    fn lease(&self) -> Duration {
        self.0.session
    }
}
