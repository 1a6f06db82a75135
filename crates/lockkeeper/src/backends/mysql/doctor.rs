//! What the server says about itself: what is refused, and what its promises rest on.

use std::collections::HashMap;
use std::sync::Arc;

use mysql_async::Conn;

use super::BACKEND;
use super::client::{Client, Told, asked, read};
use super::config::{Config, VERSION};
use super::faults::{Fault, pooler, unreachable};
use crate::error::Error;

const DURING: &str = "connecting";
const HELLO: &str = "SELECT VERSION(), CONNECTION_ID(); \
    SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'read_only', 'super_read_only', 'innodb_read_only', \
    'innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog', 'innodb_doublewrite')";
/// The oldest servers with several session locks per connection and a way to free them all.
const OLDEST_MARIADB: (u32, u32) = (10, 5);
const OLDEST_MYSQL: (u32, u32) = (8, 0);

/// What was found out.
#[derive(Debug, Clone)]
pub(super) struct Examined {
    /// Whether what is committed outlives a crash of the machine; if not, the setting that is to blame.
    pub(super) undurable: Option<&'static str>,
    pub(super) encrypted: bool,
}

/// Asks the server about itself; what cannot work is refused.
pub(super) async fn examine(client: &Arc<Client>, config: &Config) -> Result<Examined, Fault> {
    let session = config.is_session();
    let (version, variables) = client
        .run(DURING, move |conn| Box::pin(hello(conn, session)))
        .await?;
    let refused = |why: String| {
        Err(Fault::Told(Error::Refused {
            backend: BACKEND,
            why,
        }))
    };
    if is_too_old(&version) {
        return refused(format!(
            "the server is version {version:?}; MariaDB 10.5, MySQL 8.0 or later is needed"
        ));
    }
    let is_on = |name: &str| {
        let value = variables.get(name).map(String::as_str);
        value.is_some_and(|value| ["ON", "1"].contains(&value))
    };
    if is_on("wsrep_on") {
        return refused(
            "the server is a member of a Galera cluster, whose members keep row locks and session locks each for itself: \
             two of them would grant one name; use a server of its own for the locks"
                .into(),
        );
    }
    if ["read_only", "super_read_only", "innodb_read_only"]
        .into_iter()
        .any(is_on)
    {
        return refused(
            "the server is read-only, perhaps a standby: name the one that is written to in the URL".into(),
        );
    }
    Ok(Examined {
        undurable: undurable(&variables),
        encrypted: config.shared.tls.is_some(),
    })
}

async fn hello(conn: &mut Conn, session: bool) -> Result<(String, HashMap<String, String>), Fault> {
    let told = asked(conn, HELLO.into(), DURING).await?;
    let mut told = told.into_iter();
    let (version, seen) = read::<(String, u64)>(first_row(told.next())?)?;
    if session {
        // bug 74: of a pool that hands connections about, each statement may come from another one.
        for _ in 0..2 {
            let again = asked(conn, "SELECT CONNECTION_ID()".into(), DURING).await?;
            let (again,) = read::<(u64,)>(first_row(again.into_iter().next())?)?;
            if again != seen || u64::from(conn.id()) != seen {
                return Err(Fault::Told(pooler()));
            }
        }
    }
    let variables = told.next().map(|told| told.rows).unwrap_or_default();
    let variables = variables.into_iter().map(read::<(String, String)>);
    Ok((version, variables.collect::<Result<_, _>>()?))
}

pub(super) fn first_row(told: Option<Told>) -> Result<mysql_async::Row, Fault> {
    let row = told.and_then(|told| told.rows.into_iter().next());
    row.ok_or_else(|| Fault::Told(unreachable("reading an answer that has no row")))
}

/// Whether the tables are those of this program and of this mode.
pub(super) async fn check_tables(client: &Arc<Client>, config: &Config) -> Result<(), Fault> {
    let packet = config.statement("SELECT version, CAST(kind AS CHAR) FROM @meta");
    let told = client.ask("looking at the tables", packet).await?;
    let row = told
        .into_iter()
        .next()
        .and_then(|told| told.rows.into_iter().next());
    let refused = |why: String| {
        Err(Fault::Told(Error::Refused {
            backend: BACKEND,
            why,
        }))
    };
    let Some(row) = row else {
        // Here a table and its first row are not made in one step: somebody else may be between the two.
        return Err(Fault::NoTables(Error::Refused {
            backend: BACKEND,
            why:
                "the tables are empty where their version should be: run `lockkeeper init --on URL`"
                    .into(),
        }));
    };
    let (version, kind) = read::<(i32, String)>(row)?;
    let wanted = config.shared.kind.as_str();
    if kind != wanted {
        return refused(format!(
            "the tables are for mode={kind}, and locks of mode={wanted} would not see them: set mode={kind}, or \
             another prefix"
        ));
    }
    if version != VERSION {
        return refused(format!(
            "the tables are of version {version}, and this program knows version {VERSION}: use the program \
             that made them, or another prefix"
        ));
    }
    Ok(())
}

/// The setting by which a crash of the machine, not of the server alone, forgets what was granted.
fn undurable(variables: &HashMap<String, String>) -> Option<&'static str> {
    let is = |name: &str, value: &str| variables.get(name).is_some_and(|found| found == value);
    if !is("innodb_flush_log_at_trx_commit", "1") {
        return Some("innodb_flush_log_at_trx_commit is not 1");
    }
    if !is("log_bin", "OFF") && !is("sync_binlog", "1") {
        return Some("the binary log is on and sync_binlog is not 1");
    }
    if is("innodb_doublewrite", "OFF") {
        return Some("innodb_doublewrite is off");
    }
    None
}

fn is_too_old(version: &str) -> bool {
    let mut numbers = version
        .split(|c: char| !c.is_ascii_digit())
        .map(|digits| digits.parse::<u32>().unwrap_or_default());
    let found = (
        numbers.next().unwrap_or_default(),
        numbers.next().unwrap_or_default(),
    );
    let oldest = if version.contains("MariaDB") {
        OLDEST_MARIADB
    } else {
        OLDEST_MYSQL
    };
    found < oldest
}

#[cfg(test)]
mod tests {
    use super::*;

    // bug 79
    #[test]
    fn old_servers_are_told_by_their_version() {
        for (version, old) in [
            ("10.11.19-MariaDB-0+deb12u1", false),
            ("10.5.2-MariaDB", false),
            ("10.4.34-MariaDB", true),
            ("11.8.2-MariaDB", false),
            ("8.0.11", false),
            ("8.4.5-commercial", false),
            ("5.7.44-log", true),
            ("5.6.51", true),
            ("nonsense", true),
        ] {
            assert_eq!(is_too_old(version), old, "{version}");
        }
    }
}
