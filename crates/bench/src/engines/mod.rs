//! The engines that locks live in: real servers, started for one section, pinned where the section
//! wants them, and asked how much they had to do.

mod etcd;
mod redis;
mod sql;
mod zookeeper;

use lockkeeper_testbed::{Etcd, MariaDb, Postgres, Redis, RedisFive, Server, ZooKeeper};

use crate::Result;

/// Which engine a section is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    Redis,
    /// Five Redis servers that know nothing of each other.
    Redlock,
    Etcd,
    ZooKeeper,
    Postgres,
    /// The same server, locked by its own locks.
    PostgresSession,
    /// MariaDB here.
    MySql,
    MySqlSession,
}

/// One that runs; it ends with this.
#[derive(Debug)]
pub(crate) enum Running {
    Redis(Redis),
    Redlock(RedisFive),
    Etcd(Etcd),
    ZooKeeper(ZooKeeper),
    Postgres(Postgres),
    PostgresSession(Postgres),
    MySql(MariaDb),
    MySqlSession(MariaDb),
}

/// Counts what goes over the wire, from outside both sides.
pub(crate) trait Meter {
    /// Where clients must connect to be counted.
    fn url(&self) -> String;
    /// What has come so far.
    fn read(&self) -> Result<Counts>;
}

/// What an engine had to do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Requests of clients, without those that only keep a session or a lease alive.
    pub(crate) commands: u64,
    /// What scripts in the server called in turn.
    pub(crate) inner: u64,
    pub(crate) keep_alives: u64,
    /// Messages that the server sent of its own accord.
    pub(crate) notices: u64,
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            inner: self.inner - before.inner,
            keep_alives: self.keep_alives - before.keep_alives,
            notices: self.notices - before.notices,
        }
    }
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Redlock => "redlock of 5",
            Self::Etcd => "etcd",
            Self::ZooKeeper => "zookeeper",
            Self::Postgres => "postgres",
            Self::PostgresSession => "postgres, session mode",
            Self::MySql => "mysql",
            Self::MySqlSession => "mysql, session mode",
        }
    }

    pub(crate) fn start(self) -> Result<Running> {
        Ok(match self {
            Self::Redis => Running::Redis(Redis::start()?),
            Self::Redlock => Running::Redlock(RedisFive::start()?),
            Self::Etcd => Running::Etcd(Etcd::start()?),
            Self::ZooKeeper => Running::ZooKeeper(ZooKeeper::start()?),
            Self::Postgres => Running::Postgres(Postgres::start()?),
            Self::PostgresSession => Running::PostgresSession(Postgres::start()?),
            Self::MySql => Running::MySql(sql::mariadb()?),
            Self::MySqlSession => Running::MySqlSession(sql::mariadb()?),
        })
    }

    /// One that can be asked for its counts, and has room for a crowd.
    pub(crate) fn start_counting(self) -> Result<Running> {
        match self {
            Self::Postgres => Ok(Running::Postgres(sql::counting_postgres()?)),
            Self::PostgresSession => Ok(Running::PostgresSession(sql::counting_postgres()?)),
            other => other.start(),
        }
    }
}

impl Running {
    fn servers(&self) -> Vec<&Server> {
        match self {
            Self::Redis(redis) => vec![redis.server()],
            Self::Redlock(five) => five.nodes().iter().map(Redis::server).collect(),
            Self::Etcd(etcd) => vec![etcd.server()],
            Self::ZooKeeper(zookeeper) => vec![zookeeper.server()],
            Self::Postgres(server) | Self::PostgresSession(server) => vec![server.server()],
            Self::MySql(server) | Self::MySqlSession(server) => vec![server.server()],
        }
    }

    /// The URL that lockkeeper is given.
    pub(crate) fn url(&self) -> String {
        let scheme = match self {
            Self::Redis(_) => "redis",
            Self::Redlock(_) => "redlock",
            Self::Etcd(_) => "etcd",
            Self::ZooKeeper(_) => "zookeeper",
            Self::Postgres(server) => return server.url(),
            Self::PostgresSession(server) => return format!("{}?mode=session", server.url()),
            Self::MySql(server) => return sql::mariadb_url(server),
            Self::MySqlSession(server) => {
                return format!("{}?mode=session", sql::mariadb_url(server));
            }
        };
        // Nodes that were just started have forgotten nothing: without this a new set rests first.
        let settings = match self {
            Self::Redlock(_) => "?fresh=yes",
            _ => "",
        };
        format!("{scheme}://{}{settings}", self.addresses().join(","))
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        let servers = self.servers().into_iter();
        servers.map(|server| server.address().to_string()).collect()
    }

    pub(crate) fn pids(&self) -> Result<Vec<u32>> {
        let servers = self.servers().into_iter();
        servers
            .map(|server| Ok(server.pid()?.try_into()?))
            .collect()
    }

    /// Begins to count.
    pub(crate) fn meter(&self) -> Result<Box<dyn Meter + '_>> {
        Ok(match self {
            Self::Redis(redis) => Box::new(redis::Monitor::of(redis)?),
            Self::Etcd(etcd) => Box::new(etcd::Metrics::of(etcd)),
            Self::ZooKeeper(zookeeper) => Box::new(zookeeper::Tap::before(zookeeper)?),
            Self::Postgres(server) | Self::PostgresSession(server) => {
                Box::new(sql::Counter::of_postgres(server, self.url()))
            }
            Self::MySql(server) | Self::MySqlSession(server) => {
                Box::new(sql::Counter::of_mariadb(server, self.url())?)
            }
            Self::Redlock(_) => return Err("nobody counts the commands of five servers".into()),
        })
    }
}
