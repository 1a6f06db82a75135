//! etcd counts for itself, by kind of call, and tells on its metrics page.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use lockkeeper_testbed::Etcd;

use super::{Counts, Meter};
use crate::Result;

/// Messages that clients sent, in calls and in streams.
const RECEIVED: &str = "grpc_server_msg_received_total{";
const KEEP_ALIVE: &str = "LeaseKeepAlive";
/// Events that went to watchers, one for each watcher of a key.
const EVENTS: &str = "etcd_debugging_mvcc_events_total ";

#[derive(Debug)]
pub(super) struct Metrics(SocketAddr);

impl Metrics {
    pub(super) fn of(etcd: &Etcd) -> Self {
        Self(etcd.address())
    }
}

impl Meter for Metrics {
    fn url(&self) -> String {
        format!("etcd://{}", self.0)
    }

    fn read(&self) -> Result<Counts> {
        let mut stream = TcpStream::connect(self.0)?;
        write!(stream, "GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", self.0)?;
        let mut page = String::new();
        stream.read_to_string(&mut page)?;
        counts(&page)
    }
}

fn counts(page: &str) -> Result<Counts> {
    let mut counts = Counts::default();
    for line in page.lines() {
        let Some((what, number)) = line.rsplit_once(' ') else {
            continue;
        };
        let counter = match line {
            _ if line.starts_with(EVENTS) => &mut counts.notices,
            _ if !line.starts_with(RECEIVED) => continue,
            _ if what.contains(KEEP_ALIVE) => &mut counts.keep_alives,
            _ => &mut counts.commands,
        };
        // Written as a float: large numbers come with an exponent.
        *counter += number.parse::<f64>()? as u64;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_server_counts() {
        let etcd = Etcd::start().unwrap();
        let metrics = Metrics::of(&etcd);
        let before = metrics.read().unwrap();
        etcd.ctl(&["put", "a", "1"]).unwrap();
        let lease = etcd.ctl(&["lease", "grant", "60"]).unwrap();
        let lease = lease.split_whitespace().nth(1).unwrap();
        etcd.ctl(&["lease", "keep-alive", "--once", lease]).unwrap();
        let counts = metrics.read().unwrap() - before;
        assert_eq!((counts.commands, counts.keep_alives), (2, 1));
    }
}
