//! What the server's errors mean: begin anew, refused, denied, or unknown.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::ServerError;

use super::BACKEND;
use crate::error::Error;

/// Why a statement was not carried out.
#[derive(Debug)]
pub(super) enum Fault {
    /// Somebody else was in the way: nothing was changed, and the same may be tried at once.
    Again(Error),
    /// The tables are not there.
    NoTables(Error),
    /// What the statement asks for was not so: nothing was changed.
    Unmet(Error),
    /// What the caller is told.
    Told(Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Again(error)
            | Fault::NoTables(error)
            | Fault::Unmet(error)
            | Fault::Told(error) => error,
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

/// Sorts an error of the client. Whatever is not known is *unknown*.
pub(super) fn sort(error: mysql_async::Error, during: &str) -> Fault {
    match error {
        mysql_async::Error::Server(told) => sort_told(told, during),
        mysql_async::Error::Io(error) if is_about_trust(&error) => Fault::Told(Error::Denied {
            backend: BACKEND,
            what: format!(
                "the server's certificate is not trusted ({error}); name its authority with ca=FILE, and the host as \
                 the certificate does"
            ),
        }),
        mysql_async::Error::Driver(mysql_async::DriverError::NoClientSslFlagFromServer) => {
            Fault::Told(Error::Denied {
                backend: BACKEND,
                what: "the server does not speak TLS; give it a certificate, or ask for plain text with tls=off"
                    .into(),
            })
        }
        other => Fault::Told(unknown(other, during)),
    }
}

/// Whether it is the server's certificate that is wrong, and not the line.
fn is_about_trust(error: &mysql_async::IoError) -> bool {
    match error {
        mysql_async::IoError::Tls(_) => true,
        mysql_async::IoError::Io(error) => error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
            // Nothing else is known before anything was asked: a record that cannot be read may stand for an answer.
            .is_some_and(|error| matches!(error, rustls::Error::InvalidCertificate(_))),
    }
}

fn sort_told(told: ServerError, during: &str) -> Fault {
    let message = told.message.clone();
    let denied = |cure: &str| {
        Fault::Told(Error::Denied {
            backend: BACKEND,
            what: format!("{message} while {during}; {cure}"),
        })
    };
    let refused = |cure: &str| Error::Refused {
        backend: BACKEND,
        why: format!("{message} while {during}; {cure}"),
    };
    match told.code {
        // A deadlock, or changed since it was read: rolled back, and soon over. Or a prepared statement whose tables the server had
        // put aside: not carried out.
        1213 | 1020 | 1615 => Fault::Again(unknown(mysql_async::Error::Server(told), during)),
        1146 | 1054 => Fault::NoTables(refused(
            "the tables of this URL are missing or not lockkeeper's: run `lockkeeper init --on URL` as a user who may \
             make them",
        )),
        // A column that must not be empty would be.
        1048 => Fault::Unmet(unknown(mysql_async::Error::Server(told), during)),
        1142 | 1143 | 1370 | 1227 => denied(
            "this user needs SELECT, INSERT, UPDATE and DELETE on the tables: `lockkeeper init --on URL --print` shows \
             the statements",
        ),
        1044 | 1045 | 1698 | 1862 | 4151 => denied("check user, password and database of the URL"),
        1095 => denied(
            "the claim belongs to another user of the server, whose connections this one may not end",
        ),
        1049 => Fault::Told(refused("name an existing database in the URL")),
        // This was not done. But the same may have been asked before, without an answer, when the server was still written
        // to: so what has become of the claim is unknown. Whoever connects to such a server is refused.
        1290 | 1792 | 1836 | 1874 => Fault::Told(unreachable(format!(
            "{during}: {message}; the server is read-only, perhaps a standby: name the one that is written to in the URL"
        ))),
        1665 => Fault::Told(refused("set binlog_format=ROW or MIXED")),
        1040 | 1203 | 1226 => Fault::Told(Error::Unreachable {
            backend: BACKEND,
            during: format!(
                "{during}: it has no connection left ({message}); raise max_connections, or let fewer programs connect"
            ),
            source: None,
        }),
        _ => Fault::Told(unknown(mysql_async::Error::Server(told), during)),
    }
}

/// Something stands between us and the server that hands sessions about (bug 74).
pub(super) fn pooler() -> Error {
    Error::Refused {
        backend: BACKEND,
        why: "a proxy that hands connections about stands before the server (its statements come from different \
              sessions): session locks would belong to somebody else; connect to the server itself, or use mode=lease"
            .into(),
    }
}

fn unknown(error: mysql_async::Error, during: &str) -> Error {
    Error::Unreachable {
        backend: BACKEND,
        during: during.into(),
        source: Some(Arc::new(error)),
    }
}

pub(super) fn unreachable(during: impl Into<String>) -> Error {
    Error::Unreachable {
        backend: BACKEND,
        during: during.into(),
        source: None,
    }
}

pub(super) fn silent(during: &str, patience: Duration) -> Error {
    unreachable(format!("{during} (no answer within {patience:.1?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(code: u16) -> Fault {
        let told = ServerError {
            code,
            message: "words".into(),
            state: "HY000".into(),
        };
        sort(mysql_async::Error::Server(told), "trying")
    }

    #[test]
    fn each_error_has_an_outcome_and_the_default_is_unknown() {
        for (code, kind) in [
            (1205, "unknown"),
            (1213, "again"),
            (1615, "again"),
            (1146, "no tables"),
            (1142, "denied"),
            (1045, "denied"),
            (1290, "unknown"),
            (1792, "unknown"),
            (1049, "refused"),
            (1040, "unknown"),
            (1317, "unknown"),
            (1927, "unknown"),
            (9999, "unknown"),
        ] {
            let found = match sorted(code) {
                Fault::Again(error) if error.is_unknown() => "again",
                Fault::NoTables(Error::Refused { .. }) => "no tables",
                Fault::Told(Error::Denied { .. }) => "denied",
                Fault::Told(Error::Refused { .. }) => "refused",
                Fault::Told(error) if error.is_unknown() => "unknown",
                _ => "something else",
            };
            assert_eq!(found, kind, "{code}");
        }
    }
}
