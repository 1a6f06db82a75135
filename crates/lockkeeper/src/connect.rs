//! From a URL to a backend: the one place that knows all schemes.

use std::sync::Arc;

use crate::backend::Backend;
#[cfg(feature = "etcd")]
use crate::backends::etcd;
#[cfg(feature = "local")]
use crate::backends::local;
use crate::backends::memory::Memory;
#[cfg(feature = "mysql")]
use crate::backends::mysql;
#[cfg(feature = "postgres")]
use crate::backends::postgres;
#[cfg(feature = "zookeeper")]
use crate::backends::zookeeper;
#[cfg(feature = "redis")]
use crate::backends::{redis, redlock};
use crate::error::Error;
use crate::lifecycle::deadline::Clock;

/// Opens the backend that the URL names.
pub(crate) async fn backend(url: &str, clock: &Clock) -> Result<Arc<dyn Backend>, Error> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme);
    match scheme {
        Some("memory") if url == "memory:" => Ok(Memory::new(clock.clone()).backend()),
        Some("memory") => Err(Error::invalid(
            "memory: takes no settings; write just memory:",
        )),
        #[cfg(feature = "local")]
        Some("local") => local::connect(&local::Config::from_url(url)?, clock.clone()),
        #[cfg(feature = "etcd")]
        Some("etcd") => etcd::connect(&etcd::Config::from_url(url)?, clock.clone()).await,
        #[cfg(feature = "postgres")]
        Some("postgres" | "postgresql") => {
            postgres::connect(&postgres::Config::from_url(url)?).await
        }
        #[cfg(feature = "redis")]
        Some("redis" | "rediss") if redis::dialects::Config::is_for(url) => {
            redis::dialects::connect(&redis::dialects::Config::from_url(url)?, clock.clone()).await
        }
        #[cfg(feature = "redis")]
        Some("redlock") => redlock::connect(&redlock::Config::from_url(url)?, clock.clone()).await,
        #[cfg(feature = "redis")]
        Some(
            "redis" | "rediss" | "redis+sentinel" | "rediss+sentinel" | "redis+cluster"
            | "rediss+cluster",
        ) => redis::connect(&redis::Config::from_url(url)?).await,
        #[cfg(feature = "mysql")]
        Some("mysql") => mysql::connect(&mysql::Config::from_url(url)?, clock.clone()).await,
        #[cfg(feature = "zookeeper")]
        Some("zookeeper") => {
            zookeeper::connect(&zookeeper::Config::from_url(url)?, clock.clone()).await
        }
        Some(other) => Err(Error::invalid(format!(
            "{other}: is no engine that this build knows; it knows {}",
            SCHEMES.join(", ")
        ))),
        None => Err(Error::invalid(format!(
            "an engine's URL is needed, one of {}",
            SCHEMES.join(", ")
        ))),
    }
}

/// The schemes that this build knows.
const SCHEMES: &[&str] = &[
    #[cfg(feature = "local")]
    "local:",
    #[cfg(feature = "redis")]
    "redis://",
    #[cfg(feature = "redis")]
    "redlock://",
    #[cfg(feature = "etcd")]
    "etcd://",
    #[cfg(feature = "mysql")]
    "mysql://",
    #[cfg(feature = "zookeeper")]
    "zookeeper://",
    #[cfg(feature = "postgres")]
    "postgres://",
    "memory:",
];
