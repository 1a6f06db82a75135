//! Redis tells every command that it executes (`MONITOR`), and which ones a script called: its counters
//! (`INFO commandstats`) add up both.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lockkeeper_testbed::Redis;

use super::{Counts, Meter};
use crate::Result;

/// Time for the last commands to be told.
const SETTLE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Monitor {
    url: String,
    told: Arc<Told>,
}

#[derive(Debug, Default)]
struct Told {
    commands: AtomicU64,
    inner: AtomicU64,
}

impl Monitor {
    pub(super) fn of(redis: &Redis) -> Result<Self> {
        let mut stream = TcpStream::connect(redis.address())?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(stream).lines();
        match lines.next() {
            Some(Ok(line)) if line == "+OK" => {}
            other => return Err(format!("MONITOR was answered with {other:?}").into()),
        }
        let told = Arc::<Told>::default();
        let counted = told.clone();
        // It ends with the server.
        std::thread::spawn(move || {
            lines
                .map_while(std::result::Result::ok)
                .for_each(|line| counted.count(&line));
        });
        let url = redis.url();
        Ok(Self { url, told })
    }
}

impl Meter for Monitor {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn read(&self) -> Result<Counts> {
        std::thread::sleep(SETTLE);
        Ok(Counts {
            commands: self.told.commands.load(Ordering::Relaxed),
            inner: self.told.inner.load(Ordering::Relaxed),
            ..Counts::default()
        })
    }
}

impl Told {
    /// `+1700000000.000000 [0 127.0.0.1:50000] "SET" "a" "b"`, or `[0 lua]` for what a script called.
    fn count(&self, line: &str) {
        let caller = line.split_whitespace().nth(2);
        let counter = match caller {
            Some("lua]") => &self.inner,
            _ => &self.commands,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_calls_is_told_apart() {
        let redis = Redis::start().unwrap();
        let monitor = Monitor::of(&redis).unwrap();
        let script = "redis.call('SET', 'a b] lua]', '1') return redis.call('GET', 'x')";
        redis.ask(&["EVAL", script, "0"]).unwrap();
        redis.ask(&["SET", "lua]", "[0 lua]"]).unwrap();
        let counts = monitor.read().unwrap();
        assert_eq!((counts.commands, counts.inner), (2, 2));
    }
}
