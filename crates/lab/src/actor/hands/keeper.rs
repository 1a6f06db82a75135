//! lockkeeper itself: keepers and the guards that they gave.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::{ClaimMark, Error, Guard, Keeper, Owner, Pass, Token};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::Result;
use crate::actor::deeds::{Answer, Ask, Said, Shown};
use crate::actor::player::say;
use crate::history::{monotonic, nanos};

/// How often a guard is looked at for a renewal; only the pictures depend on it.
const LOOK: Duration = Duration::from_millis(20);
/// Longer than this is a renewal, shorter is the scheduler.
const RENEWED_BY: u64 = 30_000_000;

/// The keepers by URL, and the guards by name, the last one last.
pub(super) struct Keepers {
    label: String,
    keepers: HashMap<String, Keeper>,
    held: Vec<Held>,
}

struct Held {
    name: String,
    owner: Owner,
    guard: Arc<Guard>,
    watcher: JoinHandle<()>,
}

impl Keepers {
    pub(super) fn new(label: &str) -> Keepers {
        Keepers {
            label: label.to_owned(),
            keepers: HashMap::new(),
            held: Vec::new(),
        }
    }

    async fn on(&mut self, ask: &Ask) -> std::result::Result<Keeper, Error> {
        let key = format!("{} {:?}", ask.url, ask.tokens);
        if let Some(open) = self.keepers.get(&key) {
            return Ok(open.clone());
        }
        let mut builder = Keeper::builder().label(&self.label);
        if let Some(url) = &ask.tokens {
            builder = builder.tokens(Keeper::connect(url).await?);
        }
        let fresh = builder.connect(&ask.url).await?;
        self.keepers.insert(key, fresh.clone());
        Ok(fresh)
    }

    pub(super) async fn acquire(&mut self, ask: Ask) -> Result<Answer> {
        let granted = self.ask_for(&ask).await;
        let (guard, owner) = match granted {
            Ok(Some(granted)) => granted,
            Ok(None) => return Ok(Answer::Nothing),
            Err(error) => return Ok(not_granted(error)),
        };
        let (token, until) = (guard.token().get(), believed_until(&guard));
        let guard = Arc::new(guard);
        let watcher = tokio::spawn(watch(Arc::clone(&guard), ask.name.clone(), until));
        self.held.push(Held {
            name: ask.name,
            owner,
            guard,
            watcher,
        });
        Ok(Answer::Granted { token, until })
    }

    async fn ask_for(&mut self, ask: &Ask) -> std::result::Result<Option<(Guard, Owner)>, Error> {
        let keeper = self.on(ask).await?;
        let holds = self.held.iter().rev().find(|held| held.name == ask.name);
        let owner = match holds {
            Some(held) if ask.again => held.owner.clone(),
            _ => keeper.owner(),
        };
        let lease = Duration::from_millis(ask.lease_ms);
        let mut lock = keeper.lock(&ask.name).lease(lease).owner(&owner);
        if ask.fixed {
            lock = lock.fixed();
        }
        if let Some(delay) = ask.lock_delay_ms {
            lock = lock.lock_delay(Duration::from_millis(delay));
        }
        let guard = if ask.within_ms == 0 {
            lock.try_acquire().await?
        } else {
            let within = Duration::from_millis(ask.within_ms);
            Some(lock.acquire_within(within).await?)
        };
        Ok(guard.map(|guard| (guard, owner)))
    }

    pub(super) async fn release(&mut self, name: &str) -> Result<Answer> {
        let place = self.held.iter().rposition(|held| held.name == name);
        let held = self
            .held
            .remove(place.ok_or("nothing is held under this name")?);
        held.watcher.abort();
        // The watcher's share of the guard is gone once it has ended.
        let _cancelled = held.watcher.await;
        let guard = Arc::into_inner(held.guard).ok_or("the guard is still watched")?;
        Ok(match guard.release().await {
            Ok(()) => Answer::Text("released".to_owned()),
            Err(error) => not_granted(error),
        })
    }

    pub(super) fn check(&self, name: &str) -> Result<Answer> {
        Ok(match self.guard(name)?.check() {
            Ok(()) => Answer::Text("held".to_owned()),
            Err(error) => Answer::Lost(error.to_string()),
        })
    }

    /// What the fence is shown. That the lock is lost by now does not matter here: the fence must tell.
    pub(super) fn pass(&self, shown: &Shown) -> Result<Pass> {
        Ok(match shown {
            Shown::OfGuard(name) => self.guard(name)?.pass()?,
            Shown::Number(number) => Pass::new(Token::try_from(*number)?, ClaimMark::BY_TOKEN),
        })
    }

    fn guard(&self, name: &str) -> Result<&Guard> {
        let held = self.held.iter().rev().find(|held| held.name == name);
        Ok(&held.ok_or("nothing was acquired under this name")?.guard)
    }
}

fn believed_until(guard: &Guard) -> u64 {
    monotonic() + nanos(guard.remaining())
}

/// Tells of renewals, and of the loss.
async fn watch(guard: Arc<Guard>, lock: String, mut until: u64) {
    loop {
        tokio::select! {
            biased;
            why = guard.lost() => {
                let why = why.to_string();
                let _nobody_listens = say(&Said::Lost { at: monotonic(), lock, why });
                return;
            }
            () = sleep(LOOK) => {}
        }
        let now_until = believed_until(&guard);
        if now_until > until + RENEWED_BY {
            until = now_until;
            let lock = lock.clone();
            let _nobody_listens = say(&Said::Renewed {
                at: monotonic(),
                lock,
                until,
            });
        }
    }
}

fn not_granted(error: Error) -> Answer {
    match error {
        Error::Timeout { .. } => Answer::Nothing,
        Error::Lost { .. } => Answer::Lost(error.to_string()),
        Error::Unreachable { .. } => Answer::Unknown(error.to_string()),
        other => Answer::Failed(other.to_string()),
    }
}
