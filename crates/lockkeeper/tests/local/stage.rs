//! The stage: a fresh directory, claims, and other processes that play a role in it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lockkeeper::Clock;
use lockkeeper::backend::{Backend, Entry, Standing};
use lockkeeper::backends::local::{Config, connect};
use lockkeeper::claim::{Claim, ClaimId, Party};
use lockkeeper::{Error, Mode, Name};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Every wait of a test ends here at the latest, so that a lost push is a failure and not a hang.
pub(crate) const SOON: Duration = Duration::from_secs(10);

pub(crate) struct Stage {
    /// Keeps the directory in being.
    pub(crate) temp: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("locks");
        Self { temp, path }
    }

    pub(crate) fn connect(&self) -> Arc<dyn Backend> {
        self.try_connect().unwrap()
    }

    pub(crate) fn try_connect(&self) -> Result<Arc<dyn Backend>, Error> {
        connect(&Config::at(&self.path)?, Clock::system())
    }

    pub(crate) fn play(&self, role: &str, name: &str) -> Actor {
        Actor::start(
            Command::new(std::env::current_exe().unwrap()),
            &self.path,
            role,
            name,
        )
    }

    /// The files of claims, without `-wal` and `-shm`.
    pub(crate) fn databases(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.path).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|ext| ext == "db"))
            .collect()
    }

    /// Deletes all files of claims, as an operator or a disk check might.
    pub(crate) fn delete_claims(&self) {
        for entry in std::fs::read_dir(&self.path).unwrap() {
            let path = entry.unwrap().path();
            if path
                .file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("claims-")
            {
                std::fs::remove_file(path).unwrap();
            }
        }
    }

    pub(crate) fn pipes(&self) -> usize {
        std::fs::read_dir(self.path.join("alive")).unwrap().count()
    }
}

/// Another process. Dropping it kills it, as SIGKILL does.
pub(crate) struct Actor {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
}

impl Actor {
    pub(crate) fn start(mut command: Command, directory: &Path, role: &str, name: &str) -> Self {
        let mut child = command
            .args(["--exact", "roles::play", "--nocapture", "--test-threads=1"])
            .env("LOCKKEEPER_TEST_ROLE", role)
            .env("LOCKKEEPER_TEST_NAME", name)
            .env("LOCKKEEPER_TEST_DIRECTORY", directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once("says: ") {
                    let _nobody_listens = sender.send(said.to_owned());
                }
            }
        });
        let stdin = child.stdin.take();
        Self {
            child,
            stdin,
            lines,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next thing that it says.
    pub(crate) fn says(&self) -> String {
        self.lines
            .recv_timeout(SOON)
            .expect("the other process said nothing in time")
    }

    /// What it says within a time, if anything.
    pub(crate) fn says_within(&self, span: Duration) -> Option<String> {
        self.lines.recv_timeout(span).ok()
    }

    pub(crate) fn expect(&self, word: &str) -> u64 {
        let said = loop {
            let said = self.says();
            // How often it asked is of interest to one test only.
            if !said.starts_with("asked") {
                break said;
            }
        };
        let (first, rest) = said.split_once(' ').unwrap_or((&said, "0"));
        assert_eq!(first, word, "it said {said:?}");
        rest.parse().unwrap()
    }

    pub(crate) fn tell(&mut self, word: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{word}").unwrap();
    }

    pub(crate) fn kill(&mut self) -> Instant {
        let at = Instant::now();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        at
    }

    pub(crate) fn wait(&mut self) -> bool {
        drop(self.stdin.take());
        self.child.wait().unwrap().success()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _already_ended = self.child.kill();
        let _already_waited = self.child.wait();
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn claim(text: &str, mode: Mode) -> Claim {
    Claim {
        id: ClaimId::random().unwrap(),
        name: name(text),
        mode,
        lease: LEASE,
        party: Arc::new(Party::here("test")),
    }
}

pub(crate) fn exclusive(text: &str) -> Claim {
    claim(text, Mode::Exclusive)
}

/// The order number of a standing that must be a hold.
#[track_caller]
pub(crate) fn order(standing: Standing) -> u64 {
    match standing {
        Standing::Holds { order, .. } => order,
        standing => panic!("it does not hold: {standing:?}"),
    }
}

#[track_caller]
pub(crate) fn assert_waits(standing: Standing) {
    assert!(matches!(standing, Standing::Waits { .. }), "{standing:?}");
}

/// Enters, and waits for the hold as a keeper does: rung, or at the time given. Tells the order number
/// and how often it had to ask.
pub(crate) async fn acquire(backend: &Arc<dyn Backend>, claim: &Claim) -> (u64, usize) {
    acquire_after(backend, claim, || ()).await
}

/// The same, and calls `waits` when it has to wait.
pub(crate) async fn acquire_after(
    backend: &Arc<dyn Backend>,
    claim: &Claim,
    waits: impl FnOnce(),
) -> (u64, usize) {
    let mut wakes = backend.wakes();
    let mut standing = backend.enter(claim, Entry::Queue).await.unwrap();
    let mut asked = 0;
    if let Standing::Waits { .. } = standing {
        waits();
    }
    loop {
        let look_again_in = match standing {
            Standing::Holds { order, .. } => return (order, asked),
            Standing::Waits { look_again_in, .. } => look_again_in,
            standing => panic!("{standing:?} while waiting"),
        };
        let _rung_or_time = tokio::time::timeout(look_again_in, wakes.next()).await;
        asked += 1;
        standing = backend.renew(std::slice::from_ref(claim)).await.unwrap()[0];
    }
}
