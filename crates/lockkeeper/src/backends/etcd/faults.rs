//! What etcd's errors mean. Whatever is not known to be definite counts as unknown.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use super::BACKEND;
use super::grpc::{Code, Failure};
use crate::error::Error;

const FULL: &str = "its database is full (alarm NOSPACE), so nothing was entered; compact and defragment it, then disarm the alarm";

/// Why a question was not answered with a result.
#[derive(Debug)]
pub(super) enum Fault {
    /// The lease does not exist (any more); nothing was changed.
    LeaseGone,
    /// A lease with this id exists already.
    LeaseExists,
    /// The server's database is full. A question that just filled it was carried out.
    Full,
    /// The token of this connection is no longer good.
    TokenExpired,
    /// The server wants a user, and the question came without a token.
    NoUser,
    /// TLS was not agreed on with this member: nothing was asked of it.
    Untrusted(String),
    /// For the caller.
    Told(Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Told(error) => error,
            // Whoever gives a lease an id of its own, or asks again with a new one, never sees these.
            Fault::LeaseGone => unreachable("a lease ended meanwhile"),
            Fault::Full => Error::Refused {
                backend: BACKEND,
                why: FULL.into(),
            },
            Fault::LeaseExists => unreachable("a lease with this id exists already"),
            Fault::TokenExpired => unreachable("the login ended meanwhile"),
            Fault::Untrusted(said) => untrusted(&said),
            Fault::NoUser => denied(
                "the server wants a user: write etcd://user:password@host or password-file=FILE"
                    .into(),
            ),
        }
    }
}

/// What the server said, with all its causes, as one line.
#[derive(Debug)]
struct Said(String);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Said {}

pub(super) fn unreachable(during: impl Into<String>) -> Error {
    Error::Unreachable {
        backend: BACKEND,
        during: during.into(),
        source: None,
    }
}

fn refused(why: &str) -> Fault {
    Fault::Told(Error::Refused {
        backend: BACKEND,
        why: why.into(),
    })
}

fn denied(what: String) -> Error {
    Error::Denied {
        backend: BACKEND,
        what,
    }
}

/// What a failed call means.
pub(super) fn classify(failure: &Failure, during: &str) -> Fault {
    let says = |words: &str| failure.said.contains(words);
    match failure.code {
        Code::NotFound if says("lease not found") => Fault::LeaseGone,
        Code::FailedPrecondition if says("lease already exists") => Fault::LeaseExists,
        Code::Unauthenticated => Fault::TokenExpired,
        Code::InvalidArgument if says("auth store is old") => Fault::TokenExpired,
        Code::InvalidArgument if says("user name is empty") => Fault::NoUser,
        Code::InvalidArgument if says("authentication failed") => {
            let what = "it knows no such user, or the password is wrong";
            Fault::Told(denied(what.into()))
        }
        Code::PermissionDenied => Fault::Told(denied(format!(
            "{during}: the user needs a role with read and write rights on the whole prefix"
        ))),
        Code::ResourceExhausted if says("space exceeded") => Fault::Full,
        Code::InvalidArgument if says("too large") || says("too many operations") => {
            refused("the request is larger than the server allows")
        }
        Code::InvalidArgument if says("too large lease TTL") => {
            refused("it does not keep leases that long; ask for a shorter one")
        }
        Code::Unimplemented => refused("the server is too old: version 3.4 or later is needed"),
        _ if is_about_certificates(&failure.said) => Fault::Untrusted(failure.said.clone()),
        _ => Fault::Told(unknown(failure, during)),
    }
}

/// Whether this failure is the member's own, so that another one may do better.
pub(super) fn is_the_members(fault: &Fault) -> bool {
    matches!(fault, Fault::Untrusted(_)) || is_unknown(fault)
}

/// Whether the question may be carried out in spite of it.
pub(super) fn is_unknown(fault: &Fault) -> bool {
    matches!(fault, Fault::Told(error) if error.is_unknown())
}

/// What a failure means after an earlier try that was not answered: whatever is refused now, that one may have
/// been carried out, or may yet be. Only what is said about a lease or about the database holds for both.
pub(super) fn after_no_answer(fault: Fault, during: &str) -> Fault {
    match fault {
        Fault::LeaseGone | Fault::LeaseExists | Fault::Full => fault,
        fault if is_unknown(&fault) => fault,
        fault => Fault::Told(Error::Unreachable {
            backend: BACKEND,
            during: format!("{during} (not answered at first, and then refused)"),
            source: Some(Arc::new(Said(Error::from(fault).to_string()))),
        }),
    }
}

fn unknown(failure: &Failure, during: &str) -> Error {
    Error::Unreachable {
        backend: BACKEND,
        during: during.into(),
        source: Some(Arc::new(Said(failure.said.clone()))),
    }
}

/// What a failed connection means.
pub(super) fn not_connected(failure: &Failure) -> Error {
    if is_about_certificates(&failure.said) {
        return untrusted(&failure.said);
    }
    unknown(failure, "connecting")
}

/// Whether one side did not trust the other: we say so in words, a server by the name of an alert, such as
/// `BadCertificate`.
fn is_about_certificates(said: &str) -> bool {
    said.to_lowercase().contains("certificate") || said.contains("alert: UnknownCA")
}

/// Nothing was answered on a new connection with TLS. A server that wants to know its clients hangs up on strangers,
/// and often before it has said why.
pub(super) fn hung_up(error: Error) -> Error {
    match error {
        Error::Unreachable {
            backend,
            during,
            source,
        } => Error::Unreachable {
            backend,
            during: format!(
                "{during} (if the server wants to know us: cert=FILE and key=FILE in the URL say who we are)"
            ),
            source,
        },
        error => error,
    }
}

fn untrusted(said: &str) -> Error {
    denied(format!(
        "TLS was not agreed on ({said}); ca=FILE in the URL names whom to trust, cert=FILE and key=FILE who we are"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: Code, message: &str) -> Fault {
        let said = message.into();
        classify(&Failure { code, said }, "entering")
    }

    // FAULTS 19
    #[test]
    fn only_what_is_surely_definite_is_definite() {
        for (code, message) in [
            (Code::Other, "etcdserver: no leader"),
            (Code::Other, "etcdserver: leader changed"),
            (Code::Other, "etcdserver: request timed out"),
            (Code::Other, "transport error"),
            (Code::Other, ""),
            (Code::Other, "h2 protocol error"),
            (Code::Other, ""),
            (Code::ResourceExhausted, "etcdserver: too many requests"),
            (Code::Other, "something new"),
        ] {
            let fault = told(code, message);
            assert!(is_the_members(&fault), "{code:?} {message}: {fault:?}");
        }
    }

    // proves: L5
    #[test]
    fn what_is_refused_after_no_answer_is_unknown() {
        for (code, message) in [
            (Code::PermissionDenied, "etcdserver: permission denied"),
            (Code::InvalidArgument, "etcdserver: user name is empty"),
            (Code::Unimplemented, "unknown method"),
            (Code::Other, "invalid peer certificate: Expired"),
            (Code::Other, "etcdserver: no leader"),
        ] {
            let error = Error::from(after_no_answer(told(code, message), "entering"));
            assert!(error.is_unknown(), "{message}: {error}");
        }
        // The lease's id is never used again: nothing can be bound to it any more.
        let gone = told(Code::NotFound, "etcdserver: requested lease not found");
        assert!(matches!(after_no_answer(gone, ""), Fault::LeaseGone));
    }

    #[test]
    fn definite_answers_say_what_to_do() {
        let cases = [
            (
                Code::PermissionDenied,
                "etcdserver: permission denied",
                "role",
            ),
            (
                Code::InvalidArgument,
                "etcdserver: user name is empty",
                "user:password",
            ),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                "password is wrong",
            ),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                "compact",
            ),
            (Code::Unimplemented, "unknown method", "3.4"),
            (
                Code::Other,
                "invalid peer certificate: UnknownIssuer",
                "ca=FILE",
            ),
            (
                Code::Other,
                "received fatal alert: CertificateRequired",
                "cert=FILE",
            ),
            (Code::Other, "received fatal alert: UnknownCA", "cert=FILE"),
        ];
        for (code, message, cure) in cases {
            let error = Error::from(told(code, message));
            assert!(!error.is_unknown(), "{error}");
            assert!(error.to_string().contains(cure), "{error}");
        }
        let gone = told(Code::NotFound, "etcdserver: requested lease not found");
        assert!(matches!(gone, Fault::LeaseGone));
    }
}
