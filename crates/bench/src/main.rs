//! Measures lockkeeper against the limits beneath it, side by side in one run, on this machine:
//! `lockkeeper-bench local` prints a table and writes JSON. It also plays the processes that it
//! measures, so that nothing but this program is started.

#![forbid(unsafe_code)]

mod arguments;
mod cpu;
mod figures;
mod machine;
mod place;
mod report;
mod statistics;
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
        Ok(Task::Local(arguments)) => local(&arguments),
        Ok(Task::Worker(arguments)) => workers::work(&arguments),
        Ok(Task::Help) => {
            println!("{}", arguments::HELP);
            Ok(())
        }
        Err(why) => {
            eprintln!("lockkeeper-bench: {why}\n\n{}", arguments::HELP);
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

/// Measures everything about `local:` that was asked for. A target that is missed is a result, not
/// an error.
fn local(arguments: &Arguments) -> Result<()> {
    let place = Place::make(arguments.dir.as_deref())?;
    let mut report = Report::begin(&place)?;
    for section in figures::LOCAL {
        if arguments.wants(section.name) {
            eprintln!("measuring {}: {}", section.name, section.about);
            report.add(section, &place)?;
        }
    }
    report.end()?;
    println!("{}", report.table());
    let file = match &arguments.json {
        Some(file) => file.clone(),
        None => place.results().join("local.json"),
    };
    report.save(&file)?;
    println!("JSON: {}", file.display());
    Ok(())
}
