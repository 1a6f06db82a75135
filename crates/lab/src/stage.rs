//! What a part of a scenario plays on: it casts the clients, keeps the history, and watches who really holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use lockkeeper::backend::{LockView, Query};
use lockkeeper_testbed::{Redis, Server};

use crate::Result;
use crate::actor::{Client, Deed, Hands};
use crate::history::{Event, Recorder, What};

/// How often the server is asked who holds; only the pictures depend on it.
const LOOK: Duration = Duration::from_millis(15);
/// Shorter than every lease that must not end meanwhile.
const SHOWN_WITHIN: Duration = Duration::from_millis(700);

/// What a part of a scenario plays on.
#[derive(Debug)]
pub struct Stage {
    program: Vec<String>,
    recorder: Recorder,
    seed: u64,
}

impl Stage {
    /// A stage whose clients are started by `program`, which must call [`crate::actor::play`] with its last argument.
    #[must_use]
    pub fn new(program: Vec<String>, seed: u64) -> Stage {
        let recorder = Recorder::begin();
        Stage {
            program,
            recorder,
            seed,
        }
    }

    /// Where the history is written.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// What has happened.
    #[must_use]
    pub fn history(&self) -> Vec<Event> {
        self.recorder.history()
    }

    /// What happens to a lane now.
    pub fn note(&self, lane: &str, what: What) {
        self.recorder.note(lane, what);
    }

    /// A word to the reader of the picture.
    pub fn tell(&self, lane: &str, text: &str) {
        let text = text.to_owned();
        self.note(lane, What::Note { text });
    }

    /// A client: a process of its own. Its name is its lane, and what operators see.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn client(&self, name: &str) -> Result<Client> {
        Client::start(&self.program, name, &self.recorder)
    }

    /// The resource that the lock is to protect: a key of a Redis server of its own, which has this value.
    ///
    /// # Errors
    /// When the server cannot be started.
    pub fn resource(&self, key: &str, value: &str) -> Result<Redis> {
        let server = Redis::durable()?;
        server.ask(&["SET", key, value])?;
        Ok(server)
    }

    /// Stops a server without its knowledge.
    ///
    /// # Errors
    /// When it does not run.
    pub fn pause(&self, lane: &str, server: &Server) -> Result<()> {
        server.pause()?;
        self.note(lane, What::Paused);
        Ok(())
    }

    /// Lets a stopped server go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn resume(&self, lane: &str, server: &Server) -> Result<()> {
        self.note(lane, What::Resumed);
        Ok(server.resume()?)
    }

    /// Kills a server.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill(&self, lane: &str, server: &Server) -> Result<()> {
        server.kill()?;
        self.note(lane, What::Killed);
        Ok(())
    }

    /// Starts a killed server again, in its old place; `with_data` tells the reader whether its data are still there.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn restart(&self, lane: &str, server: &Server, with_data: bool) -> Result<()> {
        server.restart()?;
        self.note(lane, What::Restarted { with_data });
        Ok(())
    }

    /// Sets the wall clock of a server this much further on. It must have been started with a movable one.
    ///
    /// # Errors
    /// When its clock cannot be moved.
    pub fn clock_forward(&self, lane: &str, server: &Server, by: Duration) -> Result<()> {
        server.clock()?.forward(by)?;
        let by_ms = i64::try_from(by.as_millis())?;
        self.note(lane, What::ClockMoved { by_ms });
        Ok(())
    }

    /// A length between the two, by the seed: different in each run, the same in a repeated one.
    #[must_use]
    pub fn some_time(&self, salt: u64, least: Duration, most: Duration) -> Duration {
        // SplitMix64: one step is as good as many.
        let mut mixed = self
            .seed
            .wrapping_add(salt.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let span = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(mixed % span.max(1))
    }

    /// Writes down who really holds a naive lock of Redis whose value is the holder's name, as long as this lives.
    #[must_use]
    pub fn watch_key(&self, server: &Redis, lane: &str, key: &str) -> Truth {
        let (address, key) = (server.address(), key.to_owned());
        let asked = key.clone();
        self.watch(lane, &key, move || {
            Redis::ask_at(address, &["GET", &asked])
                .ok()
                .map(|reply| reply.text())
                .filter(|owner| !owner.is_empty())
        })
    }

    /// Writes down who really holds a lock of lockkeeper by what the engine says, as long as this lives.
    ///
    /// # Errors
    /// When the engine cannot be asked.
    pub fn watch_lock(&self, url: &str, lane: &str, lock: &str) -> Result<Truth> {
        let eye = Eye::on(url, lock)?;
        let mut known = None;
        Ok(self.watch(lane, lock, move || {
            // An engine that cannot be asked, as between two leaders, has not said that nobody holds.
            if let Ok(Some(views)) = eye.look() {
                let holders = views.iter().flat_map(|view| &view.holders);
                let labels: Vec<_> = holders.map(|holder| holder.party.label.clone()).collect();
                known = Some(labels.join(", ")).filter(|labels| !labels.is_empty());
            }
            known.clone()
        }))
    }

    /// Waits until so many are in line for a lock of lockkeeper, by what the engine says.
    ///
    /// # Errors
    /// When the engine cannot be asked, or they are not in line after far too long.
    pub fn await_line(&self, url: &str, lock: &str, number: usize) -> Result<()> {
        let eye = Eye::on(url, lock)?;
        wait_until("they are in line", || {
            let views = eye.look()?.unwrap_or_default();
            Ok(views.iter().map(|view| view.waiters.len()).sum::<usize>() >= number)
        })
    }

    /// Writes down who really holds a naive lock by what is answered to this deed, as long as this lives.
    ///
    /// # Errors
    /// When there is no runtime to ask in.
    pub fn watch_by(&self, lane: &str, lock: &str, question: Deed) -> Result<Truth> {
        let runtime = runtime()?;
        let mut hands = Hands::new("truth");
        Ok(self.watch(lane, lock, move || {
            let answer = runtime.block_on(hands.perform(question.clone())).ok()?;
            let owner = answer.text().map(str::to_owned);
            owner.filter(|owner| !owner.is_empty())
        }))
    }

    /// Gives who watches the time to see that this one really holds. Only the pictures depend on it, so it is not
    /// waited for long.
    pub fn show_holder(&self, name: &str) {
        let began = Instant::now();
        while began.elapsed() < SHOWN_WITHIN && !self.is_shown(name) {
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_shown(&self, name: &str) -> bool {
        let history = self.history();
        let mut seen = history.iter().rev().filter_map(|event| match &event.what {
            What::Holds { owner, .. } => Some(owner.as_deref()),
            _ => None,
        });
        seen.next().flatten() == Some(name)
    }

    /// Writes down who really holds by what `look` says, as long as this lives.
    pub fn watch(
        &self,
        lane: &str,
        lock: &str,
        mut look: impl FnMut() -> Option<String> + Send + 'static,
    ) -> Truth {
        let (recorder, over) = (self.recorder.clone(), Arc::new(AtomicBool::new(false)));
        let (lane, lock) = (lane.to_owned(), lock.to_owned());
        let until = Arc::clone(&over);
        let watcher = thread::spawn(move || {
            let mut known = None;
            while !until.load(Ordering::Relaxed) {
                let owner = look();
                if owner != known {
                    let lock = lock.clone();
                    recorder.note(
                        &lane,
                        What::Holds {
                            lock,
                            owner: owner.clone(),
                        },
                    );
                    known = owner;
                }
                thread::sleep(LOOK);
            }
        });
        let watcher = Some(watcher);
        Truth { over, watcher }
    }
}

/// Sees what the engine says about a lock of lockkeeper.
struct Eye {
    runtime: tokio::runtime::Runtime,
    keeper: Keeper,
    query: Query,
}

impl Eye {
    fn on(url: &str, lock: &str) -> Result<Eye> {
        let (runtime, query) = (runtime()?, Query::One(lock.parse()?));
        let mut keeper = None;
        wait_until("the engine answers", || {
            let connecting = Keeper::builder().label("truth").connect(url);
            keeper = answered(runtime.block_on(connecting))?;
            Ok(keeper.is_some())
        })?;
        let keeper = keeper.ok_or("no keeper")?;
        Ok(Eye {
            runtime,
            keeper,
            query,
        })
    }

    /// What the engine says, if it answers.
    fn look(&self) -> Result<Option<Vec<LockView>>> {
        answered(self.runtime.block_on(self.keeper.inspect(&self.query)))
    }
}

/// That an engine did not answer in time is no trouble of the lab: it can be asked again.
fn answered<T>(answer: std::result::Result<T, lockkeeper::Error>) -> Result<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(lockkeeper::Error::Unreachable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

/// Watches who really holds, as long as it lives.
#[derive(Debug)]
pub struct Truth {
    over: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
}

impl Drop for Truth {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(watcher) = self.watcher.take() {
            let _panicked = watcher.join();
        }
    }
}

/// Waits until it is so.
///
/// # Errors
/// When it is not so after far too long.
pub fn wait_until(what: &str, mut so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !so()? {
        if began.elapsed() > Duration::from_secs(30) {
            return Err(format!("waited in vain: {what}").into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
