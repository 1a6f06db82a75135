//! A Redis master, its replica, and three sentinels that promote the replica when the master dies.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{READY_WITHIN, Redis, Reply, node, reply};
use crate::error::{Doing, Error, Result};
use crate::home::Home;
use crate::launch::Launch;
use crate::ports::{self, Port};
use crate::program;
use crate::server::Server;
use crate::setup::Setup;

/// How long the master is silent before a sentinel calls it down.
const DOWN_AFTER: Duration = Duration::from_millis(500);

/// A master, a replica and three sentinels.
#[derive(Debug)]
pub struct Sentinels {
    // Dropped in this order: sentinels that outlive the master would start a failover.
    sentinels: Vec<Server>,
    replica: Redis,
    master: Redis,
}

impl Sentinels {
    /// The name under which the sentinels watch the master.
    pub const SERVICE: &str = "lockkeeper";

    /// Starts all five; a failover works from the first moment.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start() -> Result<Sentinels> {
        Sentinels::start_with(&Setup::new())
    }

    /// Starts all five, the master and the replica to order.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start_with(setup: &Setup) -> Result<Sentinels> {
        ports::retrying(|| {
            let home = Arc::new(Home::new("sentinels", setup.durable)?);
            let master = node("master", &home, setup, vec![Port::reserve()?])?;
            let master = Redis {
                server: Server::start(master, &home)?,
            };
            let of_master = format!("127.0.0.1 {}", master.server().port());
            let replica = node("replica", &home, setup, vec![Port::reserve()?])?
                .args(["--replicaof", &of_master])
                .ready(READY_WITHIN, follows);
            let replica = Redis {
                server: Server::start(replica, &home)?,
            };
            let sentinels = start_sentinels(&home, &master, &replica)?;
            Ok(Sentinels {
                sentinels,
                replica,
                master,
            })
        })
    }

    /// The node that is master at the start.
    #[must_use]
    pub fn master(&self) -> &Redis {
        &self.master
    }

    /// The node that is replica at the start.
    #[must_use]
    pub fn replica(&self) -> &Redis {
        &self.replica
    }

    /// The three sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// Where clients reach the sentinels.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Server::address).collect()
    }

    /// Whom the first sentinel that answers calls master now.
    ///
    /// # Errors
    /// When no sentinel answers.
    pub fn current_master(&self) -> Result<SocketAddr> {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::SERVICE];
        let answers = self.sentinels.iter().filter_map(|sentinel| {
            let reply = reply::ask(sentinel.address(), &command).ok()?;
            parse_address(&reply)
        });
        let nobody = || Error::Command {
            what: command.join(" "),
            output: "no sentinel names a master".to_owned(),
        };
        answers.into_iter().next().ok_or_else(nobody)
    }
}

fn parse_address(reply: &Reply) -> Option<SocketAddr> {
    let text = reply.text();
    let mut lines = text.lines();
    format!("{}:{}", lines.next()?, lines.next()?).parse().ok()
}

fn start_sentinels(home: &Arc<Home>, master: &Redis, replica: &Redis) -> Result<Vec<Server>> {
    let program = program::find("redis-sentinel", "redis-sentinel")?;
    let ports = (0..3)
        .map(|_| Port::reserve())
        .collect::<Result<Vec<Port>>>()?;
    let numbers: Vec<u16> = ports.iter().map(Port::number).collect();
    let mut launches = Vec::new();
    for (index, port) in ports.into_iter().enumerate() {
        let name = format!("sentinel{}", index + 1);
        let directory = home.node(&name, None)?;
        let file = directory.join("sentinel.conf");
        let text = configuration(index, &numbers, master, replica);
        fs::write(&file, text).doing("writing a sentinel's configuration")?;
        let launch = Launch::new(&name, directory, vec![port])
            .program(&program)
            .args([file.display().to_string()])
            .ready(READY_WITHIN, sees_everybody);
        launches.push(launch);
    }
    Server::start_together(launches, home)
}

/// Everybody is named in advance: sentinels find each other only every two seconds.
fn configuration(index: usize, ports: &[u16], master: &Redis, replica: &Redis) -> String {
    let service = Sentinels::SERVICE;
    let mut text = format!(
        "port {}\nbind 127.0.0.1\nprotected-mode no\nsentinel myid {}\n\
         sentinel monitor {service} 127.0.0.1 {} 2\n\
         sentinel down-after-milliseconds {service} {}\n\
         sentinel failover-timeout {service} 4000\n\
         sentinel parallel-syncs {service} 1\n\
         sentinel known-replica {service} 127.0.0.1 {}\n",
        ports[index],
        identity(index),
        master.server().port(),
        DOWN_AFTER.as_millis(),
        replica.server().port(),
    );
    for (other, port) in ports
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index)
    {
        let _ = writeln!(
            text,
            "sentinel known-sentinel {service} 127.0.0.1 {port} {}",
            identity(other)
        );
    }
    text
}

fn identity(index: usize) -> String {
    format!("{:040x}", index + 1)
}

/// Whether the replica has the master's data and receives what comes.
fn follows(replica: SocketAddr) -> bool {
    let info = reply::ask(replica, &["INFO", "replication"]);
    info.is_ok_and(|info| info.text().contains("master_link_status:up"))
}

/// Whether a failover would work: this sentinel knows a healthy replica and both other sentinels.
fn sees_everybody(sentinel: SocketAddr) -> bool {
    let quorum = reply::ask(sentinel, &["SENTINEL", "CKQUORUM", Sentinels::SERVICE]);
    let replicas = reply::ask(sentinel, &["SENTINEL", "REPLICAS", Sentinels::SERVICE]);
    quorum.is_ok_and(|reply| reply.text().starts_with("OK 3"))
        && replicas.is_ok_and(|reply| reply.text().contains("master-link-status\nok\n"))
}
