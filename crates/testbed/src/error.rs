//! What can go wrong while servers are started and faults are caused. Each message says which
//! server, and shows the end of its log where there is one.

use std::fmt;
use std::io;
use std::time::Duration;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a server or a fault could not be had.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program is not installed.
    #[error("{program} is missing: install the Debian package {package}")]
    Missing {
        /// The program that was looked for.
        program: String,
        /// The Debian package that has it.
        package: String,
    },
    /// Somebody else took the port between choosing and listening; starting again helps.
    #[error("{server}: its port was taken by another program\n{log}")]
    PortTaken {
        /// Name of the server.
        server: String,
        /// The end of its log.
        log: String,
    },
    /// The server ended by itself.
    #[error("{server} ended with {status} before it answered; its log ends with\n{log}")]
    Died {
        /// Name of the server.
        server: String,
        /// Its exit status.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// The server runs but does not answer.
    #[error("{server} did not answer within {within:?}; its log ends with\n{log}")]
    NotReady {
        /// Name of the server.
        server: String,
        /// How long it was waited for.
        within: Duration,
        /// The end of its log.
        log: String,
    },
    /// A command ran and failed, or the server refused it.
    #[error("{what} failed: {output}")]
    Command {
        /// The command.
        what: String,
        /// What it, or the server, said.
        output: String,
    },
    /// The server was started without [`Setup::movable_clock`](crate::Setup::movable_clock).
    #[error("{server} has the machine's clock: start it with Setup::movable_clock")]
    NoClock {
        /// Name of the server.
        server: String,
    },
    /// The server was asked something that only a running one can do.
    #[error("{server} is not running")]
    NotRunning {
        /// Name of the server.
        server: String,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The same text as `Display`: `unwrap` in a test then shows the log as lines, not as one string
/// with escapes.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Says what was being done when an I/O call failed.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<io::Error>> Doing<T> for std::result::Result<T, E> {
    fn doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|source| Error::Io {
            what: what.to_string(),
            source: source.into(),
        })
    }
}
