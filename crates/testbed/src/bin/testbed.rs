//! Starts one kind of server, says where it is, and keeps it until killed: for experiments by
//! hand, and for the test that a server dies with its owner.

#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;

use lockkeeper_testbed::{
    Etcd, EtcdThree, MariaDb, Postgres, Redis, RedisCluster, RedisFive, Result, Sentinels, Server,
    ZooKeeper, ZooKeeperThree,
};

const USAGE: &str = "usage: testbed KIND
KIND: redis redis-five sentinels redis-cluster etcd etcd-three zookeeper zookeeper-three
      postgres mariadb
Prints one line `NAME ADDRESS PID` per server, then `ready`, and keeps them until it is killed.";

fn main() -> ExitCode {
    let kind = std::env::args().nth(1).unwrap_or_default();
    match keep(&kind) {
        Some(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// Returns only when there is no such kind or it does not start.
fn keep(kind: &str) -> Option<Result<()>> {
    Some(match kind {
        "redis" => hold(Redis::start(), |one| vec![one.server()]),
        "redis-five" => hold(RedisFive::start(), |five| each(five.nodes(), Redis::server)),
        "redis-cluster" => hold(RedisCluster::start(), |all| {
            each(all.nodes(), Redis::server)
        }),
        "sentinels" => hold(Sentinels::start(), |all| {
            let nodes = [all.master().server(), all.replica().server()];
            nodes.into_iter().chain(all.sentinels()).collect()
        }),
        "etcd" => hold(Etcd::start(), |one| vec![one.server()]),
        "etcd-three" => hold(EtcdThree::start(), |three| {
            each(three.nodes(), Etcd::server)
        }),
        "zookeeper" => hold(ZooKeeper::start(), |one| vec![one.server()]),
        "zookeeper-three" => hold(ZooKeeperThree::start(), |three| {
            each(three.nodes(), ZooKeeper::server)
        }),
        "postgres" => hold(Postgres::start(), |one| vec![one.server()]),
        "mariadb" => hold(MariaDb::start(), |one| vec![one.server()]),
        _ => return None,
    })
}

fn each<T>(nodes: &[T], server: fn(&T) -> &Server) -> Vec<&Server> {
    nodes.iter().map(server).collect()
}

fn hold<T: Debug>(started: Result<T>, servers: fn(&T) -> Vec<&Server>) -> Result<()> {
    let kept = started?;
    for server in servers(&kept) {
        let address: SocketAddr = server.address();
        println!("{} {address} {}", server.name(), server.pid()?);
    }
    println!("ready");
    loop {
        thread::park();
    }
}
