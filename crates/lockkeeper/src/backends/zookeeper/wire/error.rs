//! What can go wrong with a request.

/// Why a request was not carried out, or is not known to have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum Error {
    #[error("no such node")]
    NoNode,
    #[error("the node exists")]
    NodeExists,
    #[error("the node has another version")]
    BadVersion,
    #[error("no right to do this")]
    NoAuth,
    #[error("the servers do not accept this user")]
    AuthFailed,
    #[error("the servers do not know this kind of access list")]
    InvalidAcl,
    #[error("an ephemeral node has no children")]
    NoChildrenForEphemerals,
    #[error("a quota is exceeded")]
    QuotaExceeded,
    #[error("the servers do not know this request")]
    Unimplemented,
    #[error("the connection was lost")]
    ConnectionLoss,
    #[error("the session is over")]
    SessionExpired,
    #[error("the session was closed")]
    Closed,
    #[error("no server answers")]
    NoHosts,
    #[error("the answer cannot be read")]
    Garbled,
    #[error("the server answers with code {0}")]
    Code(i32),
}

const NO_WATCHER: i32 = -121;
/// The session has to be opened by SASL.
const SASL_NEEDED: i32 = -124;

impl Error {
    /// What the code of an answer means.
    pub(super) fn of_code(code: i32) -> Result<(), Self> {
        Err(match code {
            0 | NO_WATCHER => return Ok(()),
            -6 => Self::Unimplemented,
            -101 => Self::NoNode,
            -102 => Self::NoAuth,
            -103 => Self::BadVersion,
            -108 => Self::NoChildrenForEphemerals,
            -110 => Self::NodeExists,
            -112 => Self::SessionExpired,
            -114 => Self::InvalidAcl,
            -115 | SASL_NEEDED => Self::AuthFailed,
            -125 => Self::QuotaExceeded,
            code => Self::Code(code),
        })
    }

    /// Whether it ends the session.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::SessionExpired | Self::AuthFailed | Self::Closed)
    }
}
