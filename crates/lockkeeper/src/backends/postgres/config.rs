//! Settings from the URL `postgres://user:password@host:port/database?setting=value`. Unknown ones are refused.

use std::time::Duration;

use crate::backends::sql::config::{self as shared, Kind, is_plain, wrong};
use crate::backends::url::Url;
use crate::error::Error;

const PORT: u16 = 5432;
/// How long connecting to one host may take, with TLS and login.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// A silent peer is asked whether it is there after this time, and given up soon after.
const SILENCE: Duration = Duration::from_secs(3);

/// Where the tables are, and how to get there. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Config {
    pub(super) shared: shared::Config,
    pub(super) schema: String,
}

impl Config {
    /// From `postgres://[user[:password]@]host[:port][,host[:port]…]/database[?setting=value&…]`; of several hosts
    /// the first that can be written to is used.
    ///
    /// | setting | means | without it |
    /// |---|---|---|
    /// | `mode=lease`, `mode=session` | rows with an end, or the server's own locks | `lease` |
    /// | `schema=NAME` | where the tables are | `public` |
    /// | `prefix=NAME` | how their names begin | `lockkeeper`, or `lockkeeper_session` |
    /// | `create=no` | missing tables are refused, not made | they are made, where that is allowed |
    /// | `connections=N` | the most connections for statements; in session mode, the most claims of one keeper | 4; 64 |
    /// | `tls=on`, `tls=off` | TLS, or plain text | TLS, unless all hosts are this machine |
    /// | `ca=FILE` | trust these authorities (PEM) | the system's |
    /// | `password-file=FILE` | the password is the first line of this file | |
    ///
    /// # Errors
    /// [`Error::Invalid`] when anything else is asked for; it shows no password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let mut url = Url::parse(url)?;
        if !["postgres", "postgresql"].contains(&url.scheme.as_str()) {
            let cure =
                "a PostgreSQL URL begins with postgres://, for example postgres://host/database";
            return Err(Error::invalid(cure));
        }
        url.scheme = "postgres".into();
        let mut shared = shared::Config::take(&mut url, PORT)?;
        if shared.database.is_empty() || shared.database.contains('\0') {
            let cure = "the PostgreSQL URL names no database: write postgres://host/database";
            return Err(Error::invalid(cure));
        }
        let schema = url.setting("schema")?.unwrap_or_else(|| "public".into());
        if !is_plain(&schema) {
            let expected = "a letter, then up to 31 small letters, digits or _";
            return Err(wrong("schema", &schema, expected));
        }
        url.nothing_left(&format!("schema, {}", shared::KNOWN))?;
        shared.user = shared.user.or_else(|| Some("postgres".into()));
        Ok(Self { shared, schema })
    }

    /// Where the locks live, without secrets.
    pub(super) fn place(&self) -> String {
        format!("{}&schema={}", self.shared.place(), self.schema)
    }

    /// The tables, as a part of session keys.
    pub(super) fn tables(&self) -> String {
        format!("{}.{}", self.schema, self.shared.prefix)
    }

    /// A statement with the names of these tables in it.
    pub(super) fn statement(&self, template: &str) -> String {
        let prefix = format!("{}.{}_", self.schema, self.shared.prefix);
        let kind = template.replace("@kind", self.shared.kind.as_str());
        kind.replace('@', &prefix)
    }

    /// The most connections for statements, besides those of session claims.
    pub(super) fn links(&self) -> usize {
        match self.shared.kind {
            Kind::Lease => self.shared.connections,
            Kind::Session => 2,
        }
    }

    /// What the client needs to know to connect to this host.
    pub(super) fn client(&self, host: &(String, u16), settings: &str) -> tokio_postgres::Config {
        let mut client = tokio_postgres::Config::new();
        client.host(&host.0).port(host.1);
        if let Some(user) = &self.shared.user {
            client.user(user);
        }
        if let Some(password) = &self.shared.password {
            client.password(password);
        }
        client
            .dbname(&self.shared.database)
            .application_name("lockkeeper")
            .options(settings)
            .keepalives(true)
            .keepalives_idle(SILENCE)
            .keepalives_interval(SILENCE / 3)
            .keepalives_retries(3)
            .tcp_user_timeout(2 * SILENCE)
            .ssl_mode(match self.shared.tls {
                Some(_) => tokio_postgres::config::SslMode::Require,
                None => tokio_postgres::config::SslMode::Disable,
            });
        client
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_url() {
        let url = "postgresql://me:hush@h/db?schema=locks&prefix=team&tls=off";
        let config = Config::from_url(url).unwrap();
        let place = "postgres://h:5432/db?mode=lease&prefix=team&schema=locks";
        assert_eq!(config.place(), place);
        assert_eq!(
            config.statement("SELECT FROM @claims"),
            "SELECT FROM locks.team_claims"
        );
        assert!(
            !format!("{config:?} {:?}", config.client(&("h".into(), 5432), "")).contains("hush")
        );
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for bad in [
            "postgres://u:hush@h",
            "postgres://u:hush@h/",
            "postgres://u:hush@h/d?schema=a.b",
            "postgres://u:hush@h/d?sslmode=disable",
            "mysql://u:hush@h/d",
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
