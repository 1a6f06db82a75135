//! The command line. It is read by hand: four options do not pay for a library.

use std::path::PathBuf;

use crate::figures::{SUITES, Section, Suite};

/// What to do.
#[derive(Debug)]
pub(crate) enum Task {
    Measure(Arguments),
    /// To be one of the processes that are measured.
    Worker(Vec<String>),
    Help,
}

/// Settings of a run.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) suite: &'static Suite,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) dir: Option<PathBuf>,
    only: Vec<String>,
}

impl Arguments {
    /// The sections that were asked for.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &'static Section> {
        let wanted = |section: &&Section| {
            self.only.is_empty() || self.only.iter().any(|name| name == section.name)
        };
        self.suite.sections().filter(wanted)
    }
}

pub(crate) fn help() -> String {
    let suites: Vec<String> = SUITES.iter().map(line).collect();
    format!(
        "Measures lockkeeper against the limits beneath it and against its peers.

usage: lockkeeper-bench SUITE [--only SECTION[,SECTION...]] [--json FILE] [--svg DIR] [--dir DIR]

  SUITE         and its sections:
{}
  --only ...    some sections only
  --json FILE   where the figures go (default: target/bench/SUITE.json)
  --svg DIR     where the latency distributions are drawn (default: target/bench/SUITE)
  --dir DIR     where `local:` locks and the files of its limits live, for another disk
                (default: a directory beside the JSON, deleted afterwards)

A target that is missed is shown as missed; the exit status says only whether all was measured.",
        suites.join("\n")
    )
}

fn line(suite: &Suite) -> String {
    let sections: Vec<&str> = suite.sections().map(|section| section.name).collect();
    format!("    {:<11} {}", suite.name, sections.join(", "))
}

pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Task, String> {
    match given.next().as_deref() {
        Some("worker") => Ok(Task::Worker(given.collect())),
        Some("help" | "--help" | "-h") => Ok(Task::Help),
        Some(name) => match Suite::named(name) {
            Some(suite) => options(suite, given).map(Task::Measure),
            None => Err(format!("{name:?} is nothing that can be measured")),
        },
        None => Err("what shall be measured?".into()),
    }
}

fn options(
    suite: &'static Suite,
    mut given: impl Iterator<Item = String>,
) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        suite,
        json: None,
        svg: None,
        dir: None,
        only: Vec::new(),
    };
    while let Some(option) = given.next() {
        let mut value = || given.next().ok_or(format!("{option} needs a value"));
        match option.as_str() {
            "--json" => arguments.json = Some(value()?.into()),
            "--svg" => arguments.svg = Some(value()?.into()),
            "--dir" => arguments.dir = Some(value()?.into()),
            "--only" => arguments.only = sections(suite, &value()?)?,
            other => return Err(format!("{other:?} is no option")),
        }
    }
    Ok(arguments)
}

fn sections(suite: &Suite, list: &str) -> Result<Vec<String>, String> {
    let known = |name: &str| suite.sections().any(|section| section.name == name);
    let one = |name: &str| match known(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("{name:?} is no section of {}", suite.name)),
    };
    list.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Task, String> {
        parse(words.iter().map(ToString::to_string))
    }

    #[test]
    fn unknown_words_are_errors() {
        for bad in [
            &[][..],
            &["loca"],
            &["local", "--jsn", "x"],
            &["local", "--json"],
            &["local", "--only", "leases,nothing"],
            &["local", "--only", "burst"],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
        let words = ["redis", "--only", "leases,burst", "--svg", "x"];
        let Ok(Task::Measure(some)) = parsed(&words) else {
            panic!("refused");
        };
        let names: Vec<&str> = some.sections().map(|section| section.name).collect();
        assert_eq!(names, ["burst", "leases"]);
    }
}
