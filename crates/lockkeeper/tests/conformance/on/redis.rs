//! A prefix of its own for each law: on one Redis server, behind sentinels, and on a cluster.

use std::io::{Read, Write};
use std::marker::PhantomData;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::backend::Backend;
use lockkeeper::backends::redis as redis_backend;
use lockkeeper::conformance::Engine;
use lockkeeper_testbed::{Redis, RedisCluster, Sentinels};

/// The commands that a user of the Redis backend needs.
const LEAST: &str = "+eval +evalsha +time +exists +del +set +get +incr +hset +hsetnx +hget +hgetall +hdel +zadd \
     +zrem +zrank +zscore +zrange +zrangebyscore +zcard +pexpire +pexpireat +pexpiretime +publish +subscribe \
     +lpush +ltrim +scan +ping +info +config|get";
/// What it needs on a cluster besides.
const LEAST_ON_A_CLUSTER: &str = "+cluster|slots +asking";

/// Servers that are started with the first law and end with this process.
pub(crate) trait Servers: Send + Sync + 'static {
    /// A lease that they keep well while a hundred laws run.
    const LEASE: Duration = Duration::from_millis(600);
    /// Where they are, without settings.
    fn url() -> String;
    /// Those that hold keys.
    fn masters() -> Vec<&'static Redis>;
}

/// One server, as a user who may do no more than necessary.
pub(crate) struct Alone;
/// A master, a replica and three sentinels.
pub(crate) struct Watched;
/// Three masters, as a user who may do no more than necessary.
pub(crate) struct Sharing;

impl Alone {
    pub(crate) fn server() -> &'static Redis {
        static SERVER: OnceLock<Redis> = OnceLock::new();
        SERVER.get_or_init(|| {
            let server = Redis::start().expect("a Redis server");
            let_in(&server, LEAST);
            server
        })
    }
}

/// Makes the user whom the module's documentation describes.
fn let_in(server: &Redis, commands: &str) {
    let mut user = vec!["ACL", "SETUSER", "locks", "on", ">secret"];
    user.extend(["~law*", "&law*", "-@all"]);
    user.extend(commands.split_whitespace());
    server.ask(&user).expect("a user");
}

impl Servers for Alone {
    fn url() -> String {
        format!("redis://locks:secret@{}", Self::server().address())
    }

    fn masters() -> Vec<&'static Redis> {
        vec![Self::server()]
    }
}

impl Watched {
    fn sentinels() -> &'static Sentinels {
        static SENTINELS: OnceLock<Sentinels> = OnceLock::new();
        SENTINELS.get_or_init(|| {
            let sentinels = Sentinels::start().expect("sentinels");
            // A hundred laws at once make a server slow; that must not look like its death.
            for sentinel in sentinels.addresses() {
                let calm = "down-after-milliseconds 60000\r\n";
                let calm = format!("SENTINEL SET {} {calm}", Sentinels::SERVICE);
                let mut stream = TcpStream::connect(sentinel).expect("a sentinel");
                stream.write_all(calm.as_bytes()).expect("it hears");
                let mut told = [0; 3];
                stream.read_exact(&mut told).expect("it answers");
                assert_eq!(&told, b"+OK");
            }
            sentinels
        })
    }
}

impl Servers for Watched {
    fn url() -> String {
        let hosts = Self::sentinels().addresses();
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        format!(
            "redis+sentinel://{}/{}",
            hosts.join(","),
            Sentinels::SERVICE
        )
    }

    fn masters() -> Vec<&'static Redis> {
        vec![Self::sentinels().master()]
    }
}

impl Sharing {
    fn cluster() -> &'static RedisCluster {
        static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
        CLUSTER.get_or_init(|| {
            let cluster = RedisCluster::start().expect("a cluster");
            for node in cluster.nodes() {
                let_in(node, &format!("{LEAST} {LEAST_ON_A_CLUSTER}"));
            }
            cluster
        })
    }
}

impl Servers for Sharing {
    // A batch of renewals is one call per bucket here.
    const LEASE: Duration = Duration::from_millis(600);

    fn url() -> String {
        let hosts = Self::cluster().addresses();
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        format!("redis+cluster://locks:secret@{}", hosts.join(","))
    }

    fn masters() -> Vec<&'static Redis> {
        Self::cluster().nodes().iter().collect()
    }
}

/// A prefix of its own on these servers.
pub(crate) struct RedisEngine<S> {
    prefix: String,
    servers: PhantomData<fn() -> S>,
}

#[async_trait]
impl<S: Servers> Engine for RedisEngine<S> {
    async fn start() -> Self {
        static CORNERS: AtomicU64 = AtomicU64::new(0);
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        Self {
            prefix: format!("law{corner}"),
            servers: PhantomData,
        }
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        let url = format!("{}?prefix={}", S::url(), self.prefix);
        let config = redis_backend::Config::from_url(&url).expect("a good URL");
        redis_backend::connect(&config)
            .await
            .expect("the server is up")
    }

    /// Keys of claims, of whatever kind.
    async fn residue(&self) -> usize {
        let pattern = format!("{}:{{*}}:[krqe]:*", self.prefix);
        let keys = S::masters().into_iter().map(|master| {
            let keys = master.ask(&["KEYS", &pattern]).expect("it answers");
            keys.text().lines().count()
        });
        keys.sum()
    }

    fn lease(&self) -> Duration {
        S::LEASE
    }
}
