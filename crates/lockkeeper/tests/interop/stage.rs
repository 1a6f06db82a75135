//! A Redis server, a foreign client on it, and keepers in the dialect that the client speaks.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::backend::Backend;
use lockkeeper::backends::redis::dialects;
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Clock, Error, Guard, Keeper, Mode, Moment};
use lockkeeper_testbed::foreign::{self, Acquired, Client, Released};
use lockkeeper_testbed::{Redis, Result};
use tokio::task::block_in_place;

/// The lock that everybody wants.
pub(crate) const LOCK: &str = "orders/42";
/// Longer than any story: who waits for such a lease to end waits in vain.
pub(crate) const LONG: Duration = Duration::from_secs(120);
/// Slower than this is broken even on a loaded machine, and much sooner than a long lease ends or is
/// renewed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);

/// Says to a copy of this program which lock to take.
const ROLE: &str = "LOCKKEEPER_INTEROP_HOLDS";

/// A foreign client and the dialect it speaks.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) dialect: &'static str,
    pub(crate) start: fn(SocketAddr) -> Result<Client>,
}

pub(crate) const REDIS_PY: Kind = Kind {
    dialect: "simple",
    start: |address| Client::redis_py(address),
};
pub(crate) const NPM_REDLOCK: Kind = Kind {
    dialect: "simple",
    start: |address| Client::npm_redlock(&[address]),
};
pub(crate) const REDISSON: Kind = Kind {
    dialect: "redisson",
    start: |address| Client::redisson(address),
};

pub(crate) struct Stage {
    pub(crate) redis: Redis,
    pub(crate) foreign: Foreign,
    kind: &'static Kind,
    clock: Clock,
}

impl Stage {
    /// Nothing where the machine lacks what the client needs, which is said loudly.
    pub(crate) fn with(kind: &'static Kind) -> Option<Stage> {
        let redis = Redis::start().unwrap();
        let client = block_in_place(|| (kind.start)(redis.address()));
        let client = foreign::present(client).unwrap()?;
        Some(Stage {
            redis,
            foreign: Foreign(client),
            kind,
            clock: Clock::system(),
        })
    }

    /// One more client of the same kind.
    pub(crate) fn another(&self) -> Foreign {
        let start = || (self.kind.start)(self.redis.address());
        Foreign(block_in_place(start).unwrap())
    }

    pub(crate) fn url(&self) -> String {
        url(&self.redis, self.kind.dialect)
    }

    /// A keeper whose leases do not end, and are seldom renewed, during a story.
    pub(crate) async fn keeper(&self) -> Keeper {
        keeper(&self.url()).await
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }
}

pub(crate) fn url(redis: &Redis, dialect: &str) -> String {
    format!("{}?dialect={dialect}", redis.url())
}

pub(crate) async fn keeper(url: &str) -> Keeper {
    let builder = Keeper::builder().label("interop").lease(LONG);
    builder.connect(url).await.unwrap()
}

/// What is below a keeper, for what a keeper would hide.
pub(crate) async fn backend(url: &str) -> std::result::Result<Arc<dyn Backend>, Error> {
    dialects::connect(&dialects::Config::from_url(url)?, Clock::system()).await
}

pub(crate) fn claim(name: &str) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: name.parse().unwrap(),
        mode: Mode::Exclusive,
        lease: LONG,
        party: Arc::new(Party::here("interop")),
    }
}

/// How often the server has been asked this.
pub(crate) fn calls(redis: &Redis, command: &str) -> u64 {
    let info = redis.ask(&["INFO", "commandstats"]).unwrap().text();
    let start = format!("cmdstat_{command}:calls=");
    let calls = |line: &str| line.strip_prefix(&start)?.split(',').next()?.parse().ok();
    info.lines().find_map(calls).unwrap_or(0)
}

pub(crate) async fn takes(keeper: &Keeper) -> Guard {
    let lock = keeper.lock(LOCK);
    lock.acquire_within(PATIENCE).await.unwrap()
}

pub(crate) async fn is_busy(keeper: &Keeper) -> bool {
    match keeper.lock(LOCK).try_acquire().await.unwrap() {
        None => true,
        Some(guard) => {
            guard.release().await.unwrap();
            false
        }
    }
}

/// A foreign client, whose calls block.
pub(crate) struct Foreign(Client);

impl Foreign {
    /// Whether it gets the lock within the wait.
    pub(crate) fn gets(&mut self, wait: Duration, lease: Duration) -> bool {
        let told = block_in_place(|| self.0.acquire(LOCK, wait, lease));
        told.unwrap() == Acquired::Got
    }

    /// Whether it gets another lock than the usual one.
    pub(crate) fn gets_named(&mut self, name: &str, wait: Duration) -> bool {
        let told = block_in_place(|| self.0.acquire(name, wait, LONG));
        told.unwrap() == Acquired::Got
    }

    /// Gets the lock, soon and for long.
    pub(crate) fn takes(&mut self) {
        assert!(self.gets(PATIENCE, LONG), "it did not get the lock");
    }

    /// Asks for the lock and does not wait for the answer.
    pub(crate) fn begins_to_wait(&mut self) {
        self.0.begin_acquire(LOCK, LONG, LONG).unwrap();
        // Its question must have arrived, and it must be waiting: nobody outside can tell when.
        block_in_place(|| std::thread::sleep(Duration::from_millis(500)));
    }

    /// Has got the lock that it began to wait for.
    pub(crate) fn has_got(&mut self) {
        let told = block_in_place(|| self.0.finish_acquire(PATIENCE));
        assert_eq!(told.unwrap(), Acquired::Got);
    }

    /// Releases; whether the lock was still its own.
    pub(crate) fn frees(&mut self) -> bool {
        block_in_place(|| self.0.release()).unwrap() == Released::Freed
    }

    pub(crate) fn pause(&self) {
        self.0.pause().unwrap();
    }

    pub(crate) fn resume(&self) {
        self.0.resume().unwrap();
    }

    pub(crate) fn kill(self) {
        self.0.kill();
    }
}

/// A process of ours that holds the lock until it is killed.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn start(url: &str, lease: Duration) -> Holder {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "stage::a_process_that_holds", "--nocapture"]);
        command.env(ROLE, format!("{} {url}", lease.as_millis()));
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let holds = lines.any(|line| line.unwrap().contains("HOLDS"));
        assert!(holds, "it did not get the lock");
        Holder(child)
    }
}

/// Killed, whatever it is doing.
impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// What [`Holder`] runs; as a test of its own it does nothing.
#[tokio::test]
async fn a_process_that_holds() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (lease, url) = role.split_once(' ').unwrap();
    let lease = Duration::from_millis(lease.parse().unwrap());
    let keeper = keeper(url).await;
    let _guard = keeper.lock(LOCK).lease(lease).acquire().await.unwrap();
    println!("\nHOLDS");
    tokio::time::sleep(LONG).await;
}
