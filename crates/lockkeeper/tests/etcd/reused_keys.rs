//! Keys that are deleted and created again: the end of a key that now stands behind a waiter is not its grant.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Entry, Released, Standing, Wake, Wakes};
use lockkeeper::backends::etcd::{Config, connect};
use lockkeeper::claim::Claim;
use lockkeeper_testbed::Etcd;
use tokio::time::timeout;

use crate::stage::{SOON, assert_nothing_left, claim, url};

/// `/locks/a/foreign` in base64.
const FOREIGN_KEY: &str = "L2xvY2tzL2EvZm9yZWlnbg==";
/// How long the waiters keep coming and giving up. The defect shows within a fraction of this.
const DURATION: Duration = Duration::from_secs(6);
/// How long each of them waits.
const WAIT: Duration = Duration::from_millis(15);
/// Waiters at a time, each with a connection of its own.
const WAITERS: usize = 3;

/// A client that puts and deletes one key below the name without a pause, as Go's `Mutex.TryLock` does when it
/// fails, over etcd's JSON gateway.
struct Foreign {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Foreign {
    fn start(server: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut stream = BufReader::new(TcpStream::connect(server).expect("it listens"));
            stream.get_ref().set_nodelay(true).expect("set");
            let mut cycles = 0;
            while !stopped.load(Ordering::Relaxed) {
                post(&mut stream, "put");
                post(&mut stream, "deleterange");
                cycles += 1;
            }
            cycles
        });
        Self { stop, thread }
    }

    /// Stops it; how often it has put and deleted its key.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it ran")
    }
}

/// One request about the foreign key, and its response.
fn post(stream: &mut BufReader<TcpStream>, method: &str) {
    let body = format!("{{\"key\":\"{FOREIGN_KEY}\"}}");
    let request = format!(
        "POST /v3/kv/{method} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let sent = stream.get_mut().write_all(request.as_bytes());
    sent.expect("sent");
    let (mut line, mut length) = (String::new(), 0);
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).expect("a response");
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("the whole response");
}

async fn backend(server: &Etcd) -> Arc<dyn Backend> {
    let config = Config::from_url(&url(&[server.address()])).unwrap();
    connect(&config, Clock::system()).await.unwrap()
}

fn long() -> Claim {
    Claim {
        lease: Duration::from_secs(60),
        ..claim("a")
    }
}

/// Waits until the claim is told that it holds; not for ever.
async fn granted(wakes: &mut Wakes, claim: &Claim) {
    loop {
        match wakes.next().await {
            Some(Wake::Holds { claim: id, .. }) if id == claim.id => return,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }
}

/// Enqueues, waits for a moment and gives up, until the time is over; how often.
async fn wait_again_and_again(backend: Arc<dyn Backend>, end: Instant) -> u64 {
    let mut attempts = 0;
    while Instant::now() < end {
        let (claim, mut wakes) = (long(), backend.wakes());
        let standing = backend.enter(&claim, Entry::Queue).await.unwrap();
        assert!(
            matches!(standing, Standing::Waits { .. }),
            "two holders: {standing:?}"
        );
        let grant = timeout(WAIT, granted(&mut wakes, &claim)).await;
        assert!(grant.is_err(), "two holders, at attempt {attempts}");
        assert_eq!(backend.release(&claim).await.unwrap(), Released::Freed);
        attempts += 1;
    }
    attempts
}

/// A waiter stands behind a foreign key, which is deleted and created again, now behind the waiter, and deleted again.
/// The notification of that arrives while the watch of the foreign key is being replaced.
// proves: L1, U4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_key_that_was_created_again_behind_a_waiter_is_no_grant() {
    let server = Etcd::start().unwrap();
    let holder = backend(&server).await;
    let held = long();
    let standing = holder.enter(&held, Entry::Queue).await.unwrap();
    assert!(matches!(standing, Standing::Holds { .. }), "{standing:?}");
    let foreign = Foreign::start(server.address());
    let end = Instant::now() + DURATION;
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        let backend = backend(&server).await;
        waiters.push(tokio::spawn(wait_again_and_again(backend, end)));
    }
    let mut attempts = 0;
    for waiter in waiters {
        let waited = timeout(DURATION + SOON, waiter).await.expect("it ends");
        attempts += waited.expect("nobody else holds");
    }
    let cycles = foreign.stop();
    assert!(attempts > 30 && cycles > 100, "{attempts}, {cycles}");
    // The holder held all the while.
    assert_eq!(holder.release(&held).await.unwrap(), Released::Freed);
    drop(holder);
    assert_nothing_left(&server).await;
}
