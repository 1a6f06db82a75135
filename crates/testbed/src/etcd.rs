//! etcd: one member, or three that elect a leader.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
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
use crate::wire;

const READY_WITHIN: Duration = Duration::from_secs(60);

/// One etcd server.
#[derive(Debug)]
pub struct Etcd {
    server: Server,
}

impl Etcd {
    /// Starts one.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start() -> Result<Etcd> {
        Etcd::start_with(&Setup::new())
    }

    /// Starts one to order. With a movable clock it runs inside an emulator, because Go reads the
    /// clock past every library, and is several times slower.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_with(setup: &Setup) -> Result<Etcd> {
        let mut members = start_members(1, setup)?;
        Ok(members.remove(0))
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

    /// Runs `etcdctl` (the version 3 interface) against this server and gives its output.
    ///
    /// # Errors
    /// When the command fails.
    pub fn ctl(&self, arguments: &[&str]) -> Result<String> {
        let mut etcdctl = Command::new(program::find("etcdctl", "etcd-client")?);
        etcdctl
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={}", self.address()));
        program::output_of(etcdctl.args(arguments))
    }
}

/// Three members of one etcd cluster.
#[derive(Debug)]
pub struct EtcdThree {
    nodes: Vec<Etcd>,
}

impl EtcdThree {
    /// Starts three; they have a leader when this returns.
    ///
    /// # Errors
    /// When they do not come up.
    pub fn start() -> Result<EtcdThree> {
        EtcdThree::start_with(&Setup::new())
    }

    /// Starts three to order.
    ///
    /// # Errors
    /// When they do not come up.
    pub fn start_with(setup: &Setup) -> Result<EtcdThree> {
        Ok(EtcdThree {
            nodes: start_members(3, setup)?,
        })
    }

    /// The three members.
    #[must_use]
    pub fn nodes(&self) -> &[Etcd] {
        &self.nodes
    }

    /// Where clients reach them.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(Etcd::address).collect()
    }

    /// The member that leads now, if one that answers says so of itself.
    #[must_use]
    pub fn leader(&self) -> Option<&Etcd> {
        self.nodes.iter().find(|node| {
            let metrics = http_get(node.address(), "/metrics", wire::PATIENCE);
            metrics.is_some_and(|text| wire::has(&text, "\netcd_server_is_leader 1"))
        })
    }
}

struct Member {
    name: String,
    client: Port,
    peer: Port,
}

fn start_members(count: usize, setup: &Setup) -> Result<Vec<Etcd>> {
    ports::retrying(|| {
        let home = Arc::new(Home::new("etcd", setup.durable)?);
        let members = (1..=count)
            .map(|number| {
                let name = format!("etcd{number}");
                Ok(Member {
                    name,
                    client: Port::reserve()?,
                    peer: Port::reserve()?,
                })
            })
            .collect::<Result<Vec<Member>>>()?;
        let everybody = members
            .iter()
            .map(|member| format!("{}=http://{}", member.name, member.peer.address()))
            .collect::<Vec<String>>()
            .join(",");
        let launches = members
            .into_iter()
            .map(|member| member_launch(member, &everybody, &home, setup))
            .collect::<Result<Vec<Launch>>>()?;
        let servers = Server::start_together(launches, &home)?;
        Ok(servers.into_iter().map(|server| Etcd { server }).collect())
    })
}

fn member_launch(member: Member, everybody: &str, home: &Home, setup: &Setup) -> Result<Launch> {
    let Member { name, client, peer } = member;
    let directory = home.node(&name, None)?;
    let clock = setup
        .movable_clock
        .then(|| Clock::in_directory(&directory))
        .transpose()?;
    let data = directory.join("data").display().to_string();
    // With a certificate of its own it speaks TLS to clients.
    let has_tls = setup.settings.iter().any(|(name, _)| name == "cert-file");
    let scheme = if has_tls { "https" } else { "http" };
    let client_url = format!("{scheme}://{}", client.address());
    let peer_url = format!("http://{}", peer.address());
    // Short elections make short tests; an emulated member needs the usual patience.
    let (beat, election) = if clock.is_some() {
        ("100", "1000")
    } else {
        ("20", "200")
    };

    let mut launch = Launch::new(&name, directory, vec![client, peer]);
    if clock.is_some() {
        launch = launch.program(&emulator()?).args(["-U", "LD_PRELOAD"]);
    }
    let launch = launch
        .clock(clock)
        .program(&program::find("etcd", "etcd-server")?)
        .args(["--name", &name, "--data-dir", &data])
        .args([
            "--listen-client-urls",
            &client_url,
            "--advertise-client-urls",
            &client_url,
        ])
        .args([
            "--listen-peer-urls",
            &peer_url,
            "--initial-advertise-peer-urls",
            &peer_url,
        ])
        .args([
            "--initial-cluster",
            everybody,
            "--initial-cluster-state",
            "new",
        ])
        .args(["--heartbeat-interval", beat, "--election-timeout", election])
        .args(["--logger", "zap", "--log-level", "warn"])
        .args(
            setup
                .settings
                .iter()
                .map(|(name, value)| format!("--{name}={value}")),
        );
    let ready = if has_tls { is_listening } else { is_healthy };
    Ok(launch.ready(READY_WITHIN, ready))
}

/// It has no fast path to the clock, so the preloaded library is asked, on the program's behalf.
fn emulator() -> Result<PathBuf> {
    program::find(&format!("qemu-{}", std::env::consts::ARCH), "qemu-user")
}

/// Behind TLS no more can be seen from here; clients wait until it answers.
fn is_listening(address: SocketAddr) -> bool {
    std::net::TcpStream::connect_timeout(&address, wire::PATIENCE_AT_START).is_ok()
}

/// True only when a quorum has a leader.
fn is_healthy(address: SocketAddr) -> bool {
    http_get(address, "/health", wire::PATIENCE_AT_START)
        .is_some_and(|text| wire::has(&text, r#""health":"true""#))
}

fn http_get(address: SocketAddr, path: &str, patience: Duration) -> Option<Vec<u8>> {
    let question = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    wire::ask(address, question.as_bytes(), patience, |_| false).ok()
}
