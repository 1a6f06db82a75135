//! The one error type. Each kind answers the same question: what should the caller do now?

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Name;
use crate::claim::Party;

/// What went wrong, sorted by what the caller should do about it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else holds the name. Try later, wait longer, or ask the holder shown.
    #[error("{name:?} was not obtained within {:.1?} on {backend}: {}", .waited, holder_text(holder.as_ref()))]
    Timeout {
        /// The name asked for.
        name: Name,
        /// The backend asked.
        backend: &'static str,
        /// How long was waited.
        waited: Duration,
        /// Who held it at the end, if the engine could still say.
        holder: Option<Party>,
    },
    /// The hold is over although it was not released: **stop**, the critical section is unprotected.
    #[error("the lock {name:?} on {backend} is lost: {reason}; stop work that relies on it")]
    Lost {
        /// The name that was held.
        name: Name,
        /// The backend it was held on.
        backend: &'static str,
        /// Why.
        reason: LostReason,
    },
    /// The engine did not answer: the outcome is unknown. Asking again with the same claim is safe.
    #[error("{backend} did not answer while {during}; the outcome is unknown, try again{}", source_text(source.as_ref()))]
    Unreachable {
        /// The backend asked.
        backend: &'static str,
        /// What was under way.
        during: String,
        /// What the system or the client said.
        #[source]
        source: Option<Arc<dyn StdError + Send + Sync>>,
    },
    /// The backend cannot promise what was asked for. Choose another backend or ask for less.
    #[error("{backend} refuses: {why}")]
    Refused {
        /// The backend asked.
        backend: &'static str,
        /// What cannot be promised, and what to do instead.
        why: String,
    },
    /// A name, a URL or a setting is wrong. Correct it.
    #[error("{what}")]
    Invalid {
        /// What is wrong and what was expected.
        what: String,
    },
    /// The engine or the system does not let this caller in. Check credentials and permissions.
    #[error("{backend} denies access: {what}")]
    Denied {
        /// The backend asked.
        backend: &'static str,
        /// What was denied, and how to get it.
        what: String,
    },
    /// The keeper was closed. Make a new one.
    #[error("the keeper is closed")]
    Closed,
}

impl Error {
    /// Whether the outcome is unknown, so that the same question should be asked again.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    pub(crate) fn invalid(what: impl fmt::Display) -> Self {
        Self::Invalid {
            what: what.to_string(),
        }
    }
}

/// Why a hold ended without being released.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The lease ended by this process's own clock before a renewal succeeded.
    Expired,
    /// The engine no longer knows the claim: its lease ended there, or an operator broke it.
    Gone,
    /// The engine reports the claim under another sequence number than that of the grant, as after its
    /// data was restored or edited: the fencing token of this hold is worth nothing any more.
    Renumbered,
    /// The keeper was closed while the guard lived.
    Closed,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its lease ended before it could be renewed",
            Self::Gone => "the engine no longer knows the claim (it expired there or was broken)",
            Self::Renumbered => {
                "the engine reports another sequence number for it than the one that it was granted with"
            }
            Self::Closed => "its keeper was closed",
        })
    }
}

fn holder_text(holder: Option<&Party>) -> String {
    match holder {
        Some(party) => format!("{party} holds it"),
        None => "somebody else holds it".into(),
    }
}

fn source_text(source: Option<&Arc<dyn StdError + Send + Sync>>) -> String {
    source.map_or_else(String::new, |source| format!(": {source}"))
}

impl From<lockkeeper_fence::NameError> for Error {
    fn from(error: lockkeeper_fence::NameError) -> Self {
        Self::invalid(error)
    }
}

impl From<lockkeeper_fence::ModeError> for Error {
    fn from(error: lockkeeper_fence::ModeError) -> Self {
        Self::invalid(error)
    }
}

impl From<lockkeeper_fence::SequencerError> for Error {
    fn from(error: lockkeeper_fence::SequencerError) -> Self {
        Self::invalid(error)
    }
}
