//! What the server's errors mean: begin anew, refused, denied, or unknown.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::BACKEND;
use crate::error::Error;

/// Why a statement was not carried out.
#[derive(Debug)]
pub(super) enum Fault {
    /// Somebody else was quicker: nothing was changed, and the same may be tried at once.
    Again,
    /// The tables are not there.
    NoTables(Error),
    /// What the caller is told.
    Told(Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Again => unreachable("changing a list that others change all the time"),
            Fault::NoTables(error) | Fault::Told(error) => error,
        }
    }
}

/// Sorts an error of the client.
pub(super) fn sort(error: tokio_postgres::Error, during: &str) -> Fault {
    let Some(told) = error.as_db_error() else {
        return Fault::Told(untrusted(&error).unwrap_or_else(|| unknown(error, during)));
    };
    let (code, message) = (told.code().clone(), told.message().to_owned());
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
    match code {
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::UNIQUE_VIOLATION => Fault::Again,
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_COLUMN => {
            Fault::NoTables(refused(
                "the tables of this URL are missing or not lockkeeper's: run `lockkeeper init --on URL` as a user who \
                 may make them",
            ))
        }
        SqlState::INSUFFICIENT_PRIVILEGE => denied(
            "this user needs SELECT, INSERT, UPDATE and DELETE on the tables and USAGE on the sequence: \
             `lockkeeper init --on URL --print` shows the statements",
        ),
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            denied("check user and password of the URL, and pg_hba.conf")
        }
        SqlState::UNDEFINED_DATABASE => {
            Fault::Told(refused("name an existing database in the URL"))
        }
        // Nothing was done, but it passes: whoever asks again is right.
        SqlState::TOO_MANY_CONNECTIONS => Fault::Told(unreachable(format!(
            "{during} ({message}: no connection is left; raise max_connections there, or lower connections= here)"
        ))),
        SqlState::PROTOCOL_VIOLATION if message.contains("startup parameter") => {
            Fault::Told(pooler("it does not pass settings of the session on"))
        }
        // Statements are prepared in a session; here it is another one from one statement to the next.
        SqlState::INVALID_SQL_STATEMENT_NAME | SqlState::DUPLICATE_PSTATEMENT => {
            Fault::Told(pooler("prepared statements belong to somebody else"))
        }
        _ => Fault::Told(unknown(error, during)),
    }
}

/// A server without a certificate that we trust will not get one by asking again.
fn untrusted(error: &tokio_postgres::Error) -> Option<Error> {
    let cause = std::error::Error::source(error)?;
    let told = cause.to_string();
    let is_bad = match cause.downcast_ref::<std::io::Error>() {
        Some(cause) => cause.kind() == std::io::ErrorKind::InvalidData,
        None => told.contains("does not support TLS"),
    };
    (is_bad && error.to_string().contains("TLS")).then(|| Error::Denied {
        backend: BACKEND,
        what: format!(
            "the server is not trusted: {told}; give it a certificate for the name in the URL, name its authority with \
             ca=FILE, or ask for plain text with tls=off"
        ),
    })
}

/// Something stands between us and the server that hands sessions about (bug 74).
pub(super) fn pooler(sign: &str) -> Error {
    Error::Refused {
        backend: BACKEND,
        why: format!(
            "a connection pooler that hands sessions about stands before the server ({sign}): notifications and \
             session locks would go to somebody else; connect to the server itself, or to a pool in session mode"
        ),
    }
}

fn unknown(error: tokio_postgres::Error, during: &str) -> Error {
    // The client's own words are "db error" and the like; what the server said stands behind them.
    let told = error.as_db_error().map(|told| told.message().to_owned());
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    let detail = told.or(cause).unwrap_or_default();
    let during = if detail.is_empty() {
        during.to_owned()
    } else {
        format!("{during} ({detail})")
    };
    Error::Unreachable {
        backend: BACKEND,
        during,
        source: error.as_db_error().is_none().then(|| Arc::new(error) as _),
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
