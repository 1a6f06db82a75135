//! A TCP proxy that misbehaves on demand: delays, cuts, swallows, and loses replies. One thread
//! per proxy moves all bytes; a call returns when what it asks for is in force.

mod engine;
mod link;
mod plan;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::error::{Doing, Error, Result};
use crate::ports::{self, Port};
use engine::Engine;
use plan::{Mode, Plan};

pub use plan::ReplyLoss;

/// The thread acts within microseconds; only a dead one takes this long.
const IN_FORCE_WITHIN: Duration = Duration::from_secs(10);

/// Stands before one server, on a loopback port of its own. Dropping it cuts all connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
    _port: Port,
}

impl Proxy {
    /// A proxy before `server` that lets everything through until told otherwise.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn to(server: SocketAddr) -> Result<Proxy> {
        ports::retrying(|| {
            let port = Port::reserve()?;
            let control = Arc::new(Control::new().doing("making a proxy")?);
            let engine = Engine::new(port.address(), server, Arc::clone(&control));
            let engine = engine.map_err(not_listening)?;
            let thread = thread::Builder::new().name("testbed-proxy".to_owned());
            let thread = thread
                .spawn(move || engine.run())
                .doing("starting a proxy")?;
            Ok(Proxy {
                address: port.address(),
                control,
                thread: Some(thread),
                _port: port,
            })
        })
    }

    /// Where clients connect instead of to the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Holds back every byte by this much, each way: a round trip takes twice as long more.
    ///
    /// # Errors
    /// When the proxy's thread is gone.
    pub fn delay(&self, each_way: Duration) -> Result<()> {
        self.change(|plan| {
            plan.delay_requests = each_way;
            plan.delay_replies = each_way;
        })
    }

    /// Holds back what clients send.
    ///
    /// # Errors
    /// When the proxy's thread is gone.
    pub fn delay_requests(&self, by: Duration) -> Result<()> {
        self.change(|plan| plan.delay_requests = by)
    }

    /// Holds back what the server answers.
    ///
    /// # Errors
    /// When the proxy's thread is gone.
    pub fn delay_replies(&self, by: Duration) -> Result<()> {
        self.change(|plan| plan.delay_replies = by)
    }

    /// Resets all connections, on both sides, and refuses new ones.
    ///
    /// # Errors
    /// When the proxy's thread is gone.
    pub fn cut(&self) -> Result<()> {
        self.change(|plan| plan.mode = Mode::Cut)
    }

    /// Swallows everything from now on, in both directions, also what was on its way. Connections
    /// stay open and new ones are accepted; the server does not learn that a client has gone.
    ///
    /// # Errors
    /// When the proxy's thread is gone.
    pub fn black_hole(&self) -> Result<()> {
        self.change(|plan| plan.mode = Mode::BlackHole)
    }

    /// Lets requests pass and loses the server's replies to them.
    ///
    /// # Errors
    /// When the proxy's thread is gone.
    pub fn lose(&self, replies: ReplyLoss) -> Result<()> {
        self.change(|plan| plan.loss = Some(replies.clone()))
    }

    /// Ends every fault. Connections that lost bytes are reset, because the rest of such a stream
    /// would be nonsense; the others go on.
    ///
    /// # Errors
    /// When the proxy's thread is gone, or its port was taken during a cut.
    pub fn heal(&self) -> Result<()> {
        self.change(|plan| {
            *plan = Plan {
                generation: plan.generation,
                ..Plan::default()
            }
        })
    }

    /// How many replies were lost by [`Proxy::lose`] so far.
    #[must_use]
    pub fn lost_replies(&self) -> usize {
        self.control.locked(|state| state.lost_replies)
    }

    /// The clients connected now, in the order in which they came.
    #[must_use]
    pub fn clients(&self) -> Vec<SocketAddr> {
        self.control.locked(|state| state.clients.clone())
    }

    /// How many bytes are held back now, both ways.
    #[must_use]
    pub fn on_the_way(&self) -> usize {
        self.control.locked(|state| state.on_the_way)
    }

    fn change(&self, how: impl Fn(&mut Plan)) -> Result<()> {
        self.control.change(how).doing("changing what a proxy does")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.control.change(|plan| plan.mode = Mode::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A port that was taken meanwhile is a reason to try another.
fn not_listening(error: io::Error) -> Error {
    let server = "a proxy".to_owned();
    match error.kind() {
        io::ErrorKind::AddrInUse => Error::PortTaken {
            server,
            log: String::new(),
        },
        _ => Error::Io {
            what: "starting a proxy".to_owned(),
            source: error,
        },
    }
}

/// What the handle and the thread share.
#[derive(Debug)]
struct Control {
    state: Mutex<State>,
    changed: Condvar,
    /// Readable when there is a new plan.
    bell: OwnedFd,
}

#[derive(Debug, Default)]
struct State {
    plan: Plan,
    in_force: u64,
    failure: Option<io::ErrorKind>,
    lost_replies: usize,
    clients: Vec<SocketAddr>,
    on_the_way: usize,
}

impl Control {
    fn new() -> io::Result<Control> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Control {
            state: Mutex::default(),
            changed: Condvar::new(),
            bell,
        })
    }

    fn locked<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the thread a new plan and waits until it has acted on it.
    fn change(&self, how: impl Fn(&mut Plan)) -> io::Result<()> {
        let wanted = self.locked(|state| {
            state.failure = None;
            how(&mut state.plan);
            state.plan.generation += 1;
            state.plan.generation
        });
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes())?;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let behind = |state: &mut State| state.in_force < wanted;
        let waited = self
            .changed
            .wait_timeout_while(state, IN_FORCE_WITHIN, behind);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.failure {
            Some(kind) => Err(kind.into()),
            None if timeout.timed_out() => Err(io::ErrorKind::TimedOut.into()),
            None => Ok(()),
        }
    }
}
