//! Loopback ports that no other test process takes: each is reserved by a locked file for as long
//! as its owner lives, so that a server can be restarted in place.

use std::fs::{File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::fs::{FlockOperation, flock};

use crate::error::{Doing, Error, Result};
use crate::home;

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up), so
/// that no client's socket sits on the port of a server that is about to be restarted.
const FIRST: u16 = 21_000;
const COUNT: u16 = 11_000;

/// How often a start is repeated when a program that knows nothing of our files took the port.
const ATTEMPTS: usize = 5;

/// A reserved port; free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// Holds the lock on the port's file.
    _reservation: File,
}

impl Port {
    /// Reserves some free port.
    pub(crate) fn reserve() -> Result<Port> {
        let directory = home::shared_directory("ports")?;
        for _ in 0..COUNT {
            let number = next_candidate();
            let path = directory.join(number.to_string());
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true);
            let file = options
                .open(&path)
                .doing(format!("opening {}", path.display()))?;
            let ours = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if ours && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Port {
                    number,
                    _reservation: file,
                });
            }
        }
        let none = std::io::Error::from(std::io::ErrorKind::AddrInUse);
        Err(none).doing("looking for a free port")
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    pub(crate) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

/// Processes begin at different places, so that they seldom try each other's ports.
fn next_candidate() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own_start = (std::process::id().wrapping_mul(2_654_435_761) >> 16) % u32::from(COUNT);
    let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
    let offset = (own_start + step) % u32::from(COUNT);
    FIRST + u16::try_from(offset).unwrap_or_default()
}

/// Starts, and starts again with other ports when one of them was taken meanwhile.
pub(crate) fn retrying<T>(start: impl Fn() -> Result<T>) -> Result<T> {
    let mut outcome = start();
    for _ in 1..ATTEMPTS {
        if !matches!(outcome, Err(Error::PortTaken { .. })) {
            break;
        }
        outcome = start();
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn ports_differ_while_they_are_held() {
        let held: Vec<Port> = (0..50).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = held.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 50);
    }

    #[test]
    fn a_taken_port_is_retried_and_other_errors_are_not() {
        let calls = Cell::new(0);
        let taken = || Error::PortTaken {
            server: "s".into(),
            log: String::new(),
        };
        let third_time = retrying(|| {
            calls.set(calls.get() + 1);
            if calls.get() < 3 {
                Err(taken())
            } else {
                Ok(calls.get())
            }
        });
        assert_eq!(third_time.unwrap(), 3);

        calls.set(0);
        let hopeless: Result<()> = retrying(|| {
            calls.set(calls.get() + 1);
            Err(Error::NotRunning { server: "s".into() })
        });
        assert!(hopeless.is_err());
        assert_eq!(calls.get(), 1);
    }
}
