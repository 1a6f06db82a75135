//! What a server's refusal means for the caller: the one table.

use std::sync::Arc;

use redis::{ErrorKind, RedisError};

use crate::error::Error;

/// The backend's name in errors.
pub(crate) const REDIS: &str = "redis";

/// Sorts an error by what the caller should do. The default is *unknown*.
///
/// | answer | outcome |
/// |---|---|
/// | NOAUTH, WRONGPASS, NOPERM, DENIED | [`Error::Denied`]: nothing changed |
/// | a refused command inside a script | [`Error::Unreachable`]: the commands before it may have run |
/// | OOM, MISCONF, NOREPLICAS | [`Error::Refused`]: nothing changed, somebody must mend the server |
/// | WRONGTYPE, CROSSSLOT, no RESP3 | [`Error::Invalid`]: nothing changed, the key is somebody else's |
/// | LOADING, BUSY, READONLY, MASTERDOWN, CLUSTERDOWN, MOVED, ASK, TRYAGAIN, max clients | [`Error::Unreachable`]: nothing changed, but the next moment may be better, so it is asked again |
/// | anything else, silence, a broken connection | [`Error::Unreachable`] |
pub(crate) fn meaning(error: RedisError, during: &str) -> Error {
    let what = || text(&error);
    match code(&error) {
        "NOAUTH" | "WRONGPASS" | "NOPERM" | "DENIED" => Error::Denied {
            backend: REDIS,
            what: format!("{} (while {during}); check user, password and ACL", what()),
        },
        "OOM" => refused(&what(), "raise maxmemory or free memory"),
        "MISCONF" => refused(&what(), "the server cannot save: see its log and disk"),
        "NOREPLICAS" => refused(&what(), "the server lacks the replicas that it demands"),
        "WRONGTYPE" => Error::invalid(format!(
            "redis: a key of the lock is in use for something else ({}); choose another prefix",
            what()
        )),
        "MODE" => Error::invalid(format!(
            "a claim of mode {} cannot be downgraded",
            error.detail().unwrap_or_default()
        )),
        "CROSSSLOT" => Error::invalid(format!("redis: {}; use redis+cluster://", what())),
        _ if error.kind() == ErrorKind::RESP3NotSupported => {
            Error::invalid("redis: the server is too old: version 7.0 or later is needed")
        }
        _ => Error::Unreachable {
            backend: REDIS,
            during: during.to_owned(),
            source: Some(Arc::new(error)),
        },
    }
}

/// Whether the server has no script of this hash: after a restart, a fail-over or SCRIPT FLUSH.
pub(crate) fn lacks_script(error: &RedisError) -> bool {
    code(error) == "NOSCRIPT"
}

/// Whether this node is not, or is no longer, the one to write to.
pub(crate) fn is_no_master(error: &RedisError) -> bool {
    matches!(code(error), "READONLY" | "MASTERDOWN")
}

/// Whether a key of the script is on another node of the cluster just now. The scripts look at all keys before
/// they write, so no claim was changed.
pub(crate) fn is_elsewhere(error: &RedisError) -> bool {
    error
        .detail()
        .is_some_and(|text| text.contains("non local key"))
}

/// The first word of the server's refusal; empty when it was not the server who refused.
pub(crate) fn code(error: &RedisError) -> &str {
    if error.kind() == ErrorKind::AuthenticationFailed {
        // The client hides the server's own words at the handshake.
        return "WRONGPASS";
    }
    // Inside a script the refusal of a command is no refusal of the whole: what went before it has run.
    if error
        .detail()
        .is_some_and(|text| text.contains("ACL failure in script"))
    {
        return "ERR";
    }
    error.code().unwrap_or_default()
}

fn text(error: &RedisError) -> String {
    match error.detail() {
        Some(detail) => format!("{} {detail}", code(error)),
        None => code(error).to_owned(),
    }
}

fn refused(what: &str, cure: &str) -> Error {
    Error::Refused {
        backend: REDIS,
        why: format!("{what}; {cure}"),
    }
}
