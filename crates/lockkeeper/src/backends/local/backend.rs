//! The verbs, each one transaction under the gate: at once on the calling thread if the gate is free,
//! else on a thread that waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::directory::Directory;
use super::faults::unreachable;
use super::list::{Effects, Transaction};
use super::presence::{self, Presence, Ring};
use super::reader::Reader;
use super::store::{Done, Store};
use super::watch::Watches;
use super::{BACKEND, guarantees};
use crate::Name;
use crate::backend::{Backend, Bell, Entry, LockView, Query, Released, Standing, Wake, Wakes};
use crate::claim::Claim;
use crate::error::Error;
use crate::guarantees::Guarantees;
use crate::lifecycle::deadline::Clock;

/// How long a verb waits for the gate. Whoever has it keeps it for microseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often the gate is tried before a thread waits for it.
const QUICK_TRIES: usize = 3;

/// How many claims are renewed under the gate at a time.
const BATCH: usize = 500;

/// A keeper's connection.
#[derive(Debug)]
pub(super) struct LocalBackend(pub(super) Arc<Shared>);

/// What the verbs and the listening tasks share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) directory: Arc<Directory>,
    pub(super) presence: OnceLock<Presence>,
    pub(super) bell: Bell,
    pub(super) watches: Watches,
    store: Mutex<Store>,
    reader: Mutex<Reader>,
    waiting: Mutex<Option<mpsc::Sender<Job>>>,
    clock: Clock,
    guarantees: Guarantees,
    process: u32,
}

type Job = Box<dyn FnOnce() + Send>;

impl Shared {
    pub(super) fn new(
        directory: Arc<Directory>,
        boot: [u8; 16],
        clock: Clock,
    ) -> Result<Self, Error> {
        Ok(Self {
            store: Mutex::new(Store::new(directory.clone(), boot)?),
            reader: Mutex::new(Reader::new(directory.clone(), boot)),
            guarantees: guarantees(&directory),
            directory,
            presence: OnceLock::new(),
            bell: Bell::default(),
            watches: Watches::default(),
            waiting: Mutex::default(),
            clock,
            process: std::process::id(),
        })
    }

    /// Opens everything now if nobody is in the way; else the first verb does.
    pub(super) fn open(&self) -> Result<(), Error> {
        self.store().try_open(&self.presence)
    }

    /// Runs a job in a transaction.
    pub(super) async fn write<R, J>(self: &Arc<Self>, mut job: J) -> Result<R, Error>
    where
        R: Send + 'static,
        J: FnOnce(&mut Transaction<'_>) -> Result<R, Error> + Send + 'static,
    {
        self.check_process()?;
        for _ in 0..QUICK_TRIES {
            // Most of the time this is all, on the first poll.
            job = match self.try_run(job) {
                Ok(done) => return self.finish(done),
                Err(job) => job,
            };
            tokio::task::yield_now().await;
        }
        self.finish(self.wait_and_run(job).await)
    }

    fn try_run<R, J>(&self, job: J) -> Result<Done<R>, J>
    where
        J: FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    {
        let mut store = match self.store.try_lock() {
            Ok(store) => store,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(job),
        };
        let done = store.try_run((&self.presence, self.clock.now()), job)?;
        drop(store);
        Ok(done.inspect(|(_, effects)| self.tell_others(effects)))
    }

    async fn wait_and_run<R, J>(self: &Arc<Self>, job: J) -> Done<R>
    where
        R: Send + 'static,
        J: FnOnce(&mut Transaction<'_>) -> Result<R, Error> + Send + 'static,
    {
        let give_up = self.clock.now() + PATIENCE;
        let (answer, answered) = oneshot::channel();
        // Dropping this future, too, must keep the job from running later.
        let owner = Abandon(Arc::default());
        let abandoned = owner.0.clone();
        let shared = self.clone();
        self.hand_over(Box::new(move || {
            if let Some(done) = shared.run_when_free(&abandoned, job) {
                let _owner_is_gone = answer.send(done);
            }
        }))?;
        tokio::select! {
            biased;
            done = answered => done.unwrap_or_else(|_| Err(unreachable("waiting for the gate"))),
            () = self.clock.sleep_until(give_up) => Err(self.busy()),
        }
    }

    fn run_when_free<R, J>(&self, abandoned: &AtomicBool, job: J) -> Option<Done<R>>
    where
        J: FnOnce(&mut Transaction<'_>) -> Result<R, Error>,
    {
        let is_abandoned = || abandoned.load(Ordering::SeqCst);
        if is_abandoned() {
            return None;
        }
        let mut store = self.store();
        let at = (&self.presence, || self.clock.now());
        let done = store.run(at, is_abandoned, job)?;
        drop(store);
        Some(done.inspect(|(_, effects)| self.tell_others(effects)))
    }

    /// Gives a job to the thread that waits for the gate. It is a thread of its own, since a runtime
    /// waits for its blocking tasks when it ends: a stopped process that has the gate would keep
    /// this one from ending.
    fn hand_over(&self, job: Job) -> Result<(), Error> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut job = Some(job);
        if let Some(thread) = waiting.as_ref() {
            // It fails if the thread has died of a panic; then the job comes back.
            job = job
                .take()
                .and_then(|job| thread.send(job).err())
                .map(|unsent| unsent.0);
        }
        let Some(job) = job else {
            return Ok(());
        };
        let (sender, jobs) = mpsc::channel::<Job>();
        std::thread::Builder::new()
            .name("lockkeeper-gate".into())
            .spawn(move || jobs.into_iter().for_each(|job| job()))
            .map_err(|error| unreachable(format!("starting a thread: {error}")))?;
        let _just_started = sender.send(job);
        *waiting = Some(sender);
        Ok(())
    }

    fn busy(&self) -> Error {
        let place = self.directory.path.display();
        let holder = super::gate::holder(&self.directory)
            .map_or_else(String::new, |pid| format!(", now process {pid}"));
        unreachable(format!(
            "waiting {PATIENCE:?} for the gate of {place}, which is busy (a stopped process may have it{holder}: let it go on, or end it)"
        ))
    }

    /// Rings whom a transaction on record concerns.
    fn tell_others(&self, effects: &Effects) {
        let me = self.presence.get().map(|presence| presence.id);
        for (keeper, ring, claim) in &effects.rings {
            if *ring == Ring::Look && Some(*keeper) == me {
                self.bell.ring(Wake::Look(*claim));
            } else {
                presence::ring(&self.directory, keeper, *ring, *claim);
            }
        }
        for keeper in &effects.dead {
            presence::bury(&self.directory, keeper);
        }
    }

    fn finish<R>(self: &Arc<Self>, done: Done<R>) -> Result<R, Error> {
        let (result, effects) = done?;
        if effects.restored {
            self.watches.restart(self);
            // What was sent while the pipe was missing is lost.
            self.bell.ring(Wake::LookAll);
        }
        for claim in effects.settled {
            self.watches.settle(claim);
        }
        for waiting in effects.waits {
            self.watches.wait(self, waiting);
        }
        Ok(result)
    }

    /// Takes this keeper's claims out and shows it dead. In a forked child it does nothing: all is the
    /// parent's (bug 89).
    fn close(&self) {
        self.watches.close();
        if std::process::id() != self.process {
            return;
        }
        let Some(presence) = self.presence.get() else {
            return;
        };
        let is_busy = |lock: TryLockError<_>| matches!(lock, TryLockError::WouldBlock);
        let may_have_claims = self
            .store
            .try_lock()
            .map_or_else(is_busy, |store| store.has_claims());
        if !may_have_claims || matches!(self.try_run(|list| list.leave()), Ok(Ok(_))) {
            presence.remove();
        } else {
            // The gate is not free, or the disk is full: others delete the claims when they meet them.
            presence.end();
        }
    }

    fn check_process(&self) -> Result<(), Error> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(Error::Refused {
            backend: BACKEND,
            why:
                "this keeper was made before a fork and is its parent's: connect anew in the child"
                    .into(),
        })
    }

    fn check_lease(&self, claim: &Claim) -> Result<(), Error> {
        let (shortest, longest) = (
            self.guarantees.shortest_lease,
            self.guarantees.longest_lease,
        );
        if (shortest..=longest).contains(&claim.lease) {
            return Ok(());
        }
        Err(Error::invalid(format_args!(
            "a lease of {:?} is not kept by local: ask for {shortest:?} to {longest:?}",
            claim.lease
        )))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a job from running once its owner is gone.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Drop for LocalBackend {
    /// Here and not with the last share of it: a thread that still waits for the gate has one.
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::process::id() != self.process {
            self.store().forget();
            self.reader().forget();
        }
    }
}

#[async_trait]
impl Backend for LocalBackend {
    async fn enter(&self, claim: &Claim, entry: Entry) -> Result<Standing, Error> {
        self.0.check_lease(claim)?;
        let claim = claim.clone();
        self.0.write(move |list| list.enter(&claim, entry)).await
    }

    async fn renew(&self, claims: &[Claim]) -> Result<Vec<Standing>, Error> {
        claims
            .iter()
            .try_for_each(|claim| self.0.check_lease(claim))?;
        let mut standings = Vec::with_capacity(claims.len());
        for batch in claims.chunks(BATCH) {
            let batch = batch.to_vec();
            let renew = move |list: &mut Transaction<'_>| -> Result<Vec<Standing>, Error> {
                list.restore_pipe()?;
                batch.iter().map(|claim| list.renew(claim)).collect()
            };
            standings.extend(self.0.write(renew).await?);
        }
        Ok(standings)
    }

    async fn downgrade(&self, claim: &Claim) -> Result<Standing, Error> {
        self.0.check_lease(claim)?;
        let claim = claim.clone();
        self.0.write(move |list| list.downgrade(&claim)).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let claim = claim.clone();
        self.0.write(move |list| list.release(&claim)).await
    }

    async fn inspect(&self, query: &Query) -> Result<Vec<LockView>, Error> {
        self.0.check_process()?;
        self.0.reader().inspect(query, self.0.clock.now())
    }

    async fn evict(&self, name: &Name, order: u64, why: &str) -> Result<Released, Error> {
        let (name, why) = (name.clone(), why.to_owned());
        self.0
            .write(move |list| list.evict(&name, order, &why))
            .await
    }

    fn wakes(&self) -> Wakes {
        self.0.bell.wakes()
    }

    fn guarantees(&self) -> &Guarantees {
        &self.0.guarantees
    }

    fn place(&self) -> String {
        format!("local:{}", self.0.directory.path.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crate::backends::local::{Config, boot};
    use crate::claim::{ClaimId, Party};

    fn claim() -> Claim {
        Claim {
            id: ClaimId::random().unwrap(),
            name: Name::new("a").unwrap(),
            mode: Mode::Exclusive,
            lease: Duration::from_secs(30),
            party: Arc::new(Party::here("test")),
        }
    }

    fn backend(temp: &tempfile::TempDir) -> LocalBackend {
        let config = Config::at(temp.path().join("locks")).unwrap();
        let directory = Arc::new(Directory::open(&config.path).unwrap());
        let boot = boot(&config, &directory).unwrap();
        LocalBackend(Arc::new(
            Shared::new(directory, boot, Clock::system()).unwrap(),
        ))
    }

    /// What the child of a fork finds: everything as in the parent, but another process id.
    fn forked(mut backend: LocalBackend) -> LocalBackend {
        Arc::get_mut(&mut backend.0).unwrap().process ^= 1;
        backend
    }

    // bug 89, bug 90
    #[tokio::test]
    async fn in_a_forked_child_every_verb_is_refused_and_nothing_is_taken_from_the_parent() {
        let temp = tempfile::tempdir().unwrap();
        let parent = backend(&temp);
        let held = claim();
        parent.enter(&held, Entry::Queue).await.unwrap();
        let presence = parent.0.presence.get().unwrap();
        let (id, pipe) = (presence.id, presence.descriptor().unwrap());
        let child = forked(parent);
        let refused = |error: Error| assert!(matches!(error, Error::Refused { .. }), "{error}");
        refused(child.enter(&held, Entry::Queue).await.unwrap_err());
        refused(child.renew(std::slice::from_ref(&held)).await.unwrap_err());
        refused(child.downgrade(&held).await.unwrap_err());
        refused(child.release(&held).await.unwrap_err());
        refused(child.evict(&held.name, 1, "?").await.unwrap_err());
        refused(child.inspect(&Query::All).await.unwrap_err());
        drop(child);
        // The parent, which has the pipe open and locked, holds as before.
        let other = backend(&temp);
        assert!(presence::is_alive(&other.0.directory, &id));
        assert_eq!(
            other.enter(&claim(), Entry::Try).await.unwrap(),
            Standing::Gone
        );
        drop(pipe);
        let standing = other.enter(&claim(), Entry::Try).await.unwrap();
        assert!(matches!(standing, Standing::Holds { .. }));
    }

    #[tokio::test]
    async fn a_job_that_panics_harms_nobody_else() {
        let temp = tempfile::tempdir().unwrap();
        let backend = backend(&temp);
        let held = claim();
        backend.enter(&held, Entry::Queue).await.unwrap();
        let shared = backend.0.clone();
        let panics = tokio::spawn(async move {
            shared
                .write(|_| -> Result<(), Error> { panic!("on purpose") })
                .await
        });
        assert!(panics.await.unwrap_err().is_panic());
        assert_eq!(backend.release(&held).await.unwrap(), Released::Freed);
        assert_eq!(backend.release(&held).await.unwrap(), Released::Gone);
    }
}
