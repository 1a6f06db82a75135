//! The stage of the torture: processes full of writers that are killed at random, and a reader that looks on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lockkeeper_testbed::Actor;
use tempfile::TempDir;

use crate::history::{Harm, History, RECORD, Sample, Verdict, Violation, writes_in};
use crate::on::Store;
use crate::writer::{Dice, WRITERS, Way, now};

const PROCESSES: u64 = 4;
pub(crate) const PER_PROCESS: u64 = WRITERS / PROCESSES;

/// Unless `LOCKKEEPER_FENCE_WRITES` asks for more, a run ends after so many writes, or after so long if
/// there were some at least.
const WRITES: u64 = 3_000;
const SHORT: Duration = Duration::from_secs(4);
const SOME: u64 = 400;
/// So many writes between two kills, so that a slow machine gets somewhere too.
const BETWEEN_KILLS: u64 = 60;
/// Slower than this is broken even on a loaded machine.
const STUCK: Duration = Duration::from_secs(120);

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap()
}

/// How much is enough.
pub(crate) struct Size {
    writes: u64,
    at_most: Duration,
}

impl Size {
    pub(crate) fn asked_for() -> Self {
        match std::env::var("LOCKKEEPER_FENCE_WRITES") {
            Ok(writes) => Self {
                writes: writes.parse().expect("LOCKKEEPER_FENCE_WRITES is a number"),
                at_most: Duration::from_secs(3600),
            },
            Err(_) => Self {
                writes: WRITES,
                at_most: SHORT,
            },
        }
    }

    /// As much as one look for the planted bug takes.
    fn small() -> Self {
        Self {
            writes: u64::MAX,
            at_most: Duration::from_millis(1500),
        }
    }

    fn is_reached(&self, writes: u64, took: Duration) -> bool {
        assert!(
            took < STUCK || writes >= SOME,
            "{writes} writes in {took:?}: it is stuck"
        );
        writes >= self.writes || (took >= self.at_most && writes >= SOME)
    }
}

pub(crate) struct Stage {
    kind: &'static str,
    target: String,
    way: Way,
    logs: TempDir,
    start: u64,
    seed: u64,
    lives: u64,
    kills: u64,
}

impl Stage {
    pub(crate) fn new(kind: &'static str, target: &str, way: Way) -> Self {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).unwrap();
        Self {
            kind,
            target: target.to_owned(),
            way,
            logs: tempfile::tempdir().unwrap(),
            start: now(),
            seed: u64::from_ne_bytes(seed) >> 1,
            lives: 0,
            kills: 0,
        }
    }

    fn writers(&mut self, process: u64) -> Actor {
        self.lives += 1;
        let text = |number: u64| number.to_string();
        let way = if self.way == Way::Fenced {
            "fenced"
        } else {
            "two-steps"
        };
        Actor::play(&[
            ("LOCKKEEPER_FENCE_ROLE", self.kind),
            ("LOCKKEEPER_FENCE_TARGET", &self.target),
            ("LOCKKEEPER_FENCE_WAY", way),
            (
                "LOCKKEEPER_FENCE_DIRECTORY",
                &self.logs.path().display().to_string(),
            ),
            ("LOCKKEEPER_FENCE_PROCESS", &text(process)),
            ("LOCKKEEPER_FENCE_START", &text(self.start)),
            (
                "LOCKKEEPER_FENCE_SEED",
                &text(self.seed.wrapping_add(self.lives)),
            ),
        ])
    }

    fn records(&self) -> u64 {
        let length = |entry: fs::DirEntry| entry.metadata().unwrap().len();
        let logs = fs::read_dir(self.logs.path()).unwrap();
        logs.map(|entry| length(entry.unwrap())).sum::<u64>() / RECORD as u64
    }

    /// Lets the writers write, and kills some.
    fn run<S: Store>(&mut self, size: &Size, mut also_kill: impl FnMut()) -> Vec<Sample> {
        let mut dice = Dice::new(self.seed);
        let (begin, before, runtime) = (Instant::now(), self.records(), runtime());
        let mut reader = runtime
            .block_on(S::open(&self.target))
            .expect("the store is there");
        let mut processes: Vec<Actor> = (0..PROCESSES)
            .map(|process| self.writers(process))
            .collect();
        let mut samples = Vec::new();
        let mut next_kill = BETWEEN_KILLS;
        loop {
            let writes = (self.records() - before) / 2;
            if size.is_reached(writes, begin.elapsed()) {
                break;
            }
            runtime.block_on(async {
                samples.extend(look(&mut reader).await);
                tokio::time::sleep(Duration::from_millis(3)).await;
            });
            if writes >= next_kill {
                let victim = dice.below(PROCESSES);
                drop(std::mem::replace(
                    &mut processes[victim as usize],
                    self.writers(victim),
                ));
                self.kills += 1;
                also_kill();
                next_kill = writes + BETWEEN_KILLS + dice.below(10 * BETWEEN_KILLS);
            }
        }
        drop(processes);
        // Whatever the killed had sent is through after this.
        std::thread::sleep(Duration::from_millis(100));
        runtime.block_on(async {
            for _ in 0..3 {
                samples.extend(look(&mut reader).await);
            }
        });
        samples
    }

    /// The fence must hold.
    pub(crate) fn holds<S: Store>(mut self, also_kill: impl FnMut()) {
        let size = Size::asked_for();
        let begin = Instant::now();
        let samples = self.run::<S>(&size, also_kill);
        let history = self.history(samples);
        let count = |wanted: fn(&Verdict) -> bool| {
            history
                .writes
                .iter()
                .filter(|write| wanted(&write.verdict))
                .count()
        };
        let accepted = count(|verdict| *verdict == Verdict::Accepted);
        let refused = count(|verdict| matches!(verdict, Verdict::Refused(_)));
        println!(
            "{}: {} writes in {:.1} s: {accepted} accepted, {refused} refused, {} unknown, {} kills, {} \
             looks, seed {}",
            self.kind,
            history.writes.len(),
            begin.elapsed().as_secs_f64(),
            history.writes.len() - accepted - refused,
            self.kills,
            history.samples.len(),
            self.seed,
        );
        assert!(
            accepted >= 20 && refused >= 20,
            "too little happened to say anything"
        );
        let violations = history.violations();
        assert!(
            violations.is_empty(),
            "{} violations, first {}",
            violations.len(),
            violations[0].1
        );
    }

    /// The same with the comparison and the write in two steps: the harm must be seen.
    pub(crate) fn breaks<S: Store>(mut self) {
        let mut samples = Vec::new();
        for round in 1..=12 {
            samples.extend(self.run::<S>(&Size::small(), || {}));
            let violations = self.history(samples.clone()).violations();
            let grave = |found: &&Violation| !matches!(found.0, Harm::WronglyRefused);
            if let Some(first) = violations.iter().find(grave) {
                println!(
                    "{}: two steps: {} violations in round {round}: {first:?}",
                    self.kind,
                    violations.len()
                );
                return;
            }
        }
        panic!("compare and write in two steps, and no harm was seen: this test can prove nothing");
    }

    fn history(&self, samples: Vec<Sample>) -> History {
        let writes = writes_in(self.logs.path());
        History { writes, samples }
    }
}

async fn look<S: Store>(reader: &mut S) -> Option<Sample> {
    let start = now();
    let (fence, value) = reader.read().await.ok()?;
    Some(Sample {
        start,
        fence,
        value,
    })
}

/// A path in a directory, as text.
pub(crate) fn inside(directory: &Path, name: &str) -> String {
    let path: PathBuf = directory.join(name);
    path.display().to_string()
}
