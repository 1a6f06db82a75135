//! A Redis cluster of three masters that share the slots.

use std::net::SocketAddr;
use std::sync::Arc;

use super::{READY_WITHIN, Redis, answers, node, reply};
use crate::error::Result;
use crate::home::Home;
use crate::launch::Launch;
use crate::ports::{self, Port};
use crate::server::Server;
use crate::setup::Setup;

/// The slots of the three, nearly even.
const SLOTS: [(&str, &str); 3] = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];

/// Three masters of one cluster, without replicas.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts three and joins them; every slot is served when this returns.
    ///
    /// # Errors
    /// When they do not come up or do not agree.
    pub fn start() -> Result<RedisCluster> {
        RedisCluster::start_with(&Setup::new())
    }

    /// Starts three to order.
    ///
    /// # Errors
    /// When they do not come up or do not agree.
    pub fn start_with(setup: &Setup) -> Result<RedisCluster> {
        ports::retrying(|| {
            let home = Arc::new(Home::new("redis-cluster", setup.durable)?);
            let mut launches = Vec::new();
            let mut bus_ports = Vec::new();
            for number in 1..=3 {
                let (port, bus) = (Port::reserve()?, Port::reserve()?);
                bus_ports.push(bus.number().to_string());
                launches.push(cluster_node(number, &home, setup, [port, bus])?);
            }
            let started = launches
                .into_iter()
                .map(|launch| Server::spawn(launch, &home));
            let servers = started.collect::<Result<Vec<Server>>>()?;
            // Without slots a node says "cluster down", so the usual readiness comes after.
            join(&servers, &bus_ports)?;
            servers.iter().try_for_each(Server::await_ready)?;
            Ok(RedisCluster {
                nodes: servers.into_iter().map(|server| Redis { server }).collect(),
            })
        })
    }

    /// The three nodes.
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

fn cluster_node(number: u8, home: &Home, setup: &Setup, ports: [Port; 2]) -> Result<Launch> {
    let bus = ports[1].number().to_string();
    let launch = node(&format!("node{number}"), home, setup, ports.into())?;
    let launch = launch
        .args(["--cluster-enabled", "yes", "--cluster-port", &bus])
        .args(["--cluster-node-timeout", "1000"]);
    Ok(launch.ready(READY_WITHIN, serves_all_slots))
}

/// By hand, because `redis-cli --cluster create` sleeps for seconds.
fn join(servers: &[Server], bus_ports: &[String]) -> Result<()> {
    for (index, server) in servers.iter().enumerate() {
        server.await_that(answers)?;
        let (first, last) = SLOTS[index];
        let epoch = (index + 1).to_string();
        reply::ask(server.address(), &["CLUSTER", "ADDSLOTSRANGE", first, last])?;
        reply::ask(server.address(), &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
    }
    for (server, bus) in servers.iter().zip(bus_ports).skip(1) {
        let port = server.port().to_string();
        reply::ask(
            servers[0].address(),
            &["CLUSTER", "MEET", "127.0.0.1", &port, bus],
        )?;
    }
    Ok(())
}

fn serves_all_slots(node: SocketAddr) -> bool {
    let info = reply::ask(node, &["CLUSTER", "INFO"]);
    info.is_ok_and(|info| {
        let text = info.text();
        text.contains("cluster_state:ok") && text.contains("cluster_known_nodes:3")
    })
}
