//! Real servers as owned children, and real faults: what the tests of lockkeeper run against.
//!
//! Every kind starts with one call, on a free loopback port, in a directory of its own, and is
//! answering when the call returns. Dropping the handle kills the server and removes the
//! directory; when the owning process is killed, the kernel kills its servers with it.
//!
//! | kind | one node | more |
//! |---|---|---|
//! | Redis | [`Redis`] | [`RedisFive`], [`Sentinels`], [`RedisCluster`] |
//! | etcd | [`Etcd`] | [`EtcdThree`] |
//! | ZooKeeper | [`ZooKeeper`] | [`ZooKeeperThree`] |
//! | PostgreSQL | [`Postgres`] | [`PgBouncer`] before it |
//! | MariaDB | [`MariaDb`] | |
//!
//! | fault | how |
//! |---|---|
//! | stall | [`Server::pause`], [`Server::resume`] |
//! | crash, restart in place | [`Server::kill`], [`Server::restart`] |
//! | wall clock of one server | [`Setup::movable_clock`], [`Clock`] |
//! | network | [`Proxy`]: delay, cut, black hole, reply lost after the request was applied |
//!
//! All calls block, and none of them needs a runtime; from asynchronous tests they are short
//! enough to be made in place, but starting a server is not.
//!
//! ```no_run
//! use lockkeeper_testbed::{Proxy, Redis, ReplyLoss};
//!
//! let redis = Redis::durable()?;
//! let proxy = Proxy::to(redis.address())?;
//! proxy.lose(ReplyLoss::next(1))?;
//! // a client of `proxy.address()` now writes without ever hearing so
//! redis.server().restart()?;
//! # Ok::<(), lockkeeper_testbed::Error>(())
//! ```

#![forbid(unsafe_code)]

mod actor;
mod clock;
mod error;
mod etcd;
pub mod foreign;
mod home;
mod launch;
mod mariadb;
mod pgbouncer;
mod ports;
mod postgres;
mod process;
mod program;
mod proxy;
mod redis;
mod server;
mod setup;
mod template;
mod wire;
mod zookeeper;

pub use actor::Actor;
pub use clock::Clock;
pub use error::{Error, Result};
pub use etcd::{Etcd, EtcdThree};
pub use mariadb::MariaDb;
pub use pgbouncer::PgBouncer;
pub use postgres::Postgres;
pub use proxy::{Proxy, ReplyLoss};
pub use redis::{Redis, RedisCluster, RedisFive, Reply, Sentinels};
pub use server::Server;
pub use setup::Setup;
pub use zookeeper::{ZooKeeper, ZooKeeperThree};
