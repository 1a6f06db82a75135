//! One node of the set: its connection, and the greeting without which it has no vote.
//!
//! On every new connection the node is greeted before it is asked anything: it says whether it has been
//! restarted or emptied since somebody last spoke to it, and the answer is kept on the node itself, for
//! all keepers. The scripts are loaded by the greeting and nowhere else: a node that was restarted does not
//! know them, so that it cannot vote before it was greeted.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{RedisError, Value};

use super::config::Config;
use super::debts::{Debts, Free};
use super::quorum::Vote;
use super::wire::{Keys, SCRIPTS, Said, bytes, items, number};
use crate::backends::redis::answer;
use crate::backends::redis::link::{Event, Link};
use crate::backends::redis::packed::Packed;
use crate::error::Error;
use crate::lifecycle::deadline::{Clock, Moment};

/// A node, and what is known about it.
pub(super) struct Member {
    pub(super) link: Link,
    connection: Arc<Connection>,
    health: Mutex<Health>,
    /// Why it did not do what it was last asked; nothing once it has.
    refusal: Mutex<Option<Trouble>>,
    pub(super) debts: Debts,
    greeting: Greeting,
    clock: Clock,
}

/// Which connection is the present one, and which one was greeted.
#[derive(Debug, Default)]
struct Connection {
    /// Counts the connections that broke.
    present: AtomicU64,
    /// One more than the connection that was greeted.
    greeted: AtomicU64,
}

/// What a node said when it was last greeted.
#[derive(Debug, Clone)]
pub(super) enum Health {
    /// It has not answered yet, or not any more.
    Silent(Trouble),
    /// It votes; the highest number that it has seen.
    Counts { seen: u64 },
    /// It may have forgotten grants until then.
    Abstains { until: Moment, resting: Resting },
    /// All that it may have forgotten is over; it waits for its first number.
    Rested(Resting),
    /// It belongs to another set, in words.
    Foreign { set: String },
    /// It drops keys when its memory is full, by this policy.
    Evicts { policy: String },
}

/// A node without a number to go on from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resting {
    /// Which of its rests this is.
    pub(super) rest: Vec<u8>,
    /// The highest number that it remembers, and its clock.
    pub(super) seen: u64,
    pub(super) micros: u64,
}

/// Whether a node must have rested before it votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Over,
    /// The operator says that there is nothing that it could have forgotten.
    CutShort,
}

/// What every greeting says.
struct Greeting {
    key: Vec<u8>,
    digest: Vec<u8>,
    set: String,
    longest_lease_ms: String,
}

impl Member {
    /// Starts to connect; `news` hears of every event.
    pub(super) fn start(
        place: usize,
        config: &Config,
        keys: &Keys,
        clock: &Clock,
        news: impl Fn(Event<'_>) + Send + Sync + 'static,
    ) -> Self {
        let connection = Arc::<Connection>::default();
        let shared = connection.clone();
        let link = Link::start(config.nodes[place].clone(), move |event| {
            if event == Event::Broken {
                shared.present.fetch_add(1, Ordering::SeqCst);
            }
            news(event);
        });
        let greeting = Greeting {
            key: keys.node().to_vec(),
            digest: keys.digest().to_vec(),
            set: config.set(),
            longest_lease_ms: config.longest_lease.as_millis().to_string(),
        };
        Self {
            link,
            connection,
            health: Mutex::new(Health::Silent(Trouble::NotGreeted)),
            refusal: Mutex::default(),
            debts: Debts::default(),
            greeting,
            clock: clock.clone(),
        }
    }

    fn health_now(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn health(&self) -> Health {
        self.health_now().clone()
    }

    /// Whether the present connection was greeted.
    pub(super) fn is_greeted(&self) -> bool {
        let present = self.connection.present.load(Ordering::SeqCst);
        self.connection.greeted.load(Ordering::SeqCst) == present + 1
    }

    /// Asks a node that was greeted. It is not asked again by itself, also not when it only lacked the
    /// scripts: a question must not come after whatever its caller sent since.
    pub(super) async fn ask(&self, cmd: Arc<Packed>) -> Result<Value, Trouble> {
        if !self.is_greeted() {
            return Err(Trouble::NotGreeted);
        }
        match self.send(cmd).await {
            // SCRIPT FLUSH, or a restart so quick that its connection is not known to be broken yet.
            Err(error) if answer::lacks_script(&error) => {
                // Put aside, as it is rare: whoever asks would carry it along.
                Box::pin(self.greet()).await?;
                Err(Trouble::LackedScripts)
            }
            told => Ok(told?),
        }
    }

    /// Asks a node whatever its state: for what frees or looks, and takes nothing.
    pub(super) async fn ask_anyway(&self, cmd: Arc<Packed>) -> Result<Value, Trouble> {
        match self.send(cmd.clone()).await {
            Err(error) if answer::lacks_script(&error) => {
                Box::pin(self.greet()).await?;
                Ok(self.send(cmd).await?)
            }
            told => Ok(told?),
        }
    }

    /// The same for what must reach the node before anything that is asked on a later connection, for as
    /// long as there can be something to free.
    pub(super) async fn free(&self, free: Free) -> Result<Value, Trouble> {
        let present = self.connection.present.load(Ordering::SeqCst);
        let debt = self.debts.note(&free, present, self.clock.now());
        let told = self.ask_anyway(free.cmd).await;
        match told {
            Ok(_) => self.debts.is_paid(debt),
            Err(_) => self.debts.was_not_paid(debt),
        }
        told
    }

    /// Sends, and remembers a refusal.
    async fn send(&self, cmd: Arc<Packed>) -> Result<Value, RedisError> {
        let told = self.link.send(&*cmd).await;
        *self.refusal() = told.as_ref().err().cloned().map(Trouble::from);
        told
    }

    fn refusal(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in that no answer came in time.
    pub(super) fn is_late(&self) {
        *self.refusal() = Some(Trouble::Late);
    }

    /// Greets the node, so that it knows the scripts and says how it is.
    pub(super) async fn greet(&self) -> Result<Health, Trouble> {
        let present = self.connection.present.load(Ordering::SeqCst);
        let told = self.said(present).await;
        let health = match &told {
            Ok(health) => health.clone(),
            Err(trouble) => Health::Silent(trouble.clone()),
        };
        *self.health_now() = health;
        if told.is_ok() {
            *self.refusal() = None;
            self.connection.greeted.store(present + 1, Ordering::SeqCst);
        }
        told
    }

    async fn said(&self, present: u64) -> Result<Health, Trouble> {
        let keeps: &[u8] = if self.keeps_its_data().await? {
            b"1"
        } else {
            b"0"
        };
        let greeting = &self.greeting;
        let args: [&[u8]; 4] = [
            &greeting.digest,
            greeting.set.as_bytes(),
            keeps,
            greeting.longest_lease_ms.as_bytes(),
        ];
        let told = self
            .link
            .call(&SCRIPTS.greet, &[&greeting.key], &args)
            .await?;
        let health = self.health_from(&told).ok_or(Trouble::Nonsense)?;
        let load = SCRIPTS.verbs().map(|script| {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script.text());
            load
        });
        for loaded in self.link.commands(&load).await? {
            loaded.extract_error()?;
        }
        self.pay_debts(present).await?;
        Ok(health)
    }

    /// Sends what earlier connections left undone, before anything is asked on this one.
    async fn pay_debts(&self, present: u64) -> Result<(), Trouble> {
        for (debt, cmd) in self.debts.due(present, self.clock.now()) {
            match self.link.command(&*cmd).await {
                Ok(_) => self.debts.is_paid(debt),
                // Refused, so tried again by the next greeting; the node may still be good for votes.
                Err(error) if error.code().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the node writes every change to disk before it answers. A node that does not say so is
    /// taken not to.
    async fn keeps_its_data(&self) -> Result<bool, Trouble> {
        let settings = [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("no-appendfsync-on-rewrite", "no"),
        ];
        let ask = settings.map(|(setting, _)| {
            let mut ask = redis::cmd("CONFIG");
            ask.arg("GET").arg(setting);
            ask
        });
        let told = self.link.commands(&ask).await?;
        let says = |value: &Value, wanted: &str| match value {
            Value::Map(pairs) => pairs
                .iter()
                .any(|(_, v)| bytes(v) == Some(wanted.as_bytes())),
            Value::Array(items) => items.iter().any(|v| bytes(v) == Some(wanted.as_bytes())),
            _ => false,
        };
        let mut all = told.iter().zip(settings);
        Ok(told.len() == settings.len() && all.all(|(value, (_, wanted))| says(value, wanted)))
    }

    fn health_from(&self, told: &Value) -> Option<Health> {
        let [state, left, seen, micros, words, rest] = items(told)? else {
            return None;
        };
        let until = self.clock.now() + Duration::from_millis(number(left)?);
        let (seen, micros) = (number(seen)?, number(micros)?);
        let words = String::from_utf8_lossy(bytes(words)?).into_owned();
        let rest = bytes(rest)?.to_vec();
        let resting = Resting { rest, seen, micros };
        Some(match number(state)? {
            1 => Health::Counts { seen },
            2 => Health::Abstains { until, resting },
            3 => Health::Rested(resting),
            4 => Health::Foreign { set: words },
            5 => Health::Evicts { policy: words },
            _ => return None,
        })
    }

    /// Lets a node vote, from this number on, if it has rested and has not lost its data again since.
    pub(super) async fn seed(
        &self,
        seen: u64,
        resting: &Resting,
        how: Rest,
    ) -> Result<(), Trouble> {
        let seed = seen.to_string();
        let cut_short: &[u8] = if how == Rest::CutShort { b"1" } else { b"0" };
        let digest = &self.greeting.digest;
        let args: [&[u8]; 4] = [digest, seed.as_bytes(), &resting.rest, cut_short];
        let told = self
            .link
            .call(&SCRIPTS.seed, &[&self.greeting.key], &args)
            .await?;
        if number(&told) == Some(1) {
            *self.health_now() = Health::Counts { seen };
        }
        Ok(())
    }

    /// Takes in why the node could not be greeted.
    pub(super) fn is_silent(&self, why: &Trouble) {
        *self.health_now() = Health::Silent(why.clone());
    }

    /// Takes in that an answer contradicts what the node said when it was greeted: its marker is gone, or
    /// it has begun to rest. Says whether it must be greeted again.
    pub(super) fn notice(&self, said: &Said) -> bool {
        let rests = said.vote == Vote::Abstains && matches!(self.health(), Health::Counts { .. });
        let news = said.stranger || rests;
        if news {
            self.connection.greeted.store(0, Ordering::SeqCst);
        }
        news
    }

    /// The node and what is wrong with it, for people; nothing if it votes.
    pub(super) fn complaint(&self) -> Option<Complaint> {
        let refusal = self.refusal().clone();
        let (why, verdict) = match (self.health(), refusal) {
            (Health::Silent(trouble), _) => (trouble.to_string(), trouble.verdict()),
            (Health::Foreign { set }, _) => (format!("belongs to another set, {set}"), Verdict::Refused),
            (Health::Evicts { policy }, _) => (
                format!(
                    "has no vote, since it drops locks when its memory is full; set maxmemory-policy to \
                     noeviction (it is {policy})"
                ),
                Verdict::Refused,
            ),
            (Health::Counts { .. }, Some(trouble)) => (trouble.to_string(), trouble.verdict()),
            (Health::Counts { .. }, None) if self.is_greeted() => return None,
            (Health::Counts { .. }, None) => ("is not connected".to_owned(), Verdict::Unknown),
            (Health::Abstains { until, .. }, _) => (
                format!(
                    "abstains for another {:.1?}, since it was emptied or restarted and may have forgotten locks",
                    until - self.clock.now()
                ),
                Verdict::Unknown,
            ),
            (Health::Rested(_), _) => (
                "is empty and waits for a majority that tells it the last token, or for all nodes to answer \
                 and begin anew"
                    .to_owned(),
                Verdict::Unknown,
            ),
        };
        let text = format!("{} {why}", self.link.node());
        Some(Complaint { text, verdict })
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Member({:?}, {:?})", self.link, self.health())
    }
}

/// What is wrong with a node.
#[derive(Debug)]
pub(super) struct Complaint {
    pub(super) text: String,
    pub(super) verdict: Verdict,
}

/// What a node's trouble means for whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Denied,
    Refused,
    Invalid,
    /// It may be over the next moment.
    Unknown,
}

/// Why a node did not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum Trouble {
    #[error("is not connected")]
    NotGreeted,
    #[error("had lost its scripts and was told them again")]
    LackedScripts,
    #[error("gave an answer that makes no sense; is it Redis 7?")]
    Nonsense,
    #[error("did not answer in time")]
    Late,
    #[error("said {0}")]
    Redis(#[from] RedisError),
}

impl Trouble {
    fn verdict(&self) -> Verdict {
        let Self::Redis(error) = self else {
            return Verdict::Unknown;
        };
        match answer::meaning(error.clone(), "") {
            Error::Denied { .. } => Verdict::Denied,
            Error::Refused { .. } => Verdict::Refused,
            Error::Invalid { .. } => Verdict::Invalid,
            _ => Verdict::Unknown,
        }
    }
}
