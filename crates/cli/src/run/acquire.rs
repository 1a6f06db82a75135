//! Getting the lock: at once, within a time or without limit, and saying whom we wait for.

use std::future::{Future, pending};
use std::io::IsTerminal;
use std::pin::pin;
use std::time::Duration;

use lockkeeper::backend::ClaimView;
use lockkeeper::{Error, Guard, Keeper, Lock, Name, Token};
use rustix::process::Signal;

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::signals::{Arrived, Signals};
use crate::{show, span};

/// Most waits are shorter than this; they pass without a word.
const QUIET: Duration = Duration::from_millis(300);
/// How often a waiting terminal looks who holds now.
const LOOK: Duration = Duration::from_secs(2);

/// Why there is no lock.
pub(super) enum NotObtained {
    Failed(Failure),
    /// A signal told us to end.
    Ended(Arrived),
}

impl From<Failure> for NotObtained {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

pub(super) async fn acquire(
    keeper: &Keeper,
    options: &RunArgs,
    signals: &mut Signals,
) -> Result<Guard, NotObtained> {
    let lock = lock(keeper, options)
        .lease(options.lease)
        .lock_delay(options.lock_delay.unwrap_or_default());
    if options.try_once {
        return match unless_ended(signals, lock.try_acquire()).await? {
            Some(guard) => Ok(guard),
            None => Err(busy(keeper, &options.name).await.into()),
        };
    }
    let acquiring = async {
        match options.wait {
            Some(limit) => lock.acquire_within(limit).await,
            None => lock.acquire().await,
        }
    };
    let mut acquiring = pin!(unless_ended(signals, acquiring));
    tokio::select! {
        biased;
        result = &mut acquiring => result,
        never = say_whom_we_wait_for(keeper, &options.name) => match never {},
    }
}

fn lock(keeper: &Keeper, options: &RunArgs) -> Lock {
    match (options.shared, options.permits, options.of) {
        (true, ..) => keeper.rw_lock(options.name.as_str()).read(),
        (_, Some(take), Some(of)) => keeper.semaphore(options.name.as_str(), of).permits(take),
        _ => keeper.lock(options.name.as_str()),
    }
}

/// The result, unless a signal that would end us comes first; then the question is taken back.
pub(super) async fn unless_ended<T>(
    signals: &mut Signals,
    question: impl Future<Output = Result<T, Error>>,
) -> Result<T, NotObtained> {
    let mut question = pin!(question);
    loop {
        let arrived = tokio::select! {
            biased;
            answer = &mut question => return answer.map_err(|error| NotObtained::Failed(error.into())),
            arrived = signals.next() => arrived,
        };
        let arrived = arrived.map_err(|error| NotObtained::Failed(super::cannot_start(error)))?;
        match arrived.signal {
            Signal::CONT | Signal::CHILD => {}
            // Stopped like any other process; our place in the line lasts as long as the lease.
            Signal::TSTP => super::supervise::stop(),
            _ => return Err(NotObtained::Ended(arrived)),
        }
    }
}

async fn busy(keeper: &Keeper, name: &Name) -> Failure {
    let holder = holder(keeper, name).await;
    let who = holder.map_or("somebody else holds it".into(), |claim| {
        format!(
            "{} has held it for {}",
            claim.party,
            span::show(claim.since)
        )
    });
    Failure::new(exit::BUSY, format!("{name:?} is busy: {who}"))
}

/// Who holds the name; `None` also when the engine does not say, which is no reason to fail.
async fn holder(keeper: &Keeper, name: &Name) -> Option<ClaimView> {
    show::one(keeper, name)
        .await
        .ok()?
        .holders
        .into_iter()
        .next()
}

/// On a terminal, tells people whom we wait for, and again when that changes.
async fn say_whom_we_wait_for(keeper: &Keeper, name: &Name) -> std::convert::Infallible {
    if !std::io::stderr().is_terminal() {
        return pending().await;
    }
    tokio::time::sleep(QUIET).await;
    let mut told: Option<Token> = None;
    loop {
        if let Some(claim) = holder(keeper, name).await
            && told != Some(claim.token)
        {
            told = Some(claim.token);
            let (party, since) = (&claim.party, span::show(claim.since));
            exit::say(&format!(
                "waiting for {name:?}: {party} has held it for {since}"
            ));
            if std::env::var("LOCKKEEPER_TOKEN") == Ok(claim.token.to_string()) {
                exit::say("that holder seems to run this very command: it would wait for itself");
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
