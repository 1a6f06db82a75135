//! One connection through the proxy: two sockets and the bytes on their way between them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;

/// A sender is not read from while this much waits to be passed on.
const MOST_IN_FLIGHT: usize = 1 << 20;

/// The two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Request,
    Reply,
}

/// A client's connection and the one that was made to the server for it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) client: TcpStream,
    pub(super) peer: SocketAddr,
    /// None for a client that came while everything was swallowed.
    pub(super) server: Option<TcpStream>,
    pub(super) requests: Flow,
    pub(super) replies: Flow,
    /// A request has passed and no byte has come back yet.
    pub(super) awaits_reply: bool,
    /// Nothing from the server passes any more.
    pub(super) deaf: bool,
    /// Bytes were swallowed, so the streams are of no use after healing.
    pub(super) broken: bool,
}

/// One direction: what was read and not yet written.
#[derive(Debug, Default)]
pub(super) struct Flow {
    queue: VecDeque<(Instant, Vec<u8>)>,
    in_flight: usize,
    pub(super) ended: bool,
    end_passed: bool,
}

impl Flow {
    pub(super) fn wants_more(&self) -> bool {
        !self.ended && self.in_flight < MOST_IN_FLIGHT
    }

    /// When the next bytes may be written.
    pub(super) fn due(&self) -> Option<Instant> {
        self.queue.front().map(|(due, _)| *due)
    }

    pub(super) fn push(&mut self, due: Instant, bytes: &[u8]) {
        self.in_flight += bytes.len();
        self.queue.push_back((due, bytes.to_vec()));
    }

    /// Holds nothing back any longer.
    pub(super) fn hasten(&mut self, now: Instant) {
        self.queue.iter_mut().for_each(|(due, _)| *due = now);
    }

    /// Forgets what is on its way; says whether there was any.
    pub(super) fn discard(&mut self) -> bool {
        self.in_flight = 0;
        let any = !self.queue.is_empty();
        self.queue.clear();
        any
    }
}

impl Link {
    pub(super) fn new(client: TcpStream, server: Option<TcpStream>) -> io::Result<Link> {
        for socket in [Some(&client), server.as_ref()].into_iter().flatten() {
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            // Whatever ends a link early is to be seen as a reset, not as a polite end.
            set_socket_linger(socket, Some(Duration::ZERO))?;
        }
        Ok(Link {
            peer: client.peer_addr()?,
            broken: server.is_none(),
            client,
            server,
            requests: Flow::default(),
            replies: Flow::default(),
            awaits_reply: false,
            deaf: false,
        })
    }

    /// How many bytes were read and not yet written, both ways.
    pub(super) fn on_the_way(&self) -> usize {
        self.requests.in_flight + self.replies.in_flight
    }

    /// Where bytes of this direction come from.
    pub(super) fn source(&self, way: Way) -> Option<&TcpStream> {
        match way {
            Way::Request => Some(&self.client),
            Way::Reply => self.server.as_ref(),
        }
    }

    /// Where bytes of this direction go to.
    pub(super) fn target(&self, way: Way) -> Option<&TcpStream> {
        match way {
            Way::Request => self.server.as_ref(),
            Way::Reply => Some(&self.client),
        }
    }

    pub(super) fn flow(&mut self, way: Way) -> &mut Flow {
        match way {
            Way::Request => &mut self.requests,
            Way::Reply => &mut self.replies,
        }
    }

    pub(super) fn flow_ref(&self, way: Way) -> &Flow {
        match way {
            Way::Request => &self.requests,
            Way::Reply => &self.replies,
        }
    }

    /// Reads once; `None` when there is nothing now. An end is remembered in the flow.
    pub(super) fn read(&mut self, way: Way, chunk: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(mut source) = self.source(way) else {
            return Ok(None);
        };
        match source.read(chunk) {
            Ok(0) => {
                self.flow(way).ended = true;
                Ok(None)
            }
            Ok(length) => Ok(Some(length)),
            Err(error) if is_momentary(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes what is due, and the end of the stream when all before it is written.
    pub(super) fn write_due(&mut self, way: Way, now: Instant) -> io::Result<()> {
        while self.flow_ref(way).due().is_some_and(|due| due <= now) {
            if !self.write_front(way)? {
                return Ok(());
            }
        }
        if way == Way::Reply && self.deaf {
            // The end of the stream is lost like the rest of it.
            return Ok(());
        }
        let flow = self.flow(way);
        if flow.ended && flow.queue.is_empty() && !flow.end_passed {
            flow.end_passed = true;
            if let Some(target) = self.target(way) {
                // Already gone is as good.
                let _ = target.shutdown(Shutdown::Write);
            }
        }
        Ok(())
    }

    /// Says whether the front of the queue was written whole.
    fn write_front(&mut self, way: Way) -> io::Result<bool> {
        let Some((due, bytes)) = self.flow(way).queue.pop_front() else {
            return Ok(false);
        };
        let written = match self.target(way).map(|mut target| target.write(&bytes)) {
            None => bytes.len(),
            Some(Ok(written)) => written,
            Some(Err(error)) if is_momentary(&error) => 0,
            Some(Err(error)) => return Err(error),
        };
        let flow = self.flow(way);
        flow.in_flight -= written;
        if written == bytes.len() {
            return Ok(true);
        }
        flow.queue.push_front((due, bytes[written..].to_vec()));
        Ok(false)
    }

    /// Whether both sides have said good-bye and everything was passed on.
    pub(super) fn is_over(&self) -> bool {
        let server_done = if self.deaf {
            self.replies.ended
        } else {
            self.replies.end_passed
        };
        self.requests.end_passed && server_done
    }

    /// Lets a finished link end politely.
    pub(super) fn part(self) {
        for socket in [Some(&self.client), self.server.as_ref()]
            .into_iter()
            .flatten()
        {
            let _ = set_socket_linger(socket, None);
        }
    }
}

fn is_momentary(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
