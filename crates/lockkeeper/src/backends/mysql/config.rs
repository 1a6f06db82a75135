//! Settings from the URL `mysql://user:password@host:port/database?setting=value`. Unknown ones are refused.

use std::time::Duration;

use mysql_async::{Opts, OptsBuilder, SslOpts};

use crate::backends::sql::config::{self as shared, Kind};
use crate::backends::url::Url;
use crate::error::Error;

const PORT: u16 = 3306;
/// The connections for statements that are no claim's own, in session mode.
const COMMON_CONNECTIONS: usize = 4;
/// The version of the tables that this program makes and understands.
pub(super) const VERSION: i32 = 2;
/// A silent peer is asked whether it is there after this time.
const SILENCE: Duration = Duration::from_secs(3);
/// What every connection of ours looks like, whatever the server's own settings are: no time zone has any effect, nothing is
/// cut off silently, a statement sees what was committed before it began, and nothing waits for ever. A
/// keeper that is stopped in the middle of a change, with a name's rows locked, is not waited for either: the server ends
/// its connection. MariaDB, which alone reads what stands between the marks with an M, tells such a one from one that merely
/// rests; what stands between the others is for MySQL alone. One statement: each new connection pays for it.
const SETTINGS: &str = "SET NAMES utf8mb4, \
    /*M!100300 @@SESSION.tx_isolation */ /*!80000 @@SESSION.transaction_isolation */ = 'READ-COMMITTED', sql_mode = 'TRADITIONAL,NO_BACKSLASH_ESCAPES', time_zone = '+00:00', autocommit = 1, \
    innodb_lock_wait_timeout = 4, lock_wait_timeout = 4, wait_timeout = /*M!100300 30, idle_transaction_timeout = */ 10";

/// Where the tables are, and how to get there. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct Config {
    pub(super) shared: shared::Config,
}

impl Config {
    /// From `mysql://[user[:password]@]host[:port]/database[?setting=value&…]`.
    ///
    /// | setting | means | without it |
    /// |---|---|---|
    /// | `mode=lease`, `mode=session` | rows with an end, or the server's own locks | `lease` |
    /// | `prefix=NAME` | how the names of the tables begin | `lockkeeper`, or `lockkeeper_session` |
    /// | `create=no` | missing tables are refused, not made | they are made, where that is allowed |
    /// | `connections=N` | the most connections for statements; in session mode, the most claims of one keeper | 4; 64 |
    /// | `tls=on`, `tls=off` | TLS, or plain text | TLS, unless the host is this machine |
    /// | `ca=FILE` | trust these authorities (PEM) | the system's |
    /// | `password-file=FILE` | the password is the first line of this file | |
    ///
    /// # Errors
    /// [`Error::Invalid`] when anything else is asked for; it shows no password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let mut url = Url::parse(url)?;
        if url.scheme != "mysql" {
            let cure = "a MySQL or MariaDB URL begins with mysql://: mysql://user@host/database";
            return Err(Error::invalid(cure));
        }
        let shared = shared::Config::take(&mut url, PORT)?;
        if shared.hosts.len() != 1 {
            let cure = "a mysql:// URL names one host, the server that is written to: the locks of two servers \
                        know nothing of each other";
            return Err(Error::invalid(cure));
        }
        if shared.database.is_empty() || shared.database.contains(['\0', '`', '/']) {
            let cure = "the mysql:// URL names no database: write mysql://host/database";
            return Err(Error::invalid(cure));
        }
        url.nothing_left(shared::KNOWN)?;
        Ok(Self { shared })
    }

    /// Where the locks live, without secrets.
    pub(super) fn place(&self) -> String {
        self.shared.place()
    }

    /// The tables, as a part of session keys: the server's locks know no databases.
    pub(super) fn tables(&self) -> String {
        // Some servers tell databases apart by case and some do not. Where one does, two that differ by case alone wait for
        // each other, which is safe.
        format!(
            "{}.{}",
            self.shared.database.to_lowercase(),
            self.shared.prefix
        )
    }

    /// A statement with the names of these tables in it.
    pub(super) fn statement(&self, template: &str) -> String {
        let kind = template.replace("@kind", self.shared.kind.as_str());
        let version = kind.replace("@version", &VERSION.to_string());
        version.replace('@', &format!("{}_", self.shared.prefix))
    }

    /// The most connections for statements that are no claim's own.
    pub(super) fn common(&self) -> usize {
        if self.is_session() {
            COMMON_CONNECTIONS
        } else {
            self.shared.connections
        }
    }

    pub(super) fn is_session(&self) -> bool {
        self.shared.kind == Kind::Session
    }

    /// What the client needs to know.
    pub(super) fn client(&self) -> Opts {
        let (host, port) = self.shared.hosts.first().cloned().unwrap_or_default();
        let tls = self.shared.tls.as_ref().map(|tls| {
            let trusted = tls.1.iter().map(|der| der.to_vec().into());
            SslOpts::default()
                .with_disable_built_in_roots(true)
                .with_root_certs(trusted.collect())
        });
        OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(port)
            .user(self.shared.user.clone())
            .pass(self.shared.password.clone())
            .db_name(Some(self.shared.database.clone()))
            .ssl_opts(tls)
            // Only what the URL says: not around a proxy over a socket that the server tells of.
            .prefer_socket(false)
            .tcp_keepalive(Some(SILENCE))
            // Known here, so that they need not be asked for.
            .max_allowed_packet(Some(16 << 20))
            .wait_timeout(Some(10))
            .init(vec![SETTINGS])
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_url() {
        let url = "mysql://me:hush@h/db?mode=session&prefix=team&tls=off";
        let config = Config::from_url(url).unwrap();
        let place = "mysql://h:3306/db?mode=session&prefix=team";
        assert_eq!(config.place(), place);
        assert_eq!(
            config.statement("FROM @claims '@kind'"),
            "FROM team_claims 'session'"
        );
        // security S2
        assert!(!format!("{config:?}").contains("hush"));
    }

    // security S1
    #[test]
    fn other_machines_are_spoken_to_in_secret_and_only_to_whom_is_trusted() {
        let plain = Config::from_url("mysql://127.0.0.1/d").unwrap();
        assert!(plain.client().ssl_opts().is_none());
        let far = Config::from_url("mysql://db.example/d").unwrap();
        let client = far.client();
        let tls = client.ssl_opts().expect("encrypted");
        assert!(tls.disable_built_in_roots() && !tls.root_certs().is_empty());
        assert!(!tls.accept_invalid_certs() && !tls.skip_domain_validation());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for bad in [
            "mysql://u:hush@h",
            "mysql://u:hush@h/",
            "mysql://u:hush@h/a`b",
            "mysql://u:hush@h1,h2/d",
            "mysql://u:hush@h/d?ssl-mode=disabled",
            "mariadb://u:hush@h/d",
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
    }
}
