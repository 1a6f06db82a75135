//! Which servers, and under which prefix: from a URL.

use super::keys::Keys;
use super::node::{Access, Node, PORT};
use crate::backends::url::Url;
use crate::error::Error;

/// Where the locks live.
#[derive(Debug, Clone)]
pub struct Config {
    pub(super) servers: Servers,
    pub(super) keys: Keys,
}

/// How the servers stand together.
#[derive(Debug, Clone)]
pub(super) enum Servers {
    One(Node),
    /// Sentinels know which server is the master of this name.
    Sentinel {
        sentinels: Vec<Node>,
        master: String,
        access: Access,
    },
    /// Some nodes of a cluster; they know the others.
    Cluster {
        seeds: Vec<Node>,
    },
}

/// The port of a sentinel.
const SENTINEL_PORT: u16 = 26379;

impl Config {
    /// From a URL:
    ///
    /// - `redis://user:password@host:port/db` or, encrypted, `rediss://`: one server;
    /// - `redis+sentinel://user:password@host,host/master`, also `rediss+sentinel://`: settings `db`,
    ///   `sentinel-user` and `sentinel-password`;
    /// - `redis+cluster://user:password@host,host`, also `rediss+cluster://`.
    ///
    /// All take `prefix` (`lk` unless set) and the encrypted ones `ca=FILE`, the authorities to trust
    /// instead of the system's.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the URL is anything else; unknown settings are refused.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let mut url = Url::parse(url)?;
        let (encrypted, kind) = match url.scheme.split_once('+') {
            Some((scheme, kind)) => (scheme == "rediss", kind.to_owned()),
            None => (url.scheme == "rediss", String::new()),
        };
        let access = Access::from_url(&mut url, encrypted)?;
        let keys = Keys::under(&url.setting("prefix")?.unwrap_or_else(|| "lk".into()))?;
        let servers = match kind.as_str() {
            "" if url.scheme.starts_with("redis") => Servers::One(one(&url, access)?),
            "sentinel" => sentinel(&mut url, access)?,
            "cluster" => cluster(&url, &access)?,
            _ => {
                return Err(Error::invalid(format!(
                    "{}: is no scheme of Redis; it is redis, redis+sentinel or redis+cluster",
                    url.scheme
                )));
            }
        };
        url.nothing_left("prefix; encrypted: ca; sentinel: db, sentinel-user, sentinel-password")?;
        Ok(Self { servers, keys })
    }

    /// Where the locks live, without secrets.
    pub(super) fn place(&self) -> String {
        let prefix = self.keys.prefix();
        let scheme = |access: &Access| {
            if access.tls.is_some() {
                "rediss"
            } else {
                "redis"
            }
        };
        match &self.servers {
            Servers::One(node) => {
                let access = &node.access;
                format!("{}://{node}/{}?prefix={prefix}", scheme(access), access.db)
            }
            Servers::Sentinel {
                sentinels,
                master,
                access,
            } => {
                let (scheme, db) = (scheme(access), access.db);
                let hosts = all(sentinels);
                format!("{scheme}+sentinel://{hosts}/{master}?db={db}&prefix={prefix}")
            }
            Servers::Cluster { seeds } => {
                let scheme = scheme(&seeds[0].access);
                format!("{scheme}+cluster://{}?prefix={prefix}", all(seeds))
            }
        }
    }
}

/// In one order, whatever the order in the URL.
fn all(nodes: &[Node]) -> String {
    let mut nodes: Vec<String> = nodes.iter().map(Node::to_string).collect();
    nodes.sort();
    nodes.join(",")
}

fn one(url: &Url, access: Access) -> Result<Node, Error> {
    let [(host, port)] = url.hosts.as_slice() else {
        return Err(Error::invalid(
            "redis:// takes one host; several are redis+sentinel://, redis+cluster:// or redlock://",
        ));
    };
    let db = database(&url.path)?;
    let access = Access { db, ..access };
    Ok(Node::at(host.as_str(), port.unwrap_or(PORT), &access))
}

fn sentinel(url: &mut Url, access: Access) -> Result<Servers, Error> {
    let master = url.path.clone();
    if master.is_empty() || master.contains(char::is_whitespace) {
        return Err(Error::invalid(
            "the sentinels watch a master by its name: write redis+sentinel://host,host/NAME",
        ));
    }
    let db = database(&url.setting("db")?.unwrap_or_default())?;
    let door = Access {
        user: url.setting("sentinel-user")?,
        password: url.setting("sentinel-password")?,
        db: 0,
        tls: access.tls.clone(),
    };
    let hosts = url.hosts.iter();
    let sentinels =
        hosts.map(|(host, port)| Node::at(host.as_str(), port.unwrap_or(SENTINEL_PORT), &door));
    Ok(Servers::Sentinel {
        sentinels: sentinels.collect(),
        master,
        access: Access { db, ..access },
    })
}

fn cluster(url: &Url, access: &Access) -> Result<Servers, Error> {
    if !url.path.is_empty() {
        let cure = "a cluster has no databases: leave out what follows the hosts";
        return Err(Error::invalid(cure));
    }
    let hosts = url.hosts.iter();
    let seeds = hosts.map(|(host, port)| Node::at(host.as_str(), port.unwrap_or(PORT), access));
    Ok(Servers::Cluster {
        seeds: seeds.collect(),
    })
}

fn database(text: &str) -> Result<i64, Error> {
    match text {
        "" => Ok(0),
        _ => text.parse::<u16>().map(i64::from).map_err(|_| {
            Error::invalid(format!(
                "{text:?} is no number of a database: write 0 or nothing"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server() {
        let config = Config::from_url("redis://me:hush@h/3?prefix=team").unwrap();
        assert_eq!(config.keys.prefix(), "team");
        let Servers::One(node) = &config.servers else {
            panic!("{config:?}");
        };
        assert_eq!((node.to_string().as_str(), node.access.db), ("h:6379", 3));
        assert!(!format!("{config:?}").contains("hush"));
    }

    #[test]
    fn several_servers() {
        let url = "redis+sentinel://me:hush@b,a:7/m?db=2&sentinel-password=hush2";
        let config = Config::from_url(url).unwrap();
        let place = "redis+sentinel://a:7,b:26379/m?db=2&prefix=lk";
        assert_eq!(config.place(), place);
        assert!(!format!("{config:?}").contains("hush"));
        let config = Config::from_url("redis+cluster://me:hush@b,a:7").unwrap();
        assert_eq!(config.place(), "redis+cluster://a:7,b:6379?prefix=lk");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for bad in [
            "http://h",
            "redis://a,b",
            "redis://h/x",
            "redis://h/-1",
            "redis://h?lease=3",
            "redis://h?prefix=",
            "redis://h?prefix=a%7bb",
            "redis://h?ca=/x",
            "redis://h?db=1",
            "redis+sentinel://h",
            "redis+sentinel://h/m?db=x",
            "redis+cluster://h/1",
            "redis+other://h",
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
        }
    }
}
