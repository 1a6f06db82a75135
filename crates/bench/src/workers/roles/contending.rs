//! Workers that take a lock and give it back, whatever kind of lock it is.

use std::time::{Duration, Instant};

use super::NAME;
use super::words::{Word, Words, say};
use crate::Result;
use crate::contenders::{Client, Contender, Role};
use crate::machine::nanos;

/// Pause before lining up again, so that whoever waits is let in also where nobody sees to it.
const PAUSE: Duration = Duration::from_millis(2);
/// How long a turn of `go` lasts: somebody works under the lock while the next one waits.
const WORK: Duration = Duration::from_millis(20);

/// `go TASKS MILLIS`: each of so many tasks takes a name of its own for so long. Tells the nanoseconds
/// that all took, then of each cycle.
pub(super) struct Cycles(pub(super) Words);

impl Role for Cycles {
    async fn play(mut self, client: impl Client) -> Result<()> {
        let mut contenders = Vec::new();
        while let Some(word) = self.0.next().await {
            let (tasks, length) = (word.number(1)? as usize, word.number(2)?);
            let length = Duration::from_millis(length);
            while contenders.len() < tasks {
                let name = format!("own-{}", contenders.len());
                contenders.push(client.contender(&name).await?);
            }
            let start = Instant::now();
            // In tasks of their own: a future that block_on polls itself is treated differently by
            // tokio.
            let run = |contender| tokio::spawn(cycle(contender, start + length));
            let running: Vec<_> = contenders.drain(..).map(run).collect();
            let mut each = Vec::new();
            for task in running {
                let (contender, nanos) = task.await??;
                contenders.push(contender);
                each.extend(nanos);
            }
            let took = start.elapsed().as_nanos() as u64;
            say(&[&[took], &each[..]].concat())?;
        }
        Ok(())
    }
}

async fn cycle<C: Contender>(mut contender: C, end: Instant) -> Result<(C, Vec<u64>)> {
    let mut each = Vec::new();
    loop {
        let start = Instant::now();
        contender.acquire().await?;
        contender.release().await?;
        let now = Instant::now();
        each.push((now - start).as_nanos() as u64);
        if now >= end {
            return Ok((contender, each));
        }
    }
}

/// `go N`: N turns of 20 ms, one line each. `run BEGIN END WORK_US`: as many turns as fit, all in one
/// line.
pub(super) struct Relay(pub(super) Words);

impl Role for Relay {
    async fn play(mut self, client: impl Client) -> Result<()> {
        let mut contender = client.contender(NAME).await?;
        while let Some(word) = self.0.next().await {
            if word.is("run") {
                say(&run(&mut contender, &word).await?)?;
                continue;
            }
            for _ in 0..word.number(1)? {
                say(&turn(&mut contender, WORK).await?)?;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}

async fn run(contender: &mut impl Contender, word: &Word) -> Result<Vec<u64>> {
    let (begin, end) = (word.number(1)?, word.number(2)?);
    let work = Duration::from_micros(word.number(3)?);
    tokio::time::sleep(Duration::from_nanos(begin.saturating_sub(nanos()))).await;
    let mut turns = Vec::new();
    while nanos() < end {
        turns.extend(turn(contender, work).await?);
        if !work.is_zero() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(turns)
}

/// When it asked, when it had it, when it let go.
async fn turn(contender: &mut impl Contender, work: Duration) -> Result<[u64; 3]> {
    let asked = nanos();
    contender.acquire().await?;
    let acquired = nanos();
    if !work.is_zero() {
        tokio::time::sleep(work).await;
    }
    let released = nanos();
    contender.release().await?;
    Ok([asked, acquired, released])
}
