//! Signals as a stream, with the one fact that decides whether to pass them on: who sent them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};

use rustix::process::Signal;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) signal: Signal,
    /// The kernel sent it to the whole foreground group, as for Ctrl-C: a command in our group has
    /// got it already.
    pub(crate) from_terminal: bool,
}

/// The stream. Handlers, not a signal mask: a mask would be inherited by the command.
pub(crate) struct Signals {
    delivery: SignalDelivery<UnixStream, WithOrigin>,
    arrived: VecDeque<Arrived>,
}

impl Signals {
    /// Listens to these, except where they are ignored: what `nohup` ignores stays ignored, for the
    /// command too. `CHLD` is listened to in any case: ignored, it would swallow the exit status.
    pub(crate) fn listen(wanted: &[Signal]) -> io::Result<Self> {
        let ignored = ignored();
        let numbers = wanted
            .iter()
            .filter(|signal| **signal == Signal::CHILD || ignored >> (signal.as_raw() - 1) & 1 == 0)
            .map(|signal| signal.as_raw());
        // Only the end that is read has to be known to the runtime.
        let (read, write) = std::os::unix::net::UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let read = UnixStream::from_std(read)?;
        Ok(Self {
            delivery: SignalDelivery::with_pipe(read, write, WithOrigin::default(), numbers)?,
            arrived: VecDeque::new(),
        })
    }

    /// The next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Arrived> {
        loop {
            if let Some(arrived) = self.arrived.pop_front() {
                return Ok(arrived);
            }
            let read = self.delivery.get_read();
            read.readable().await?;
            // Forget the readiness before emptying the pipe, so that a byte that comes in between is
            // seen again.
            let _forgotten = read.try_io(Interest::READABLE, || {
                Err::<(), _>(io::ErrorKind::WouldBlock.into())
            });
            let came = self.delivery.pending().filter_map(|origin| {
                Some(Arrived {
                    signal: Signal::from_named_raw(origin.signal)?,
                    from_terminal: matches!(origin.cause, Cause::Kernel),
                })
            });
            self.arrived.extend(came);
        }
    }
}

/// The set of signals ignored since our start, as the kernel writes it: bit n-1 for signal n. Where
/// there is no /proc, none.
fn ignored() -> u64 {
    // One read: `read_to_string` would feel its way to the end in eight.
    let mut status = [0; 4096];
    let length = File::open("/proc/self/status").and_then(|mut file| file.read(&mut status));
    let status = String::from_utf8_lossy(&status[..length.unwrap_or(0)]);
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}
