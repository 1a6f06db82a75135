//! A prefix of its own for each law, on one etcd server and on a cluster of three. The one has logins, and the
//! laws run as a user with exactly the rights that the backend asks for: to read and write its prefix.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Query};
use lockkeeper::backends::etcd::{Config, connect};
use lockkeeper::conformance::Engine;
use lockkeeper_testbed::{Etcd, EtcdThree, Setup};

pub(crate) struct One(Corner);
pub(crate) struct Three(Corner);

struct Corner {
    config: Config,
    /// Looks; the law's own connections may be deaf or cut off.
    looker: Arc<dyn Backend>,
}

impl Corner {
    async fn of(login: &str, members: &[SocketAddr]) -> Self {
        static CORNERS: AtomicU64 = AtomicU64::new(0);
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        let members: Vec<String> = members.iter().map(ToString::to_string).collect();
        let url = format!("etcd://{login}{}/laws/{corner}", members.join(","));
        let config = Config::from_url(&url).expect("a good URL");
        let looker = backend(&config).await;
        Self { config, looker }
    }

    async fn claims(&self) -> usize {
        loop {
            if let Ok(views) = self.looker.inspect(&Query::All).await {
                let claims =
                    |view: &lockkeeper::backend::LockView| view.holders.len() + view.waiters.len();
                return views.iter().map(claims).sum();
            }
        }
    }
}

// security S3
fn with_logins() -> Etcd {
    // Each connection logs in, and checking a password is made to be slow.
    let cheap = Setup::new().setting("bcrypt-cost", "4");
    let server = Etcd::start_with(&cheap).expect("an etcd server");
    let rights = ["--prefix=true", "readwrite", "/laws/"];
    for command in [
        &["user", "add", "root:sesame"][..],
        &["user", "grant-role", "root", "root"],
        &["role", "add", "laws"],
        &[&["role", "grant-permission", "laws"][..], &rights].concat(),
        &["user", "add", "keeper:sesame"],
        &["user", "grant-role", "keeper", "laws"],
        &["auth", "enable"],
    ] {
        server.ctl(command).expect("logins can be had");
    }
    server
}

async fn backend(config: &Config) -> Arc<dyn Backend> {
    let connected = connect(config, Clock::system()).await;
    connected.expect("the server is up")
}

#[async_trait]
impl Engine for One {
    async fn start() -> Self {
        // Started with the first law; it ends with this process.
        static SERVER: OnceLock<Etcd> = OnceLock::new();
        let server = SERVER.get_or_init(with_logins);
        Self(Corner::of("keeper:sesame@", &[server.address()]).await)
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        backend(&self.0.config).await
    }

    async fn residue(&self) -> usize {
        self.0.claims().await
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(1500)
    }
}

#[async_trait]
impl Engine for Three {
    async fn start() -> Self {
        static SERVERS: OnceLock<EtcdThree> = OnceLock::new();
        // Shorter elections than usual, for short leases, but not so short that a busy machine is
        // without a leader all the time.
        let setup = Setup::new().setting("heartbeat-interval", "60");
        let setup = setup.setting("election-timeout", "600");
        let start = || EtcdThree::start_with(&setup).expect("three etcd servers");
        let servers = SERVERS.get_or_init(start);
        Self(Corner::of("", &servers.addresses()).await)
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        backend(&self.0.config).await
    }

    async fn residue(&self) -> usize {
        self.0.claims().await
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(1500)
    }
}
