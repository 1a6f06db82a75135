//! Workers that are lockkeeper and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::backend::Query;
use lockkeeper::{Guard, HoldState, Keeper};

use super::NAME;
use super::words::{Words, say};
use crate::machine::nanos;
use crate::{Result, cpu};

/// `take`: holds. `pass`: lets go, lines up again, holds. `count`: how many wait. `leave`: lets go.
pub(super) async fn warden(url: &str, mut words: Words) -> Result<()> {
    let keeper = Keeper::connect(url).await?;
    let mut held: Option<Guard> = None;
    let mut asked = nanos();
    let mut acquired = asked;
    while let Some(word) = words.next().await {
        if word.is("count") {
            let views = keeper.inspect(&Query::All).await?;
            say(&[views.iter().map(|view| view.waiters.len() as u64).sum()])?;
            continue;
        }
        let released = nanos();
        if let Some(guard) = held.take() {
            guard.release().await?;
        }
        let turn = [asked, acquired, released];
        if !word.is("leave") {
            asked = nanos();
            held = Some(keeper.lock(NAME).acquire().await?);
            acquired = nanos();
        }
        say(&turn)?;
    }
    Ok(())
}

/// `go BEGIN END`: takes the lock as often as it can, and tells all tokens.
pub(super) async fn burst(url: &str, mut words: Words) -> Result<()> {
    let keeper = Keeper::connect(url).await?;
    while let Some(word) = words.next().await {
        let (begin, end) = (word.number(1)?, word.number(2)?);
        tokio::time::sleep(Duration::from_nanos(begin.saturating_sub(nanos()))).await;
        let mut tokens = Vec::new();
        while nanos() < end {
            let guard = keeper.lock(NAME).acquire().await?;
            // A grant after the end belongs to the drain, not to the round.
            if nanos() < end {
                tokens.push(guard.token().get());
            }
            guard.release().await?;
        }
        say(&tokens)?;
    }
    Ok(())
}

/// `go N`: N keepers, each with its own connection, take the one name again and again. `count`: how
/// many turns there were so far. `stop`: no more turns; tells when all have ended.
pub(super) async fn crowd(url: &str, mut words: Words) -> Result<()> {
    let turns = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(word) = words.next().await {
        if word.is("go") {
            for _ in 0..word.number(1)? {
                let keeper = Keeper::connect(url).await?;
                tasks.spawn(take_turns(keeper, turns.clone(), stop.clone()));
            }
        }
        if word.is("stop") {
            stop.store(true, Ordering::Relaxed);
            while let Some(ended) = tasks.join_next().await {
                ended??;
            }
        }
        say(&[turns.load(Ordering::Relaxed)])?;
    }
    Ok(())
}

async fn take_turns(keeper: Keeper, turns: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let guard = keeper.lock(NAME).acquire().await?;
        turns.fetch_add(1, Ordering::Relaxed);
        guard.release().await?;
    }
    Ok(())
}

/// `hold N LEASE_MS`: takes N locks and keeps them; tells the memory before and after, in bytes.
/// `check`: how many it holds, how many the engine lists, the memory.
pub(super) async fn leases(url: &str, mut words: Words) -> Result<()> {
    let keeper = Keeper::connect(url).await?;
    // What the first lock costs is not the price of a lease.
    keeper.lock("first").acquire().await?.release().await?;
    let mut guards: Vec<Guard> = Vec::new();
    while let Some(word) = words.next().await {
        if !word.is("check") {
            let before = cpu::resident()?;
            let lease = Duration::from_millis(word.number(2)?);
            let mut since = Instant::now();
            for place in 0..word.number(1)? {
                let lock = keeper.lock(format!("lease/{place}")).lease(lease);
                guards.push(lock.acquire().await?);
                // Renewals of those that are held already must have their turn.
                if since.elapsed() > Duration::from_millis(5) {
                    tokio::task::yield_now().await;
                    since = Instant::now();
                }
            }
            say(&[before, cpu::resident()?])?;
            continue;
        }
        let resident = cpu::resident()?;
        let held = guards
            .iter()
            .filter(|guard| guard.state() == HoldState::Held);
        let held = held.count() as u64;
        let views = keeper.inspect(&Query::All).await?;
        let listed: usize = views.iter().map(|view| view.holders.len()).sum();
        say(&[held, listed as u64, resident])?;
    }
    // The process ends here; ten thousand releases would only take time.
    std::process::exit(0)
}
