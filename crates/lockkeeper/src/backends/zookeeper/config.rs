//! Where the ensemble is and how to speak to it: from the URL
//! `zookeeper://user:password@h1,h2,h3/chroot?session=10s&style=curator`.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use rustls::pki_types::ServerName;

use super::escape::unescape;
use super::names::Style;
use crate::error::Error;

const SCHEME: &str = "zookeeper://";
const PORT: u16 = 2181;
const SESSION: Duration = Duration::from_secs(10);

/// An ensemble, and the node below which the locks live.
#[derive(Clone)]
pub struct Config {
    pub(super) hosts: Vec<Host>,
    pub(super) chroot: String,
    pub(super) digest: Option<Digest>,
    pub(super) session: Duration,
    pub(super) style: Style,
    pub(super) tls: Option<Tls>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

/// Who this program is to the ensemble. Never printed.
#[derive(Clone)]
pub(super) struct Digest {
    pub(super) user: String,
    pub(super) password: String,
}

/// What is needed to trust the servers, and to be trusted by them.
#[derive(Debug, Clone, Default)]
pub(super) struct Tls {
    pub(super) authorities: Option<String>,
    pub(super) certificate: Option<String>,
    pub(super) key: Option<String>,
}

impl fmt::Debug for Config {
    /// Without the secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("place", &self.place())
            .field("session", &self.session)
            .field("style", &self.style)
            .field("tls", &self.tls.is_some())
            .finish_non_exhaustive()
    }
}

impl Config {
    /// From `zookeeper://h1,h2,h3/chroot`.
    ///
    /// | setting | meaning | without it |
    /// |---|---|---|
    /// | `user:password@` | digest authentication; every node is then ours alone | nodes are open to all |
    /// | `/chroot` | the node below which the locks live | `/lockkeeper` |
    /// | `session=10s` | the session's timeout: how soon a killed process's claims are gone | `10s` |
    /// | `style=curator` or `kazoo` | whose clients wait for our claims; both are waited for | `curator` |
    /// | `tls=on` or `off` | | on, unless all hosts are loopback |
    /// | `ca=FILE` | whom to trust, PEM | the system's authorities |
    /// | `cert=FILE`, `key=FILE` | who we are, PEM | |
    ///
    /// # Errors
    /// [`Error::Invalid`] for anything else, and [`Error::Refused`] for a password that would travel in
    /// plain text.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::invalid(format_args!("zookeeper: {what}"));
        let rest = url.strip_prefix(SCHEME).ok_or_else(|| {
            wrong("a URL begins with zookeeper://, for example zookeeper://h1,h2,h3/locks".into())
        })?;
        if rest.contains('#') {
            return Err(wrong("a URL has no part after #: leave it out".into()));
        }
        let (place, settings) = rest.split_once('?').unwrap_or((rest, ""));
        // Else a part of the password would be taken for a host or a setting, and shown.
        if settings.contains('@') {
            return Err(wrong(
                "write %3F for ? and %40 for @ in a user, password or file".into(),
            ));
        }
        let (front, chroot) = match place.rfind('@') {
            // A password may have a slash in it; the path begins after the hosts.
            Some(at) => match place[at..].find('/') {
                Some(slash) => place.split_at(at + slash),
                None => (place, ""),
            },
            None => place.split_at(place.find('/').unwrap_or(place.len())),
        };
        let (secret, hosts) = match front.rsplit_once('@') {
            Some((secret, hosts)) => (Some(secret), hosts),
            None => (None, front),
        };
        let mut config = Self {
            hosts: hosts_of(hosts).map_err(wrong)?,
            chroot: chroot_of(chroot).map_err(wrong)?,
            digest: secret.map(digest_of).transpose().map_err(wrong)?,
            session: SESSION,
            style: Style::Curator,
            tls: None,
        };
        config.apply(settings).map_err(wrong)?;
        config.check_secrecy()?;
        Ok(config)
    }

    fn apply(&mut self, settings: &str) -> Result<(), String> {
        let all_loopback = self.hosts.iter().all(Host::is_loopback);
        let (mut tls, mut files) = (None, Tls::default());
        let mut seen = Vec::new();
        for setting in settings.split('&').filter(|setting| !setting.is_empty()) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            let value = unescape(value).unwrap_or_default();
            if seen.contains(&name) {
                return Err(format!("{name} is set twice"));
            }
            seen.push(name);
            let file = || {
                if value.is_empty() {
                    return Err(format!("{name} needs a file"));
                }
                Ok(Some(value.clone()))
            };
            match (name, value.as_str()) {
                ("style", "curator") => self.style = Style::Curator,
                ("style", "kazoo") => self.style = Style::Kazoo,
                ("tls", "on") => tls = Some(true),
                ("tls", "off") => tls = Some(false),
                ("session", span) => self.session = session_of(span)?,
                ("ca", _) => files.authorities = file()?,
                ("cert", _) => files.certificate = file()?,
                ("key", _) => files.key = file()?,
                ("style" | "tls", _) => {
                    return Err(format!(
                        "{name} cannot be {value:?}: style is curator or kazoo, tls is on or off"
                    ));
                }
                _ => {
                    return Err(format!(
                        "there is no setting {name:?}: it has session, style, tls, ca, cert and key"
                    ));
                }
            }
        }
        if files.certificate.is_some() != files.key.is_some() {
            return Err("cert and key go together".into());
        }
        let names_files = files.authorities.is_some() || files.certificate.is_some();
        if names_files && tls == Some(false) {
            return Err("ca, cert and key are for TLS, which tls=off turns off".into());
        }
        let wanted = tls.unwrap_or(!all_loopback || names_files);
        let is_odd = |host: &&Host| ServerName::try_from(host.name.as_str()).is_err();
        if let Some(host) = self.hosts.iter().find(is_odd).filter(|_| wanted) {
            return Err(format!(
                "no certificate can be for a host called {:?}",
                host.name
            ));
        }
        self.tls = wanted.then_some(files);
        Ok(())
    }

    /// ZooKeeper's digest sends the password as it is.
    fn check_secrecy(&self) -> Result<(), Error> {
        let leaves = self.hosts.iter().any(|host| !host.is_loopback());
        if self.digest.is_some() && self.tls.is_none() && leaves {
            return Err(Error::Refused {
                backend: super::BACKEND,
                why: "digest authentication sends the password in plain text: use TLS (leave out tls=off), or no password".into(),
            });
        }
        Ok(())
    }

    /// Where the locks live, without secrets; the same for everybody who names the same hosts.
    pub(super) fn place(&self) -> String {
        let mut hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        hosts.sort();
        format!("{SCHEME}{}{}", hosts.join(","), self.chroot)
    }
}

impl Host {
    fn is_loopback(&self) -> bool {
        let address = self.name.parse::<IpAddr>();
        self.name == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

fn hosts_of(text: &str) -> Result<Vec<Host>, String> {
    text.split(',').map(host_of).collect()
}

fn host_of(text: &str) -> Result<Host, String> {
    let wrong = || format!("{text:?} is no host: write name, name:port or [address]:port");
    let (name, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((name, "")) => (name, None),
        Some((name, port)) => (name, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
        None => match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| wrong())?,
        None => PORT,
    };
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "/@[]".contains(c);
    if name.is_empty() || port == 0 || name.contains(is_odd) {
        return Err(wrong());
    }
    Ok(Host {
        name: name.to_owned(),
        port,
    })
}

fn chroot_of(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    if path.is_empty() {
        return Ok("/lockkeeper".into());
    }
    let path = unescape(path).ok_or_else(|| format!("the path {path:?} is not UTF-8"))?;
    let is_fit = |element: &str| {
        !matches!(element, "" | "." | "..") && !element.contains(|c: char| !super::names::is_fit(c))
    };
    if !path[1..].split('/').all(is_fit) {
        return Err(format!("{path:?} is no path of a node"));
    }
    if path == "/zookeeper" || path.starts_with("/zookeeper/") {
        return Err("/zookeeper belongs to the servers: choose another path".into());
    }
    Ok(path)
}

fn digest_of(text: &str) -> Result<Digest, String> {
    // Nothing of the text may be in the message.
    let wrong =
        || "what stands before @ must be user:password, with %40 for @ in either".to_owned();
    let (user, password) = text.split_once(':').ok_or_else(wrong)?;
    let user = unescape(user).ok_or_else(wrong)?;
    let password = unescape(password).ok_or_else(wrong)?;
    if user.is_empty() || user.contains(':') {
        return Err(wrong());
    }
    Ok(Digest { user, password })
}

fn session_of(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => 0,
    };
    let millis = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    match millis.map(Duration::from_millis) {
        Some(span) if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&span) => {
            Ok(span)
        }
        _ => Err(format!(
            "session cannot be {text:?}: write 500ms, 10s or 1m"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        Config::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn urls() {
        let plain = config("zookeeper://127.0.0.1");
        assert_eq!(plain.place(), "zookeeper://127.0.0.1:2181/lockkeeper");
        assert_eq!((plain.session, plain.style), (SESSION, Style::Curator));
        assert!(plain.tls.is_none() && plain.digest.is_none());
        let full = config(
            "zookeeper://me:a%40b/c@b:1,[::1]:2,a/locks/x?style=kazoo&session=500ms&tls=on&ca=/f",
        );
        assert_eq!(full.place(), "zookeeper://[::1]:2,a:2181,b:1/locks/x");
        let digest = full.digest.as_ref().unwrap();
        assert_eq!(
            (digest.user.as_str(), digest.password.as_str()),
            ("me", "a@b/c")
        );
        assert_eq!(
            (full.session, full.style),
            (Duration::from_millis(500), Style::Kazoo)
        );
        assert_eq!(full.tls.unwrap().authorities, Some("/f".into()));
    }

    // S1: verified TLS to any host that is not this one, unless the URL says otherwise.
    #[test]
    fn plain_text_stays_on_this_machine_unless_asked_for() {
        assert!(
            config("zookeeper://localhost,127.0.0.2,[::1]")
                .tls
                .is_none()
        );
        assert!(config("zookeeper://localhost?tls=on").tls.is_some());
        assert!(config("zookeeper://zk1").tls.is_some());
        assert!(config("zookeeper://127.0.0.1,zk1").tls.is_some());
        assert!(config("zookeeper://zk1?tls=off").tls.is_none());
    }

    // S5: a password never leaves the machine in plain text.
    #[test]
    fn a_password_in_plain_text_is_refused() {
        let error = Config::from_url("zookeeper://me:hunter2@zk1?tls=off").unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"));
        config("zookeeper://me:hunter2@127.0.0.1");
        config("zookeeper://me:hunter2@zk1");
    }

    // S2: no secret is shown, not even of a URL that is wrong.
    #[test]
    fn wrong_urls_are_refused_without_their_secrets() {
        for bad in [
            "zookeeper:",
            "zookeeper://",
            "zookeeper://a,",
            "zookeeper://a:0",
            "zookeeper://a:x",
            "zookeeper://[::1",
            "zookeeper://a b",
            "zookeeper://a..b",
            "zookeeper://u:hun?ter2hunter2@h",
            "zookeeper://u:1?hunter2@h",
            "zookeeper://127.0.0.1?tls=on&tls=off",
            "zookeeper://hunter2@a",
            "zookeeper://:hunter2@a",
            "zookeeper://u:hunter2%ff@a",
            "zookeeper://u:hunter2@a/..",
            "zookeeper://u:hunter2@a//b",
            "zookeeper://u:hunter2@a/b?session=1",
            "zookeeper://u:hunter2@a/b?session=0s",
            "zookeeper://u:hunter2@a/b?session=2h",
            "zookeeper://u:hunter2@a/b?style=java",
            "zookeeper://u:hunter2@a/b?tls=maybe",
            "zookeeper://u:hunter2@a/b?cert=/a",
            "zookeeper://u:hunter2@a/b?ca=",
            "zookeeper://u:hunter2@127.0.0.1/b?tls=off&ca=/f",
            "zookeeper://u:hunter2@a/b?timeout=3",
            "zookeeper://u:hunter2@a/b#c",
            "zookeeper://a/zookeeper/config",
            "zookeeper://a/b%00",
        ] {
            let error = Config::from_url(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let shown = format!("{:?}", config("zookeeper://u:hunter2@127.0.0.1/b"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
