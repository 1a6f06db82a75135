//! The command line. It is read by hand: two options do not pay for a library.

use std::path::PathBuf;

use crate::figures;

pub(crate) const HELP: &str = "Measures lockkeeper against the limits beneath it.

usage: lockkeeper-bench local [--json FILE] [--dir DIR] [--only SECTION[,SECTION...]]

  --json FILE   where the figures go (default: target/bench/local.json)
  --dir DIR     where the locks and the files of the limits live, for another disk
                (default: a directory beside the JSON, deleted afterwards)
  --only ...    some sections only: uncontended, handover, inside, start, leases

A target that is missed is shown as missed; the exit status says only whether all was measured.";

/// What to do.
#[derive(Debug)]
pub(crate) enum Task {
    Local(Arguments),
    /// To be one of the processes that are measured.
    Worker(Vec<String>),
    Help,
}

/// Settings of a run.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) json: Option<PathBuf>,
    pub(crate) dir: Option<PathBuf>,
    only: Vec<String>,
}

impl Arguments {
    pub(crate) fn wants(&self, section: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == section)
    }
}

pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Task, String> {
    match given.next().as_deref() {
        Some("local") => options(given).map(Task::Local),
        Some("worker") => Ok(Task::Worker(given.collect())),
        Some("help" | "--help" | "-h") => Ok(Task::Help),
        Some(other) => Err(format!("{other:?} is nothing that can be measured")),
        None => Err("what shall be measured?".into()),
    }
}

fn options(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    while let Some(option) = given.next() {
        let mut value = || given.next().ok_or(format!("{option} needs a value"));
        match option.as_str() {
            "--json" => arguments.json = Some(value()?.into()),
            "--dir" => arguments.dir = Some(value()?.into()),
            "--only" => arguments.only = sections(&value()?)?,
            other => return Err(format!("{other:?} is no option")),
        }
    }
    Ok(arguments)
}

fn sections(list: &str) -> Result<Vec<String>, String> {
    let known = |name: &str| figures::LOCAL.iter().any(|section| section.name == name);
    let one = |name: &str| match known(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("{name:?} is no section")),
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
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
        let Ok(Task::Local(some)) = parsed(&["local", "--only", "leases", "--json", "x"]) else {
            panic!("refused");
        };
        assert!(some.wants("leases") && !some.wants("start"));
    }
}
