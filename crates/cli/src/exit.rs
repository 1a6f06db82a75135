//! Every exit status of the program, and which error leads to which. The numbers are those of
//! sysexits.h where it has one, so that scripts and service managers know them.

use std::io;

use lockkeeper::Error;

use crate::visible::visible;

/// All went well.
pub(crate) const OK: u8 = 0;
/// The answer is no: stale, or there was nothing to break.
pub(crate) const NO: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The engine cannot be reached.
pub(crate) const UNREACHABLE: u8 = 69;
/// Something inside went wrong that should not.
pub(crate) const INTERNAL: u8 = 70;
/// The system refused a basic service: no process, no descriptor.
pub(crate) const SYSTEM: u8 = 71;
/// Standard output could not be written.
pub(crate) const OUTPUT: u8 = 74;
/// The lock was not obtained.
pub(crate) const BUSY: u8 = 75;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// Denied or refused.
pub(crate) const DENIED: u8 = 77;
/// A URL, a setting or a name is wrong.
pub(crate) const CONFIGURATION: u8 = 78;
/// The command cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to a signal's number when a signal ended the command.
pub(crate) const SIGNAL: u8 = 128;

/// How a task failed: an exit status, and a sentence for people unless nobody is there to read it.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: Option<String>,
}

impl Failure {
    pub(crate) fn new(code: u8, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: Some(sentence.into()),
        }
    }

    /// Ends with this status without a word.
    pub(crate) fn silent(code: u8) -> Self {
        Self {
            code,
            sentence: None,
        }
    }

    /// Says on standard error what is wrong and gives the exit status.
    pub(crate) fn report(self) -> u8 {
        if let Some(sentence) = self.sentence {
            say(&sentence);
        }
        self.code
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sentence.as_deref().unwrap_or_default())
    }
}

/// One sentence of the program's own on standard error: standard output belongs to the command.
/// What an engine or another process contributed to it cannot act on the terminal.
pub(crate) fn say(sentence: &str) {
    use io::Write;
    // Nobody can be told that standard error is closed.
    let _closed = writeln!(io::stderr(), "lockkeeper: {}", visible(sentence));
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error {
            Error::Timeout { .. } => BUSY,
            Error::Lost { .. } => LOST,
            Error::Unreachable { .. } => UNREACHABLE,
            Error::Refused { .. } | Error::Denied { .. } => DENIED,
            Error::Invalid { .. } => CONFIGURATION,
            _ => INTERNAL,
        };
        Self::new(code, error.to_string())
    }
}

/// Of standard output; the only stream that tasks write to with `?`.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // `lockkeeper ls | head` has got what it wanted.
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::silent(OK);
        }
        Self::new(OUTPUT, format!("cannot write to standard output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper::{LostReason, Name};

    use super::*;

    // proves: U2
    #[test]
    fn each_error_has_its_status() {
        let name = || Name::new("n").unwrap();
        let backend = "local";
        let timeout = Error::Timeout {
            name: name(),
            backend,
            waited: std::time::Duration::ZERO,
            holder: None,
        };
        let lost = Error::Lost {
            name: name(),
            backend,
            reason: LostReason::Gone,
        };
        let unreachable = Error::Unreachable {
            backend,
            during: "entering".into(),
            source: None,
        };
        let text = || "x".to_owned();
        let refused = Error::Refused {
            backend,
            why: text(),
        };
        let denied = Error::Denied {
            backend,
            what: text(),
        };
        for (error, code) in [
            (timeout, 75),
            (lost, 76),
            (unreachable, 69),
            (refused, 77),
            (denied, 77),
            (Error::Invalid { what: text() }, 78),
        ] {
            assert_eq!(Failure::from(error.clone()).code, code, "{error}");
        }
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        let closed = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((closed.code, closed.sentence), (OK, None));
        let full = Failure::from(io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(full.code, OUTPUT);
    }
}
