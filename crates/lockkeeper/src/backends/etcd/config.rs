//! Settings from the URL `etcd://user:password@h1:2379,h2,h3/prefix?setting=value`. Unknown ones are refused.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::backends::tls;
use crate::error::Error;

const PORT: u16 = 2379;
const PREFIX: &str = "/lockkeeper";
const KNOWN: &str = "tls, ca, cert, key and password-file";

/// Where the locks live, and how to get there.
#[derive(Clone)]
pub struct Config {
    /// Each as `host:port`, in the order of the URL.
    pub(super) members: Vec<String>,
    /// Before every key, without a slash at its end.
    pub(super) prefix: String,
    pub(super) user: Option<(String, String)>,
    pub(super) tls: Option<Tls>,
}

/// Which certificates to trust, and which to show.
#[derive(Debug, Clone, Default)]
pub(super) struct Tls {
    /// Instead of the system's.
    pub(super) ca: Option<String>,
    /// Certificate and key of this client.
    pub(super) identity: Option<(String, String)>,
}

impl Tls {
    pub(super) fn settings(&self) -> Result<Arc<rustls::ClientConfig>, Error> {
        let identity = self.identity.as_ref();
        let identity = identity.map(|(cert, key)| (cert.as_str(), key.as_str()));
        let mut settings = tls::introducing(self.ca.as_deref(), identity)?;
        settings.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(settings))
    }
}

impl Config {
    /// From `etcd://[user[:password]@]host[:port][,host[:port]…][/prefix][?setting=value&…]`.
    ///
    /// | setting | means |
    /// |---|---|
    /// | `tls=off`, `tls=on` | plain text, or TLS; without it TLS, except where all hosts are this machine |
    /// | `ca=FILE` | trust these certificates (PEM) instead of the system's |
    /// | `cert=FILE&key=FILE` | show this certificate (PEM) |
    /// | `password-file=FILE` | the password is the first line of this file |
    ///
    /// # Errors
    /// [`Error::Invalid`] when anything else is asked for; it shows no password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let rest = url.strip_prefix("etcd://").ok_or_else(|| {
            Error::invalid("an etcd URL begins with etcd:// and the hosts: etcd://h1:2379,h2,h3")
        })?;
        if rest.contains('#') {
            return Err(Error::invalid("the etcd URL has a #: write it as %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            // What stands before it may be a part of the password, so none of it is shown.
            return Err(Error::invalid(
                "the etcd URL has an @ behind a ?: write %3F for a ? in the password, and %40 for an @ in a setting",
            ));
        }
        // The last @ ends the credentials: a password may hold one that is not encoded.
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let members: Vec<String> = hosts.split(',').map(member).collect::<Result<_, _>>()?;
        let mut settings = Settings::of(query)?;
        let tls = tls(&mut settings, &members)?;
        let user = user(credentials, settings.take("password-file"))?;
        settings.none_left()?;
        Ok(Self {
            members,
            prefix: prefix(path)?,
            user,
            tls,
        })
    }

    /// The same place under another prefix: a corner of its own for each test.
    #[doc(hidden)]
    pub fn under(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// For people, without secrets.
    pub(super) fn place(&self) -> String {
        format!("etcd://{}{}", self.members.join(","), self.prefix)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("place", &self.place())
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("tls", &self.tls)
            .finish()
    }
}

/// The settings of the URL, each taken out once.
struct Settings(Vec<(String, String)>);

impl Settings {
    fn of(query: &str) -> Result<Self, Error> {
        let mut all: Vec<(String, String)> = Vec::new();
        for setting in query.split('&').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            if all.iter().any(|(known, _)| known == name) {
                let what = format!("the setting {name} stands twice in the etcd URL: keep one");
                return Err(Error::invalid(what));
            }
            all.push((name.to_owned(), decoded(value)?));
        }
        Ok(Self(all))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn none_left(&self) -> Result<(), Error> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(format!(
                "etcd: knows no setting {name:?}; it knows {KNOWN}"
            ))),
        }
    }
}

fn member(host: &str) -> Result<String, Error> {
    let bad = || {
        Error::invalid(format!(
            "{host:?} is no host of an etcd URL: write host or host:port, and [::1]:port for IPv6"
        ))
    };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port.parse().map_err(|_| bad())?),
        _ => (host, PORT),
    };
    let bracketed = name.starts_with('[') && name.ends_with(']');
    let odd = |c: char| c.is_whitespace() || c.is_control() || "/\\<>\"".contains(c);
    if name.is_empty() || name.contains(odd) || (name.contains(':') && !bracketed) {
        return Err(bad());
    }
    Ok(format!("{name}:{port}"))
}

fn prefix(path: &str) -> Result<String, Error> {
    let path = decoded(path)?;
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Ok(PREFIX.into());
    }
    if path.contains(|c: char| c.is_control()) || path.contains("//") {
        let what = "the prefix in the etcd URL has control characters or an empty part";
        return Err(Error::invalid(what));
    }
    Ok(format!("/{path}"))
}

fn tls(settings: &mut Settings, members: &[String]) -> Result<Option<Tls>, Error> {
    let files = ["ca", "cert", "key"].map(|name| settings.take(name));
    let wanted = match settings.take("tls").as_deref() {
        Some("on") => true,
        Some("off") => false,
        None => files.iter().any(Option::is_some) || !members.iter().all(|host| is_here(host)),
        Some(_) => return Err(Error::invalid("tls in the etcd URL is on or off")),
    };
    let [ca, cert, key] = files;
    let identity = match (cert, key) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => return Err(Error::invalid("cert and key in the etcd URL go together")),
    };
    if !wanted && (ca.is_some() || identity.is_some()) {
        return Err(Error::invalid(
            "tls=off in the etcd URL, and yet certificates: leave one of them out",
        ));
    }
    Ok(wanted.then_some(Tls { ca, identity }))
}

/// Whether what is sent there never leaves this machine.
fn is_here(member: &str) -> bool {
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn user(
    credentials: Option<&str>,
    file: Option<String>,
) -> Result<Option<(String, String)>, Error> {
    let Some(credentials) = credentials else {
        return match file {
            None => Ok(None),
            Some(_) => Err(Error::invalid(
                "password-file in the etcd URL needs a user: etcd://user@host",
            )),
        };
    };
    let (name, password) = match credentials.split_once(':') {
        Some((name, password)) => (name, Some(decoded(password)?)),
        None => (credentials, None),
    };
    let password = match (password, file) {
        (Some(password), None) => password,
        (None, Some(file)) => {
            let text = std::fs::read_to_string(&file)
                .map_err(|error| Error::invalid(format!("the password file {file:?}: {error}")))?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        (None, None) => {
            let what = "the etcd URL has a user and no password: add it, or password-file=FILE";
            return Err(Error::invalid(what));
        }
        (Some(_), Some(_)) => {
            let what = "the etcd URL has a password and a password-file: leave one of them out";
            return Err(Error::invalid(what));
        }
    };
    Ok(Some((decoded(name)?, password)))
}

/// Percent-decoded. The error does not show the text: it may be a password.
fn decoded(text: &str) -> Result<String, Error> {
    let bad = || Error::invalid("the etcd URL has a % that is not followed by two hex digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit(rest.next()), digit(rest.next()));
        let (high, low) = high.zip(low).ok_or_else(bad)?;
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_url() {
        let url = "etcd://us%40er:p%3Aa@ss@a:1,b,[::1]:3/my/locks/?tls=on&ca=%2Fca.pem";
        let config = Config::from_url(url).unwrap();
        assert_eq!(config.members, ["a:1", "b:2379", "[::1]:3"]);
        assert_eq!(config.prefix, "/my/locks");
        assert_eq!(config.user, Some(("us@er".into(), "p:a@ss".into())));
        let tls = config.tls.clone().unwrap();
        assert_eq!(tls.ca, Some("/ca.pem".into()));
        assert_eq!(config.place(), "etcd://a:1,b:2379,[::1]:3/my/locks");
        let shown = format!("{config:?}");
        assert!(
            !shown.contains("p:a@ss") && !shown.contains("p%3A"),
            "{shown}"
        );
    }

    // security S1
    #[test]
    fn plain_text_only_to_this_machine_or_on_demand() {
        for (url, tls) in [
            ("etcd://localhost", false),
            ("etcd://127.0.0.1:1,[::1]:2", false),
            ("etcd://127.0.0.1,other", true),
            ("etcd://other", true),
            ("etcd://other?tls=off", false),
            ("etcd://localhost?tls=on", true),
            ("etcd://localhost?ca=/x", true),
            // Not the machine itself, whatever it is called.
            ("etcd://localhost.example", true),
        ] {
            let config = Config::from_url(url).unwrap();
            assert_eq!(config.tls.is_some(), tls, "{url}");
        }
    }

    // security S2
    #[test]
    fn everything_else_is_refused_without_showing_the_password() {
        for bad in [
            "etcd:",
            "etcd://",
            "etcd://u:hunter2@h?colour=red",
            "etcd://u:hunter2@h?tls=maybe",
            "etcd://u:hunter2@h?tls=off&ca=/x",
            "etcd://u:hunter2@h?cert=/x",
            "etcd://u:hunter2@h?tls=on&tls=on",
            "etcd://u:hunter2%zz@h",
            "etcd://u:hunter2@h:port",
            "etcd://u:hunter2@a,,b",
            "etcd://u:hunter2@::1",
            "etcd://u:hunter2@h?password-file=/x",
            "etcd://u:hunter2@h/a//b",
            "etcd://u@h",
            "etcd://h?password-file=/x",
            "etcd://h/a#b",
            // Where a ? in the password is not encoded, the rest of it looks like hosts and settings.
            "etcd://u:hunter2?x@h",
            "etcd://u:1?hunter2@h",
            "etcd://u:1?tls=hunter2@h",
            "etcd://u:1?ca=/x&ca=hunter2@h",
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn the_password_may_stand_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\nmore\n").unwrap();
        let url = format!("etcd://u@h?password-file={}", file.path().display());
        let config = Config::from_url(&url).unwrap();
        assert_eq!(config.user, Some(("u".into(), "hunter2".into())));
    }
}
