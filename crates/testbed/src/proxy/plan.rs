//! What a proxy is to do, as data.

use std::net::SocketAddr;
use std::time::Duration;

/// Which replies are lost. A reply is what the server sends after a request, as seen on the wire:
/// the proxy knows no protocol, so a keep-alive and its answer count too.
///
/// Once a reply of a connection was lost, nothing from the server passes on that connection any
/// more, as when its packets are dropped: later bytes without the earlier ones would be a lie that
/// no network tells. Requests still pass.
#[derive(Debug, Clone)]
pub struct ReplyLoss {
    pub(super) left: usize,
    pub(super) client: Option<SocketAddr>,
    pub(super) reset: bool,
}

impl ReplyLoss {
    /// The next `count` replies, each on whatever connection it comes.
    #[must_use]
    pub fn next(count: usize) -> ReplyLoss {
        ReplyLoss {
            left: count,
            client: None,
            reset: false,
        }
    }

    /// Everything that the server says, until healed.
    #[must_use]
    pub fn all() -> ReplyLoss {
        ReplyLoss::next(usize::MAX)
    }

    /// Only on the connection of this client, as in [`Proxy::clients`](super::Proxy::clients).
    #[must_use]
    pub fn of(mut self, client: SocketAddr) -> ReplyLoss {
        self.client = Some(client);
        self
    }

    /// The connection is reset in place of the reply, so that the client fails at once instead of
    /// waiting in silence.
    #[must_use]
    pub fn reset(mut self) -> ReplyLoss {
        self.reset = true;
        self
    }

    /// Whether the loss spares what the server says unasked.
    pub(super) fn counts(&self) -> bool {
        self.left != usize::MAX
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    Pass,
    Cut,
    BlackHole,
    End,
}

/// One state of the proxy; each change has a number, so that the asker knows when it is in force.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) generation: u64,
    pub(super) mode: Mode,
    pub(super) delay_requests: Duration,
    pub(super) delay_replies: Duration,
    pub(super) loss: Option<ReplyLoss>,
}

impl Plan {
    /// Whether everything passes, at once.
    pub(super) fn is_harmless(&self) -> bool {
        let no_delay = self.delay_requests.is_zero() && self.delay_replies.is_zero();
        self.mode == Mode::Pass && self.loss.is_none() && no_delay
    }
}
