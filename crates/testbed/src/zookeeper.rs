//! ZooKeeper: one server, or an ensemble of three. Started as a plain Java program, without the
//! package's scripts, so that the child is the server.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Doing, Result};
use crate::home::Home;
use crate::launch::Launch;
use crate::ports::{self, Port};
use crate::program;
use crate::server::Server;
use crate::setup::Setup;
use crate::wire;

/// Three Java machines on two busy cores take their time.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// The manifest of the first pulls in the rest, but for what only a server with TLS needs.
const JARS: [(&str, &str); 4] = [
    ("/usr/share/java/zookeeper.jar", "libzookeeper-java"),
    ("/usr/share/java/slf4j-simple.jar", "libslf4j-java"),
    ("/usr/share/java/netty-codec.jar", "libnetty-java"),
    ("/usr/share/java/netty-resolver.jar", "libnetty-java"),
];

const MAIN_CLASS: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// One ZooKeeper server. A tick is 200 ms, so sessions may be as short as 400 ms.
#[derive(Debug)]
pub struct ZooKeeper {
    server: Server,
}

impl ZooKeeper {
    /// Starts one that does not wait for the disk.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start() -> Result<ZooKeeper> {
        ZooKeeper::start_with(&Setup::new())
    }

    /// Starts one to order; settings are lines of `zoo.cfg`.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start_with(setup: &Setup) -> Result<ZooKeeper> {
        ports::retrying(|| {
            let home = Arc::new(Home::new("zookeeper", setup.durable)?);
            let launch = peer("zookeeper", &home, setup, vec![Port::reserve()?])?;
            Ok(ZooKeeper {
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

    /// The answer to one of the four-letter words `ruok`, `srvr`, `mntr`, `stat`, `cons`, `dump`
    /// or `wchs`.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask(&self, word: &str) -> Result<String> {
        four_letters(self.address(), word).doing(format!("asking {word}"))
    }
}

/// An ensemble of three ZooKeeper servers.
#[derive(Debug)]
pub struct ZooKeeperThree {
    nodes: Vec<ZooKeeper>,
}

impl ZooKeeperThree {
    /// Starts three; they have a leader when this returns.
    ///
    /// # Errors
    /// When they do not come up.
    pub fn start() -> Result<ZooKeeperThree> {
        ZooKeeperThree::start_with(&Setup::new())
    }

    /// Starts three to order.
    ///
    /// # Errors
    /// When they do not come up.
    pub fn start_with(setup: &Setup) -> Result<ZooKeeperThree> {
        ports::retrying(|| {
            let home = Arc::new(Home::new("zookeeper-three", setup.durable)?);
            let mut ensemble = setup
                .clone()
                .setting("initLimit", "50")
                .setting("syncLimit", "10");
            let mut port_sets = Vec::new();
            for number in 1..=3 {
                let ports = [Port::reserve()?, Port::reserve()?, Port::reserve()?];
                let place = format!("127.0.0.1:{}:{}", ports[1].number(), ports[2].number());
                ensemble = ensemble.setting(&format!("server.{number}"), &place);
                port_sets.push(ports.into());
            }
            let launches = (1..=3).zip(port_sets).map(|(number, ports)| {
                let launch = peer(&format!("zookeeper{number}"), &home, &ensemble, ports)?;
                let identity = launch.directory.join("data/myid");
                fs::write(identity, number.to_string()).doing("writing myid")?;
                Ok(launch)
            });
            let servers = Server::start_together(launches.collect::<Result<_>>()?, &home)?;
            let nodes = servers
                .into_iter()
                .map(|server| ZooKeeper { server })
                .collect();
            Ok(ZooKeeperThree { nodes })
        })
    }

    /// The three servers.
    #[must_use]
    pub fn nodes(&self) -> &[ZooKeeper] {
        &self.nodes
    }

    /// Where clients reach them.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(ZooKeeper::address).collect()
    }

    /// The server that leads now, if one that answers says so of itself.
    #[must_use]
    pub fn leader(&self) -> Option<&ZooKeeper> {
        let leads = |answer: String| answer.contains("Mode: leader");
        self.nodes
            .iter()
            .find(|node| node.ask("srvr").is_ok_and(leads))
    }
}

/// The recipe of one server; an ensemble's are in the settings.
fn peer(name: &str, home: &Home, setup: &Setup, ports: Vec<Port>) -> Result<Launch> {
    let directory = home.node(name, None)?;
    let data = directory.join("data");
    fs::create_dir(&data).doing("making ZooKeeper's data directory")?;
    let clock = setup
        .movable_clock
        .then(|| Clock::in_directory(&directory))
        .transpose()?;
    let file = directory.join("zoo.cfg");
    let text = configuration(&data.display().to_string(), ports[0].number(), setup);
    fs::write(&file, text).doing("writing zoo.cfg")?;
    let jars = JARS
        .iter()
        .map(|(jar, package)| Ok(program::fixed(jar, package)?.display().to_string()))
        .collect::<Result<Vec<String>>>()?;

    let launch = Launch::new(name, directory, ports)
        .clock(clock)
        .program(&program::find("java", "default-jre-headless")?)
        // A small heap and the quick compiler only: the start counts here, not the throughput.
        .args([
            "-Xmx128m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
        ])
        .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
        .args(["-cp", &jars.join(":"), MAIN_CLASS])
        .args([file.display().to_string()]);
    Ok(launch.ready(READY_WITHIN, has_a_role))
}

fn configuration(data: &str, port: u16, setup: &Setup) -> String {
    let sync = if setup.durable { "yes" } else { "no" };
    let mut text = format!(
        "tickTime=200\ndataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n\
         minSessionTimeout=400\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n\
         admin.enableServer=false\nforceSync={sync}\n\
         4lw.commands.whitelist=ruok,srvr,mntr,stat,cons,dump,wchs\n"
    );
    for (name, value) in &setup.settings {
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

/// Alone, leading or following: a server that is still looking for its ensemble has no mode.
fn has_a_role(address: SocketAddr) -> bool {
    four_letters(address, "srvr").is_ok_and(|answer| answer.contains("Mode:"))
}

fn four_letters(address: SocketAddr, word: &str) -> std::io::Result<String> {
    let answer = wire::ask(address, word.as_bytes(), wire::PATIENCE, |_| false)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
