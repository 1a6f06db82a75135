//! Measures lockkeeper against the limits beneath it and against its peers, side by side in one run, on
//! this machine: `lockkeeper-bench redis` prints a table, writes JSON and draws the distributions. It
//! also plays the processes that it measures, except for other people's clients.

#![forbid(unsafe_code)]

mod arguments;
mod contenders;
mod cpu;
mod engines;
mod figures;
mod machine;
mod picture;
mod pinning;
mod place;
mod racers;
mod report;
mod statistics;
mod turns;
mod workers;

use std::error::Error;
use std::process::ExitCode;

use arguments::{Arguments, Task};
use place::Place;
use report::Report;

/// A measurement that cannot be made ends the run with a message; there is nothing to recover.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let outcome = match arguments::parse(std::env::args().skip(1)) {
        Ok(Task::Measure(arguments)) => measure(&arguments),
        Ok(Task::Worker(arguments)) => workers::work(&arguments),
        Ok(Task::Help) => {
            println!("{}", arguments::help());
            Ok(())
        }
        Err(why) => {
            eprintln!("lockkeeper-bench: {why}\n\n{}", arguments::help());
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("lockkeeper-bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Measures everything that was asked for. A target that is missed is a result, not an error.
fn measure(arguments: &Arguments) -> Result<()> {
    let place = Place::make(arguments.dir.as_deref())?;
    let mut report = Report::begin(&place)?;
    for section in arguments.sections() {
        eprintln!("measuring {}", section.name);
        report.add(section, &place)?;
    }
    report.end()?;
    println!("{}", report.table());
    let suite = arguments.suite.name;
    let beside = |ending: &str| place.results().join(format!("{suite}{ending}"));
    let file = arguments.json.clone().unwrap_or_else(|| beside(".json"));
    report.save(&file)?;
    println!("JSON: {}", file.display());
    let directory = arguments.svg.clone().unwrap_or_else(|| beside(""));
    if report.draw(&directory)? > 0 {
        println!("pictures: {}", directory.display());
    }
    report.complete()
}
