//! What the system says, sorted by what the caller should do about it, with the cure.

use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;
use rustix::io::Errno;

use super::BACKEND;
use crate::error::Error;

/// The call is not let in.
pub(super) fn denied(what: impl Into<String>) -> Error {
    Error::Denied {
        backend: BACKEND,
        what: what.into(),
    }
}

/// The directory cannot answer; nothing is known to be granted.
pub(super) fn unreachable(during: impl Into<String>) -> Error {
    Error::Unreachable {
        backend: BACKEND,
        during: during.into(),
        source: None,
    }
}

/// A row or a file has something in it that this program never wrote.
pub(super) fn damaged(directory: &Path, what: &str) -> Error {
    let directory = directory.display();
    unreachable(format!(
        "reading {what} in {directory}, which is damaged (nothing was granted: stop all users of the directory and delete claims-*.db* in it; tokens stay safe in `ceiling`)"
    ))
}

/// What the kernel said about something in the directory.
pub(super) fn from_system(directory: &Path, during: &str, errno: Errno) -> Error {
    let place = directory.display();
    match errno {
        Errno::ACCESS | Errno::PERM => denied(format!(
            "{during} in {place}: {errno}; use a directory of your own, or ask its owner to let your group in"
        )),
        Errno::ROFS => denied(format!(
            "{during} in {place}: {errno}; choose a directory that can be written to: local:/path"
        )),
        Errno::LOOP => denied(format!(
            "{during} in {place}: a symbolic link stands there, and none is followed; remove it"
        )),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => with_source(
            format!("{during} in {place}, where no space is left (nothing was granted: make room)"),
            std::io::Error::from(errno),
        ),
        _ => with_source(format!("{during} in {place}"), std::io::Error::from(errno)),
    }
}

/// What SQLite said.
pub(super) fn from_sqlite(directory: &Path, during: &str, error: rusqlite::Error) -> Error {
    let place = directory.display();
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            return denied(format!(
                "{during} in {place}: {error}; see that you may write to the directory and to all files in it"
            ));
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            "the claims are damaged and nothing was granted: stop all users of the directory and delete claims-*.db* in it; tokens stay safe in `ceiling`"
        }
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure) => {
            "the disk is full or failing: make room or choose another directory; what is held stays held"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program has the claims open: leave them to lockkeeper"
        }
        // A type that does not fit, a number out of range: nothing that this program wrote.
        None => {
            "the claims are damaged and nothing was granted: stop all users of the directory and delete claims-*.db* in it; tokens stay safe in `ceiling`"
        }
        Some(_) => "nothing is known to be granted",
    };
    with_source(format!("{during} in {place} ({advice})"), error)
}

fn with_source(during: String, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unreachable {
        backend: BACKEND,
        during,
        source: Some(Arc::new(source)),
    }
}
