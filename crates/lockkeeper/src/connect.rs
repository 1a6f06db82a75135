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

pub use upkeep::{Swept, Upkeep};

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
            postgres::connect(&postgres::Config::from_url(url)?, clock.clone()).await
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

/// The URL without its setting `tokens`, and the URL in that.
pub(crate) fn without_tokens(url: &str) -> Result<(String, Option<String>), Error> {
    let Some((before, settings)) = url.split_once('?') else {
        return Ok((url.to_owned(), None));
    };
    let is_tokens = |setting: &&str| setting.starts_with("tokens=");
    let (tokens, others): (Vec<&str>, Vec<&str>) = settings.split('&').partition(is_tokens);
    let url = match others[..] {
        [] => before.to_owned(),
        _ => format!("{before}?{}", others.join("&")),
    };
    let [tokens] = tokens[..] else {
        return match tokens[..] {
            [] => Ok((url, None)),
            _ => Err(Error::invalid("tokens= stands in the URL more than once")),
        };
    };
    let tokens = tokens["tokens=".len()..]
        .replace("%26", "&")
        .replace("%25", "%");
    Ok((url, Some(tokens)))
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

mod upkeep {
    #[cfg(feature = "mysql")]
    use crate::backends::mysql;
    #[cfg(feature = "postgres")]
    use crate::backends::postgres;
    use crate::error::Error;

    /// What an operator does for engines that keep tables: make them, and sweep them.
    #[derive(Debug, Clone)]
    pub struct Upkeep(Tables);

    #[derive(Debug, Clone)]
    enum Tables {
        #[cfg(feature = "mysql")]
        Mysql(mysql::Config),
        #[cfg(feature = "postgres")]
        Postgres(postgres::Config),
    }

    /// What a sweep took out.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Swept {
        /// Claims of the dead.
        pub claims: u64,
        /// Names that nobody uses.
        pub names: u64,
    }

    impl Upkeep {
        /// For the engine that the URL names.
        ///
        /// # Errors
        /// [`Error::Invalid`] when the engine keeps no tables, or the URL is wrong.
        pub fn of(url: &str) -> Result<Self, Error> {
            match url.split_once(':').map(|(scheme, _)| scheme) {
                #[cfg(feature = "mysql")]
                Some("mysql") => Ok(Self(Tables::Mysql(mysql::Config::from_url(url)?))),
                #[cfg(feature = "postgres")]
                Some("postgres" | "postgresql") => {
                    Ok(Self(Tables::Postgres(postgres::Config::from_url(url)?)))
                }
                scheme => Err(Error::invalid(format!(
                    "{}: keeps no tables; it needs neither init nor gc",
                    scheme.unwrap_or("the engine")
                ))),
            }
        }

        /// The statements that make the tables, with the rights that users of them need.
        pub fn script(&self) -> String {
            // By place, not by reference: without any such engine there is nothing to match.
            match self.0 {
                #[cfg(feature = "mysql")]
                Tables::Mysql(ref config) => mysql::script(config),
                #[cfg(feature = "postgres")]
                Tables::Postgres(ref config) => postgres::script(config),
            }
        }

        /// Makes the tables where they are missing.
        ///
        /// # Errors
        /// [`Error::Denied`] when this user may not; [`Error::Refused`] when the tables are of another version or mode;
        /// [`Error::Unreachable`].
        ///
        /// # Cancel safety
        /// Cancel safe: it is done whole or not at all.
        pub async fn init(&self) -> Result<(), Error> {
            // By place, not by reference: without any such engine there is nothing to match.
            match self.0 {
                #[cfg(feature = "mysql")]
                Tables::Mysql(ref config) => mysql::init(config).await,
                #[cfg(feature = "postgres")]
                Tables::Postgres(ref config) => postgres::init(config).await,
            }
        }

        /// Takes out the claims of the dead, and names that nobody uses.
        ///
        /// # Errors
        /// As of [`Upkeep::init`].
        ///
        /// # Cancel safety
        /// Cancel safe: it goes list by list.
        pub async fn gc(&self) -> Result<Swept, Error> {
            // By place, not by reference: without any such engine there is nothing to match.
            match self.0 {
                #[cfg(feature = "mysql")]
                Tables::Mysql(ref config) => {
                    let claims = mysql::gc(config).await?;
                    Ok(Swept { claims, names: 0 })
                }
                #[cfg(feature = "postgres")]
                Tables::Postgres(ref config) => {
                    let (claims, names) = postgres::gc(config).await?;
                    Ok(Swept { claims, names })
                }
            }
        }
    }
}
