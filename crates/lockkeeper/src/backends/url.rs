//! The pieces of a URL: `scheme://user:password@host:port,host:port/path?setting=value`.

use std::fmt;
use std::net::IpAddr;

use crate::error::Error;

/// The pieces, decoded. Settings are taken out one by one; what is left at the end is refused.
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) hosts: Vec<(String, Option<u16>)>,
    pub(crate) path: String,
    settings: Vec<(String, String)>,
}

impl Url {
    /// Takes a URL apart. No error shows the password.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| Error::invalid("scheme://host was expected in the engine's URL"))?;
        if rest.contains('#') {
            let cure = "the URL has a #: write it as %23";
            return Err(Error::invalid(cure));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if query.contains('@') {
            // Perhaps it ends a password with a question mark in it, which no error may show.
            let cure = "the URL has an @ behind a ?: write them as %40 and %3F";
            return Err(Error::invalid(cure));
        }
        // The last @ ends the credentials: a password may hold one that is not encoded.
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, password) = match credentials.map(|both| both.split_once(':')) {
            None => (None, None),
            Some(Some((user, password))) => (non_empty(user)?, non_empty(password)?),
            Some(None) => (non_empty(credentials.unwrap_or_default())?, None),
        };
        Ok(Self {
            scheme: scheme.to_owned(),
            user,
            password,
            hosts: hosts.split(',').map(host).collect::<Result<_, _>>()?,
            path: decode(path)?,
            settings: query
                .split('&')
                .filter(|setting| !setting.is_empty())
                .map(setting)
                .collect::<Result<_, _>>()?,
        })
    }

    /// Whether all hosts are this machine, so that nothing sent to them leaves it.
    pub(crate) fn is_loopback(&self) -> bool {
        self.hosts.iter().all(|(host, _)| {
            let address = host.parse::<IpAddr>();
            host == "localhost" || address.is_ok_and(|address| address.is_loopback())
        })
    }

    /// Takes a setting out.
    pub(crate) fn setting(&mut self, name: &str) -> Result<Option<String>, Error> {
        let mut found = None;
        while let Some(at) = self.settings.iter().position(|(key, _)| key == name) {
            let (_, value) = self.settings.remove(at);
            if found.replace(value).is_some() {
                let what = format!("the setting {name} stands twice in the URL; keep one");
                return Err(Error::invalid(what));
            }
        }
        Ok(found)
    }

    /// Refuses what nobody took out.
    pub(crate) fn nothing_left(&self, known: &str) -> Result<(), Error> {
        match self.settings.first() {
            None => Ok(()),
            Some((name, _)) => Err(Error::invalid(format!(
                "{}: knows no setting {name:?}; it knows {known}",
                self.scheme
            ))),
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Url")
            .field("scheme", &self.scheme)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

fn non_empty(text: &str) -> Result<Option<String>, Error> {
    decode(text).map(|text| Some(text).filter(|text| !text.is_empty()))
}

fn setting(text: &str) -> Result<(String, String), Error> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Error::invalid(format!(
            "the setting {text:?} has no value: write name=value"
        ))
    })?;
    Ok((decode(name)?, decode(value)?))
}

/// `host`, `host:port`, `[v6]`, `[v6]:port`.
fn host(text: &str) -> Result<(String, Option<u16>), Error> {
    let wrong = || Error::invalid(format!("{text:?} is no host or host:port"));
    let (host, port) = match text.strip_prefix('[') {
        Some(v6) => {
            let (host, rest) = v6.split_once(']').ok_or_else(wrong)?;
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port.map(str::parse::<u16>) {
        None => None,
        Some(Ok(port)) if port > 0 => Some(port),
        Some(_) => return Err(wrong()),
    };
    let host = decode(host)?;
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok((host, port))
}

/// Percent-decoding; the error shows nothing, since it may be about a password.
fn decode(text: &str) -> Result<String, Error> {
    let wrong = || {
        Error::invalid("a part of the URL is not percent-encoded UTF-8: write % as %25".to_owned())
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = rest.next().map(char::from)?;
            digit.to_digit(16)
        };
        let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pieces() {
        let mut url =
            Url::parse("redis://us%40er:p%3a%2fss@w@h1:1,[::1]:2,h3/4?a=b%26&prefix=x").unwrap();
        assert_eq!(url.scheme, "redis");
        assert_eq!(url.user.as_deref(), Some("us@er"));
        assert_eq!(url.password.as_deref(), Some("p:/ss@w"));
        let hosts = [("h1", Some(1)), ("::1", Some(2)), ("h3", None)];
        assert_eq!(url.hosts, hosts.map(|(h, p)| (h.to_owned(), p)));
        assert_eq!(url.path, "4");
        assert_eq!(url.setting("a").unwrap().as_deref(), Some("b&"));
        let error = url.nothing_left("a").unwrap_err().to_string();
        assert!(error.contains("prefix"), "{error}");
        assert!(!format!("{url:?}").contains("p:/ss"), "{url:?}");
    }

    #[test]
    fn wrong_ones_are_refused_without_showing_the_password() {
        for bad in [
            "redis:h",
            "redis://",
            "redis://:hush@",
            "redis://u:hush@h:0",
            "redis://u:hush@h:99999",
            "redis://u:hush%zz@h",
            "redis://u:hush%ff@h",
            "redis://u:hush@h,,h2",
            "redis://u:hush@h?alone",
            "redis://u:hush@h#x",
            "redis://u:hush?more@h",
            "redis://u:hush@[::1",
        ] {
            let error = Url::parse(bad).unwrap_err();
            assert!(matches!(error, Error::Invalid { .. }), "{bad}");
            assert!(!error.to_string().contains("hush"), "{error}");
        }
        let twice = Url::parse("redis://h?a=1&a=2").unwrap().setting("a");
        assert!(twice.is_err());
    }
}
