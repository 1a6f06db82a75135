//! The settings that the URLs of all SQL servers share:
//! `scheme://user:password@host:port/database?mode=session&prefix=locks&tls=off`.

use std::fmt;

use crate::backends::tls::Tls;
use crate::backends::url::Url;
use crate::error::Error;

/// The settings that [`Config::take`] knows, for the text of a refusal.
pub(crate) const KNOWN: &str = "mode, prefix, tls, ca, password-file, connections and create";
/// The longest prefix: with what follows it, a table's name stays short enough for every server.
const LONGEST_PREFIX: usize = 32;
/// The most connections that one keeper may be given.
const MOST_CONNECTIONS: usize = 1000;

/// Where the tables are, and how to get there. `Debug` shows no secret.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) scheme: String,
    pub(crate) hosts: Vec<(String, u16)>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) kind: Kind,
    /// Before the names of all tables; letters, digits and `_` only, so that it needs no quoting.
    pub(crate) prefix: String,
    /// None: plain text.
    pub(crate) tls: Option<Tls>,
    /// The most connections for statements; in session mode, where each claim has one, the most claims.
    pub(crate) connections: usize,
    /// Whether missing tables are made when connecting.
    pub(crate) create: bool,
}

/// How locks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows with an end.
    Lease,
    /// The server's own locks, which end with their connection.
    Session,
}

impl Kind {
    /// As in the URL, and in the tables.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Session => "session",
        }
    }
}

impl Config {
    /// Takes the shared settings out of the URL; the caller takes its own, and then refuses what is left.
    pub(crate) fn take(url: &mut Url, port: u16) -> Result<Self, Error> {
        let kind = match url.setting("mode")?.as_deref() {
            None | Some("lease") => Kind::Lease,
            Some("session") => Kind::Session,
            Some(other) => return Err(wrong("mode", other, "lease or session")),
        };
        let default = match kind {
            Kind::Lease => "lockkeeper",
            Kind::Session => "lockkeeper_session",
        };
        let prefix = url.setting("prefix")?.unwrap_or_else(|| default.into());
        if !is_plain(&prefix) {
            let expected = "a letter, then up to 31 small letters, digits or _";
            return Err(wrong("prefix", &prefix, expected));
        }
        let connections = url.setting("connections")?;
        let connections = match connections.as_deref().map(str::parse::<usize>) {
            None if kind == Kind::Session => 64,
            None => 4,
            Some(Ok(number)) if (1..=MOST_CONNECTIONS).contains(&number) => number,
            Some(_) => {
                let expected = format!("a number from 1 to {MOST_CONNECTIONS}");
                return Err(wrong(
                    "connections",
                    &connections.unwrap_or_default(),
                    &expected,
                ));
            }
        };
        let create = match url.setting("create")?.as_deref() {
            None | Some("yes") => true,
            Some("no") => false,
            Some(other) => return Err(wrong("create", other, "yes or no")),
        };
        let hosts = url.hosts.iter();
        Ok(Self {
            scheme: url.scheme.clone(),
            hosts: hosts
                .map(|(host, own)| (host.clone(), own.unwrap_or(port)))
                .collect(),
            tls: tls(url)?,
            password: password(url)?,
            user: url.user.clone(),
            database: url.path.trim_matches('/').to_owned(),
            kind,
            prefix,
            connections,
            create,
        })
    }

    /// Where the locks live, without secrets: the same for all keepers that share them.
    pub(crate) fn place(&self) -> String {
        let mut hosts: Vec<String> = self.hosts.iter().map(shown).collect();
        hosts.sort();
        let (scheme, hosts, database) = (&self.scheme, hosts.join(","), &self.database);
        let (mode, prefix) = (self.kind.as_str(), &self.prefix);
        format!("{scheme}://{hosts}/{database}?mode={mode}&prefix={prefix}")
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("place", &self.place())
            .field("user", &self.user)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

fn shown((host, port): &(String, u16)) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Whether a word can be a part of a table's name as it is.
pub(crate) fn is_plain(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=LONGEST_PREFIX).contains(&word.len())
        && word.bytes().all(plain)
        && !word.starts_with(|first: char| first.is_ascii_digit())
}

fn tls(url: &mut Url) -> Result<Option<Tls>, Error> {
    let ca = url.setting("ca")?;
    let wanted = match (url.setting("tls")?.as_deref(), &ca) {
        (None, None) => !url.is_loopback(),
        (None | Some("on"), _) => true,
        (Some("off"), None) => false,
        (Some("off"), Some(_)) => {
            let cure = "tls=off in the URL, and yet ca=: leave one of them out";
            return Err(Error::invalid(cure));
        }
        (Some(other), _) => return Err(wrong("tls", other, "on or off")),
    };
    wanted.then(|| Tls::trusting(ca.as_deref())).transpose()
}

fn password(url: &mut Url) -> Result<Option<String>, Error> {
    match (url.password.clone(), url.setting("password-file")?) {
        (password, None) => Ok(password),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| Error::invalid(format!("the password file {file:?}: {error}")))?;
            Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
        }
        (Some(_), Some(_)) => Err(Error::invalid(
            "the URL has a password and a password-file: leave one of them out",
        )),
    }
}

/// A setting that has another value than those it may have.
pub(crate) fn wrong(setting: &str, found: &str, expected: &str) -> Error {
    Error::invalid(format!(
        "{setting}={found:?} in the URL: {expected} was expected"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, Error> {
        let mut url = Url::parse(text)?;
        let config = Config::take(&mut url, 7)?;
        url.nothing_left(KNOWN)?;
        Ok(config)
    }

    #[test]
    fn the_whole_url() {
        let config =
            config("sql://me:hush@b,[::1]:2/db?mode=session&prefix=team_a&tls=off").unwrap();
        assert_eq!(config.hosts, [("b".into(), 7), ("::1".into(), 2)]);
        assert_eq!(config.password.as_deref(), Some("hush"));
        assert_eq!(config.kind, Kind::Session);
        let place = "sql://[::1]:2,b:7/db?mode=session&prefix=team_a";
        assert_eq!(config.place(), place);
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }

    // security S1
    #[test]
    fn plain_text_only_to_this_machine_or_on_demand() {
        for (url, encrypted) in [
            ("sql://localhost/d", false),
            ("sql://127.0.0.1,[::1]/d", false),
            ("sql://127.0.0.1,other/d", true),
            ("sql://other/d", true),
            ("sql://other/d?tls=off", false),
            ("sql://localhost/d?tls=on", true),
        ] {
            assert_eq!(config(url).unwrap().tls.is_some(), encrypted, "{url}");
        }
    }

    // security S2
    #[test]
    fn everything_else_is_refused_without_showing_the_password() {
        for bad in [
            "sql://u:hush@h/d?colour=red",
            "sql://u:hush@h/d?mode=both",
            "sql://u:hush@h/d?tls=maybe",
            "sql://u:hush@h/d?tls=off&ca=/x",
            "sql://u:hush@h/d?ca=/nowhere",
            "sql://u:hush@h/d?prefix=",
            "sql://u:hush@h/d?prefix=a-b",
            "sql://u:hush@h/d?prefix=1a",
            "sql://u:hush@h/d?prefix=A",
            "sql://u:hush@h/d?connections=0",
            "sql://u:hush@h/d?connections=x",
            "sql://u:hush@h/d?create=maybe",
            "sql://u:hush@h/d?password-file=/x",
            "sql://u@h/d?password-file=/nowhere",
        ] {
            let error = config(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
        }
    }
}
