//! Redis: one node and five independent ones; sentinels and the cluster have their own files.
//! All nodes are the same program with the same arguments plus what their role needs.

mod cluster;
mod reply;
mod sentinels;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::Result;
use crate::home::Home;
use crate::launch::Launch;
use crate::ports::{self, Port};
use crate::program;
use crate::server::Server;
use crate::setup::Setup;

pub use cluster::RedisCluster;
pub use reply::Reply;
pub use sentinels::Sentinels;

const READY_WITHIN: Duration = Duration::from_secs(20);

/// One Redis server.
#[derive(Debug)]
pub struct Redis {
    server: Server,
}

impl Redis {
    /// Starts one that keeps nothing on disk: after a restart it is empty.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start() -> Result<Redis> {
        Redis::start_with(&Setup::new())
    }

    /// Starts one that writes every command to disk before answering (AOF, fsync always).
    ///
    /// # Errors
    /// When it does not come up.
    pub fn durable() -> Result<Redis> {
        Redis::start_with(&Setup::new().durable())
    }

    /// Starts one to order.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_with(setup: &Setup) -> Result<Redis> {
        ports::retrying(|| {
            let home = Arc::new(Home::new("redis", setup.durable)?);
            let launch = node("redis", &home, setup, vec![Port::reserve()?])?;
            Ok(Redis {
                server: Server::start(launch, &home)?,
            })
        })
    }

    /// The process, and what can be done to it.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where clients reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// `redis://` URL of it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Runs one command on a connection of its own.
    ///
    /// # Errors
    /// When Redis does not answer or answers with an error.
    pub fn ask(&self, command: &[&str]) -> Result<Reply> {
        reply::ask(self.address(), command)
    }

    /// Asks whoever is at this address: for those who watch a server that somebody else owns.
    ///
    /// # Errors
    /// When it does not answer, or answers with an error.
    pub fn ask_at(address: SocketAddr, command: &[&str]) -> Result<Reply> {
        reply::ask(address, command)
    }
}

/// Five Redis servers that know nothing of each other.
#[derive(Debug)]
pub struct RedisFive {
    nodes: Vec<Redis>,
}

impl RedisFive {
    /// Starts five that keep nothing on disk.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start() -> Result<RedisFive> {
        RedisFive::start_with(&Setup::new())
    }

    /// Starts five to order.
    ///
    /// # Errors
    /// When one of them does not come up.
    pub fn start_with(setup: &Setup) -> Result<RedisFive> {
        ports::retrying(|| {
            let home = Arc::new(Home::new("redis-five", setup.durable)?);
            let launch = |number: usize| {
                node(
                    &format!("redis{number}"),
                    &home,
                    setup,
                    vec![Port::reserve()?],
                )
            };
            let launches = (1..=5).map(launch).collect::<Result<Vec<Launch>>>()?;
            let servers = Server::start_together(launches, &home)?;
            Ok(RedisFive {
                nodes: servers.into_iter().map(|server| Redis { server }).collect(),
            })
        })
    }

    /// The five, in order.
    #[must_use]
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Where clients reach them.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Redis::address).collect()
    }
}

/// The recipe of one node; its first port is the one clients use.
fn node(name: &str, home: &Home, setup: &Setup, ports: Vec<Port>) -> Result<Launch> {
    let directory = home.node(name, None)?;
    let clock = setup
        .movable_clock
        .then(|| Clock::in_directory(&directory))
        .transpose()?;
    let port = ports[0].number().to_string();
    let place = directory.display().to_string();
    let launch = Launch::new(name, directory, ports)
        .clock(clock)
        .program(&redis_server()?)
        .args([
            "--port",
            &port,
            "--bind",
            "127.0.0.1",
            "--protected-mode",
            "no",
        ])
        .args(["--daemonize", "no", "--dir", &place, "--save", ""])
        // A replica is otherwise kept waiting for five seconds in case more should come.
        .args([
            "--enable-debug-command",
            "yes",
            "--repl-diskless-sync-delay",
            "0",
        ])
        .args(persistence(setup))
        .args(
            setup
                .settings
                .iter()
                .flat_map(|(name, value)| [format!("--{name}"), value.clone()]),
        );
    Ok(launch.ready(READY_WITHIN, answers))
}

fn persistence(setup: &Setup) -> &'static [&'static str] {
    if setup.durable {
        &["--appendonly", "yes", "--appendfsync", "always"]
    } else {
        &["--appendonly", "no"]
    }
}

fn redis_server() -> Result<PathBuf> {
    program::find("redis-server", "redis-server")
}

/// Whether it has loaded its data and takes commands.
fn answers(address: SocketAddr) -> bool {
    reply::ask(address, &["PING"]).is_ok_and(|reply| reply.text() == "PONG")
}
