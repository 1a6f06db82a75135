//! `lockkeeper lab`: the failure stories of the field, really happening.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lockkeeper_lab::actor;
use lockkeeper_lab::pages;
use lockkeeper_lab::run::{Plan, Trouble, play};
use lockkeeper_lab::scenario::Scenario;
use lockkeeper_lab::scenarios;
use lockkeeper_lab::told::Told;

use crate::args::{LabArgs, LabRunArgs, LabTask};
use crate::exit::{self, Failure};

type Ended = Result<Told, Trouble>;

pub(crate) fn lab(options: &LabArgs) -> Result<u8, Failure> {
    match &options.task {
        LabTask::List => list(),
        LabTask::Run(options) => run(options),
        LabTask::Actor { name } => {
            actor::play(name).map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
            Ok(exit::OK)
        }
    }
}

fn list() -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    let longest = scenarios::ALL.iter().map(|scenario| scenario.name.len());
    let width = longest.max().unwrap_or(0);
    for scenario in scenarios::ALL {
        writeln!(out, "{:<width$}  {}", scenario.name, scenario.title.en)?;
    }
    Ok(exit::OK)
}

fn run(options: &LabRunArgs) -> Result<u8, Failure> {
    let chosen = choose(options)?;
    let seed = options.seed.unwrap_or_else(seed_of_now);
    let plan = Plan {
        client: client_program()?,
        seed,
        at_once: options.at_once,
    };
    let began = Instant::now();
    let progress = Progress::of(chosen.len());
    let ended = play(&chosen, &plan, |one| progress.show(one));
    progress.clear();

    let all = ended.len();
    let told: Vec<Told> = ended.into_iter().flatten().collect();
    let strayed = told.iter().filter(|told| !told.is_as_told()).count();
    let broken = all - told.len();
    if let Some(directory) = &options.html {
        let failed = |error| format!("cannot write to {}: {error}", directory.display());
        pages::write(directory, &told)
            .map_err(|error| Failure::new(exit::OUTPUT, failed(error)))?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{all} scenario{} in {:.0} s: {} as told, {strayed} not, {broken} could not be played; --seed {seed}",
        if all == 1 { "" } else { "s" },
        began.elapsed().as_secs_f64(),
        told.len() - strayed,
    )?;
    Ok(match (strayed, broken) {
        (0, 0) => exit::OK,
        (_, 0) => exit::NO,
        _ => exit::UNREACHABLE,
    })
}

fn choose(options: &LabRunArgs) -> Result<Vec<&'static Scenario>, Failure> {
    if options.all {
        return Ok(scenarios::ALL.iter().collect());
    }
    let find = |name: &String| {
        let unknown = || format!("there is no scenario {name:?}; `lockkeeper lab list` shows them");
        scenarios::find(name).ok_or_else(|| Failure::new(exit::USAGE, unknown()))
    };
    options.names.iter().map(find).collect()
}

/// Clients are this very program once more.
fn client_program() -> Result<Vec<String>, Failure> {
    let path = std::env::current_exe()?;
    let path = path.to_str().ok_or_else(|| {
        Failure::new(
            exit::SYSTEM,
            "the path of this program is not readable text",
        )
    })?;
    Ok([path, "lab", "actor"].map(str::to_owned).to_vec())
}

fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// A line per scenario as it ends; on a terminal also one that counts.
struct Progress {
    all: usize,
    ended: AtomicUsize,
    terminal: bool,
}

impl Progress {
    fn of(all: usize) -> Progress {
        let progress = Progress {
            all,
            ended: AtomicUsize::new(0),
            terminal: std::io::stderr().is_terminal(),
        };
        progress.count(0);
        progress
    }

    fn count(&self, ended: usize) {
        if self.terminal {
            eprint!("\r\x1b[K{ended} of {} scenarios", self.all);
        }
    }

    fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }

    fn show(&self, one: &Ended) {
        let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
        self.clear();
        // Nobody reads: the exit status still tells.
        let _ignored = std::io::stdout().write_all(words(one).as_bytes());
        self.count(ended);
    }
}

/// A scenario as people read it: each part's verdict, what happened, and why.
fn words(one: &Ended) -> String {
    let told = match one {
        Ok(told) => told,
        Err(Trouble { scenario, error }) => {
            return format!("{}: could not be played: {error}\n\n", scenario.name);
        }
    };
    let mut text = format!("{}: {}\n", told.scenario.name, told.scenario.title.en);
    for played in &told.parts {
        text += &format!(
            "  {}: {} ({:.1} s)\n    {}\n    {}\n",
            played.part.name,
            played.verdict.words(),
            played.took.as_secs_f64(),
            played.outcome.words(),
            played.part.why.en,
        );
    }
    text + "\n"
}
