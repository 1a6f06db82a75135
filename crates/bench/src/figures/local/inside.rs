//! What stays inside one process: re-entry, and handing on among its tasks against handing on among
//! processes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use lockkeeper::Keeper;
use serde_json::json;

use super::runtime;
use crate::Result;
use crate::contenders::OURS;
use crate::machine::{nanos, nanos_after};
use crate::place::Place;
use crate::report::{Figure, Target};
use crate::statistics::{median, median_ratio};
use crate::workers::Worker;

const REENTRY_ROUNDS: usize = 31;
const REENTRIES: u32 = 20_000;
const CONTENDERS: usize = 64;
const ROUNDS: usize = 5;
const TASKS_FOR: Duration = Duration::from_millis(500);
const PROCESSES_FOR: Duration = Duration::from_millis(1500);
/// All processes begin together this long after they were told.
const LEAD: Duration = Duration::from_millis(50);

pub(crate) fn measure(place: &Place) -> Result<Vec<Figure>> {
    Ok(vec![reentry(place)?, crowd(place)?])
}

fn reentry(place: &Place) -> Result<Figure> {
    let url = place.url("reentry")?;
    let nanos: Vec<f64> = runtime()?.block_on(async move {
        let keeper = Keeper::connect(&url).await?;
        tokio::spawn(reenter(keeper)).await?
    })?;
    let each = median(&nanos);
    Ok(Figure {
        what: "re-entry: acquire + release".into(),
        limit: "-".into(),
        ours: format!("{each:.0} ns"),
        value: each / 1e3,
        unit: "us",
        target: Target::Below(1.0),
        detail: json!({ "rounds": REENTRY_ROUNDS, "per_round": REENTRIES, "ns": nanos }),
    })
}

async fn reenter(keeper: Keeper) -> Result<Vec<f64>> {
    let owner = keeper.owner();
    let outer = keeper.lock("reentry").owner(&owner).acquire().await?;
    let mut rounds = Vec::new();
    for _ in 0..REENTRY_ROUNDS {
        let start = Instant::now();
        for _ in 0..REENTRIES {
            let inner = keeper.lock("reentry").owner(&owner).acquire().await?;
            inner.release().await?;
        }
        rounds.push(start.elapsed().as_nanos() as f64 / f64::from(REENTRIES));
    }
    outer.release().await?;
    Ok(rounds)
}

fn crowd(place: &Place) -> Result<Figure> {
    let (tasks_url, processes_url) = (place.url("tasks")?, place.url("processes")?);
    let start = |_| Worker::start("burst", OURS, &processes_url);
    let mut workers: Vec<Worker> = (0..CONTENDERS).map(start).collect::<Result<_>>()?;
    let runtime = runtime()?;
    let keeper = runtime.block_on(Keeper::connect(&tasks_url))?;
    let (mut tasks, mut processes) = (Vec::new(), Vec::new());
    // The first round opens everything and is thrown away.
    for round in 0..=ROUNDS {
        let by_processes = process_round(&mut workers)?;
        let by_tasks = runtime.block_on(task_round(&keeper))?;
        if round > 0 {
            processes.push(by_processes);
            tasks.push(by_tasks);
        }
    }
    for worker in workers {
        worker.end()?;
    }
    Ok(Figure {
        what: format!("{CONTENDERS} tasks of a process on one name"),
        limit: format!("{CONTENDERS} processes {:.0}/s", median(&processes)),
        ours: format!("{:.0} hand-overs/s", median(&tasks)),
        value: median_ratio(&tasks, &processes),
        unit: "x",
        target: Target::AtLeast(20.0),
        detail: json!({
            "rounds": ROUNDS, "tasks_per_s": tasks, "processes_per_s": processes,
        }),
    })
}

/// Hand-overs per second among the tasks of this process: grants to another task than the one before.
async fn task_round(keeper: &Keeper) -> Result<f64> {
    let changes = Arc::new(AtomicU64::new(0));
    let last = Arc::new(AtomicUsize::new(usize::MAX));
    let start = Instant::now();
    let contend = |me: usize| {
        let (keeper, changes, last) = (keeper.clone(), changes.clone(), last.clone());
        tokio::spawn(async move {
            while start.elapsed() < TASKS_FOR {
                let guard = keeper.lock("inside").acquire().await?;
                if last.swap(me, Ordering::Relaxed) != me {
                    changes.fetch_add(1, Ordering::Relaxed);
                }
                // Others must get to ask while this one holds: on one thread nobody else runs.
                tokio::task::yield_now().await;
                guard.release().await?;
            }
            Ok::<_, lockkeeper::Error>(())
        })
    };
    let tasks: Vec<_> = (0..CONTENDERS).map(contend).collect();
    for task in tasks {
        task.await??;
    }
    Ok(changes.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

/// Hand-overs per second among processes: the grants in the order of their tokens, counted where the
/// process changes.
fn process_round(workers: &mut [Worker]) -> Result<f64> {
    let begin = nanos_after(LEAD);
    let end = begin + PROCESSES_FOR.as_nanos() as u64;
    for worker in workers.iter_mut() {
        worker.tell(&format!("go {begin} {end}"))?;
    }
    let mut grants = BTreeMap::new();
    for (me, worker) in workers.iter_mut().enumerate() {
        for token in worker.hear_all()? {
            if grants.insert(token, me).is_some() {
                return Err(format!("token {token} was handed out twice").into());
            }
        }
    }
    let took = Duration::from_nanos(nanos().min(end) - begin);
    let holders: Vec<usize> = grants.into_values().collect();
    let changes = holders.windows(2).filter(|two| two[0] != two[1]).count();
    Ok(changes as f64 / took.as_secs_f64())
}
