//! The same face for programs without async. Each keeper runs its renewals on a thread of its own.

use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::backend::{LockView, Query};
use crate::error::Error;
use crate::keeper::{Builder, Closing};
use crate::lifecycle::core::Core;
use crate::{HoldState, Name, Sequencer, Token};

/// How long the end of the last handle waits for queued releases.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A program's handle on one engine, for programs without async.
///
/// ```
/// let keeper = lockkeeper::blocking::Keeper::connect("memory:")?;
/// let guard = keeper.lock("orders/42").acquire()?;
/// println!("writing under token {}", guard.token());
/// guard.release()?;
/// # Ok::<(), lockkeeper::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Keeper {
    keeper: crate::Keeper,
    runner: Arc<Runner>,
}

/// The thread that renews, wakes and releases in the background.
#[derive(Debug)]
struct Runner {
    handle: Handle,
    /// What may still have releases to send when the last handle is dropped.
    core: Arc<OnceLock<Weak<Core>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runner {
    fn start() -> Result<Self, Error> {
        let unreachable = |source: std::io::Error| Error::Unreachable {
            backend: "the system",
            during: "starting the keeper's thread".into(),
            source: Some(Arc::new(source)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(unreachable)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let core = Arc::<OnceLock<Weak<Core>>>::default();
        let last = core.clone();
        let thread = std::thread::Builder::new()
            .name("lockkeeper".into())
            .spawn(move || {
                runtime.block_on(async move {
                    let _stop_or_drop = stopped.await;
                    // Queued releases keep their keeper alive.
                    if let Some(core) = last.get().and_then(Weak::upgrade) {
                        let until = core.clock.now() + LAST_WORDS;
                        core.releases.drain(&core, until).await;
                    }
                });
            })
            .map_err(unreachable)?;
        Ok(Self {
            handle,
            core,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.stop.take());
        // The last handle may be dropped on the thread itself, which cannot wait for its own end.
        let own = self
            .thread
            .take()
            .filter(|t| t.thread().id() != std::thread::current().id());
        if let Some(thread) = own {
            let _panicked = thread.join();
        }
    }
}

impl Keeper {
    /// Connects to the engine at the URL. Must not be called from async code.
    ///
    /// # Errors
    /// As [`crate::Keeper::connect`].
    pub fn connect(url: &str) -> Result<Self, Error> {
        Self::connect_with(crate::Keeper::builder(), url)
    }

    /// Connects with settings. Must not be called from async code.
    ///
    /// # Errors
    /// As [`Builder::connect`].
    pub fn connect_with(builder: Builder, url: &str) -> Result<Self, Error> {
        let runner = Arc::new(Runner::start()?);
        let keeper = runner.handle.block_on(builder.connect(url))?;
        runner.core.get_or_init(|| Arc::downgrade(keeper.core()));
        Ok(Self { keeper, runner })
    }

    /// A lock that one claim holds at a time.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.of(self.keeper.lock(name))
    }

    /// Any lock of the async face, acquired without async: `keeper.of(keeper.face().semaphore("s", 3).permits(1))`.
    pub fn of(&self, lock: crate::Lock) -> Lock {
        Lock {
            lock,
            runner: self.runner.clone(),
        }
    }

    /// The async face of the same keeper.
    pub fn face(&self) -> &crate::Keeper {
        &self.keeper
    }

    /// Who holds, who waits.
    ///
    /// # Errors
    /// As [`crate::Keeper::inspect`].
    pub fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        self.runner.handle.block_on(self.keeper.inspect(query))
    }

    /// Closes the keeper; see [`crate::Keeper::close`].
    pub fn close(self) -> Closing {
        self.runner.handle.block_on(self.keeper.close())
    }
}

/// A lock that is not held yet.
#[derive(Debug, Clone)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    lock: crate::Lock,
    runner: Arc<Runner>,
}

impl Lock {
    /// How long the claim lives unless it is renewed.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lock = self.lock.lease(lease);
        self
    }

    /// Takes the lock if it is free. Busy is no error.
    ///
    /// # Errors
    /// As [`crate::Lock::try_acquire`].
    pub fn try_acquire(self) -> Result<Option<Guard>, Error> {
        let guard = self.runner.handle.block_on(self.lock.try_acquire())?;
        Ok(guard.map(|guard| Guard {
            guard,
            runner: self.runner,
        }))
    }

    /// Waits for the lock without limit.
    ///
    /// # Errors
    /// As [`crate::Lock::acquire`].
    pub fn acquire(self) -> Result<Guard, Error> {
        let guard = self.runner.handle.block_on(self.lock.acquire())?;
        Ok(Guard {
            guard,
            runner: self.runner,
        })
    }

    /// Waits for the lock for at most this long.
    ///
    /// # Errors
    /// As [`crate::Lock::acquire_within`].
    pub fn acquire_within(self, patience: Duration) -> Result<Guard, Error> {
        let guard = self
            .runner
            .handle
            .block_on(self.lock.acquire_within(patience))?;
        Ok(Guard {
            guard,
            runner: self.runner,
        })
    }
}

/// A lock that is held. Dropping it queues the release.
#[derive(Debug)]
#[must_use = "a guard that is dropped at once protects nothing"]
pub struct Guard {
    guard: crate::Guard,
    runner: Arc<Runner>,
}

impl Guard {
    /// The name that is held.
    pub fn name(&self) -> &Name {
        self.guard.name()
    }

    /// The fencing token: pass it along with every request to the resource.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// Name, mode and token as one printable string.
    pub fn sequencer(&self) -> Sequencer {
        self.guard.sequencer()
    }

    /// How long the hold is good for at least, if it is not renewed.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// What the keeper knows about the hold.
    pub fn state(&self) -> HoldState {
        self.guard.state()
    }

    /// An error as soon as the hold is lost: ask before every step that must not run unprotected.
    ///
    /// # Errors
    /// [`Error::Lost`] with the reason.
    pub fn check(&self) -> Result<(), Error> {
        self.guard.check()
    }

    /// Gives the lock back and tells how that went.
    ///
    /// # Errors
    /// As [`crate::Guard::release`].
    pub fn release(self) -> Result<(), Error> {
        self.runner.handle.block_on(self.guard.release())
    }
}
