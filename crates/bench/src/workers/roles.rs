//! What a worker does. It has a runtime of one thread, and its words come in on another: a lock that
//! it holds must be kept alive while it waits for a word.

use std::fs::File;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use lockkeeper::backend::Query;
use lockkeeper::{Guard, HoldState, Keeper};
use rustix::fs::{FlockOperation, flock};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::machine::nanos;
use crate::{Result, cpu};

/// How long a turn lasts: somebody works under the lock while the next one waits.
const WORK: Duration = Duration::from_millis(20);
/// Pause before lining up again, so that whoever waits is let in also where nobody sees to it.
const PAUSE: Duration = Duration::from_millis(2);
/// The name that all contend for.
const NAME: &str = "contended";

pub(super) fn play(role: &str, argument: &str) -> Result<()> {
    if role == "flock" {
        return relay_by_flock(argument);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let words = words();
        match role {
            "relay" => relay(argument, words).await,
            "warden" => warden(argument, words).await,
            "burst" => burst(argument, words).await,
            "leases" => leases(argument, words).await,
            other => Err(format!("{other:?} is no role").into()),
        }
    })
}

/// The words that come in, until there are no more.
struct Words(UnboundedReceiver<String>);

impl Words {
    async fn next(&mut self) -> Option<Vec<String>> {
        let line = self.0.recv().await.filter(|line| line != "end")?;
        Some(line.split_whitespace().map(str::to_owned).collect())
    }
}

fn words() -> Words {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines();
        lines.map_while(std::result::Result::ok).for_each(|line| {
            let _ending = sender.send(line);
        });
    });
    Words(receiver)
}

fn number(words: &[String], place: usize) -> Result<u64> {
    let word = words.get(place).ok_or("a number is missing")?;
    Ok(word.parse()?)
}

fn say(numbers: &[u64]) -> Result<()> {
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    let line = words.join(" ") + "\n";
    Ok(std::io::stdout().lock().write_all(line.as_bytes())?)
}

/// `go N`: N turns, one line each.
async fn relay(url: &str, mut words: Words) -> Result<()> {
    let keeper = Keeper::connect(url).await?;
    while let Some(word) = words.next().await {
        for _ in 0..number(&word, 1)? {
            let asked = nanos();
            let guard = keeper.lock(NAME).acquire().await?;
            let acquired = nanos();
            tokio::time::sleep(WORK).await;
            let released = nanos();
            guard.release().await?;
            say(&[asked, acquired, released])?;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// The same turns with a bare file lock.
fn relay_by_flock(path: &str) -> Result<()> {
    let file = File::create(path)?;
    for line in std::io::stdin().lock().lines() {
        let words: Vec<String> = line?.split_whitespace().map(str::to_owned).collect();
        if words == ["end"] {
            break;
        }
        for _ in 0..number(&words, 1)? {
            let asked = nanos();
            flock(&file, FlockOperation::LockExclusive)?;
            let acquired = nanos();
            std::thread::sleep(WORK);
            let released = nanos();
            flock(&file, FlockOperation::Unlock)?;
            say(&[asked, acquired, released])?;
            std::thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// `take`: holds. `pass`: lets go, lines up again, holds. `count`: how many wait.
async fn warden(url: &str, mut words: Words) -> Result<()> {
    let keeper = Keeper::connect(url).await?;
    let mut held: Option<Guard> = None;
    let mut asked = nanos();
    let mut acquired = asked;
    while let Some(word) = words.next().await {
        if word == ["count"] {
            let views = keeper.inspect(&Query::All).await?;
            say(&[views.iter().map(|view| view.waiters.len() as u64).sum()])?;
            continue;
        }
        let released = nanos();
        if let Some(guard) = held.take() {
            guard.release().await?;
        }
        let turn = [asked, acquired, released];
        asked = nanos();
        held = Some(keeper.lock(NAME).acquire().await?);
        acquired = nanos();
        say(&turn)?;
    }
    Ok(())
}

/// `go BEGIN END`: takes the lock as often as it can, and tells all tokens.
async fn burst(url: &str, mut words: Words) -> Result<()> {
    let keeper = Keeper::connect(url).await?;
    while let Some(word) = words.next().await {
        let (begin, end) = (number(&word, 1)?, number(&word, 2)?);
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

/// `hold N LEASE_MS`: takes N locks and keeps them; tells the memory before and after, in bytes.
/// `check`: how many it holds, how many the engine lists, the memory.
async fn leases(url: &str, mut words: Words) -> Result<()> {
    let keeper = Keeper::connect(url).await?;
    // What the first lock costs is not the price of a lease.
    keeper.lock("first").acquire().await?.release().await?;
    let mut guards: Vec<Guard> = Vec::new();
    while let Some(word) = words.next().await {
        if word != ["check"] {
            let before = cpu::resident()?;
            let lease = Duration::from_millis(number(&word, 2)?);
            let mut since = Instant::now();
            for place in 0..number(&word, 1)? {
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
