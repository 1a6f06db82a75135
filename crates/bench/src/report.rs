//! The figures of a run: as a table for people, as JSON for programs.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Result;
use crate::figures::Section;
use crate::machine::{self, Disturbance, Reading};
use crate::picture::Picture;
use crate::place::Place;

/// One measured figure and its target.
#[derive(Debug)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) what: String,
    /// The limit beneath it, measured in the same run, for people to read.
    pub(crate) limit: String,
    /// Our own measurement, for people to read.
    pub(crate) ours: String,
    /// What the target is about.
    pub(crate) value: f64,
    /// The unit of value and target.
    pub(crate) unit: &'static str,
    pub(crate) target: Target,
    /// Everything that stands behind the value.
    pub(crate) detail: Value,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    /// For comparison only.
    None,
}

impl Figure {
    /// Whether the target is reached, where there is one.
    pub(crate) fn reached(&self) -> Option<bool> {
        match self.target {
            Target::AtMost(target) => Some(self.value <= target),
            Target::Below(target) => Some(self.value < target),
            Target::AtLeast(target) => Some(self.value >= target),
            Target::None => None,
        }
    }
}

impl Target {
    fn parts(self) -> Option<(&'static str, f64)> {
        match self {
            Self::AtMost(target) => Some(("<=", target)),
            Self::Below(target) => Some(("<", target)),
            Self::AtLeast(target) => Some((">=", target)),
            Self::None => None,
        }
    }
}

/// The figures so far, and the circumstances.
#[derive(Debug)]
pub(crate) struct Report {
    started: Instant,
    reading: Reading,
    priority: String,
    load_before: String,
    load_after: String,
    whole: Option<Disturbance>,
    disk: String,
    figures: Vec<(&'static str, Figure, Disturbance)>,
    pictures: Vec<Picture>,
    /// Sections that could not be measured, and why.
    failures: Vec<(&'static str, String)>,
}

impl Report {
    pub(crate) fn begin(place: &Place) -> Result<Self> {
        Ok(Self {
            started: Instant::now(),
            reading: Reading::now()?,
            priority: machine::hurry(),
            load_before: machine::load()?,
            load_after: String::new(),
            whole: None,
            disk: file_system(place.path()),
            figures: Vec::new(),
            pictures: Vec::new(),
            failures: Vec::new(),
        })
    }

    /// Measures a section. One that fails does not take the others' figures along.
    pub(crate) fn add(&mut self, section: &Section, place: &Place) -> Result<()> {
        let reading = Reading::now()?;
        let measured = match section.measure(place) {
            Ok(measured) => measured,
            Err(error) => {
                self.failures.push((section.name, error.to_string()));
                return Ok(());
            }
        };
        let disturbance = reading.since()?;
        let figures = measured.figures.into_iter();
        self.figures
            .extend(figures.map(|one| (section.name, one, disturbance)));
        self.pictures.extend(measured.pictures);
        Ok(())
    }

    /// Whether all that was asked for has been measured.
    pub(crate) fn complete(&self) -> Result<()> {
        match self.failures.len() {
            0 => Ok(()),
            some => Err(format!("{some} sections could not be measured").into()),
        }
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        self.load_after = machine::load()?;
        self.whole = Some(self.reading.since()?);
        Ok(())
    }

    pub(crate) fn table(&self) -> String {
        let header = [
            "figure",
            "limit",
            "ours",
            "value",
            "target",
            "reached",
            "foreign CPU",
        ];
        let mut rows = vec![header.map(str::to_owned)];
        rows.extend(self.figures.iter().map(row));
        let mut lines = vec![String::new()];
        lines.extend(aligned(&rows));
        lines.push(String::new());
        let failure = |(section, why): &(&str, String)| format!("NOT MEASURED: {section}: {why}");
        lines.extend(self.failures.iter().map(failure));
        let whole = self.whole.unwrap_or(Disturbance {
            foreign: 0.0,
            stolen: 0.0,
        });
        lines.push(format!(
            "{}; files on {}; priority {}; {:.0} s; load average before {}, after {}; of all cores others used {:.1} %, the host took {:.1} %",
            machine::description(),
            self.disk,
            self.priority,
            self.started.elapsed().as_secs_f64(),
            self.load_before,
            self.load_after,
            whole.foreign,
            whole.stolen,
        ));
        if whole.foreign + whole.stolen > NOISY {
            lines.push(
                "The machine was busy with other things: ratios may be off, absolute values are. Measure again when it is quiet.".into(),
            );
        }
        lines.join("\n")
    }

    pub(crate) fn save(&self, file: &Path) -> Result<()> {
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let text = serde_json::to_string_pretty(&self.json())?;
        std::fs::write(file, text + "\n")?;
        Ok(())
    }

    /// Draws the distributions; how many there are.
    pub(crate) fn draw(&self, directory: &Path) -> Result<usize> {
        for picture in &self.pictures {
            picture.save(directory)?;
        }
        Ok(self.pictures.len())
    }

    fn json(&self) -> Value {
        let figures: Vec<Value> = self.figures.iter().map(figure_json).collect();
        json!({
            "machine": machine::description(),
            "files_on": self.disk,
            "priority": self.priority,
            "seconds": self.started.elapsed().as_secs_f64(),
            "load_before": self.load_before,
            "load_after": self.load_after,
            "foreign_cpu_percent": self.whole.map(|whole| whole.foreign),
            "stolen_cpu_percent": self.whole.map(|whole| whole.stolen),
            "figures": figures,
            "not_measured": self.failures,
        })
    }
}

/// Percent of all cores that others may use before the report warns.
const NOISY: f64 = 10.0;

fn row((_, figure, disturbance): &(&str, Figure, Disturbance)) -> [String; 7] {
    let target = figure.target.parts();
    let target = target.map(|(relation, target)| format!("{relation} {target} {}", figure.unit));
    let reached = match figure.reached() {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    };
    [
        figure.what.clone(),
        figure.limit.clone(),
        figure.ours.clone(),
        format!("{:.2} {}", figure.value, figure.unit),
        target.unwrap_or_else(|| "-".into()),
        reached.into(),
        format!("{:.0} %", disturbance.foreign + disturbance.stolen),
    ]
}

fn figure_json((section, figure, disturbance): &(&str, Figure, Disturbance)) -> Value {
    let (relation, target) = figure.target.parts().unzip();
    json!({
        "section": section,
        "figure": figure.what,
        "limit": figure.limit,
        "ours": figure.ours,
        "value": figure.value,
        "unit": figure.unit,
        "target": target,
        "relation": relation,
        "reached": figure.reached(),
        "foreign_cpu_percent": disturbance.foreign,
        "stolen_cpu_percent": disturbance.stolen,
        "detail": figure.detail,
    })
}

fn aligned(rows: &[[String; 7]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..7).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("| {} |", cells.join(" | "))
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.insert(1, format!("| {} |", rule.join(" | ")));
    lines
}

/// The type of the file system, as the kernel's list of mounts has it.
fn file_system(path: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let parse = |line: &str| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    let above = mounts
        .lines()
        .filter_map(parse)
        .filter(|(point, _)| path.starts_with(point));
    let nearest = above.max_by_key(|(point, _)| point.len());
    nearest.map_or_else(|| "an unknown file system".into(), |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: f64, target: Target) -> Figure {
        Figure {
            what: "a".into(),
            limit: "b".into(),
            ours: "c".into(),
            value,
            unit: "x",
            target,
            detail: Value::Null,
        }
    }

    #[test]
    fn what_cannot_be_measured_is_not_reached() {
        for target in [
            Target::AtMost(1.0),
            Target::Below(1.0),
            Target::AtLeast(1.0),
        ] {
            assert_eq!(figure(f64::NAN, target).reached(), Some(false));
        }
        assert_eq!(figure(1.0, Target::AtMost(1.0)).reached(), Some(true));
        assert_eq!(figure(1.0, Target::Below(1.0)).reached(), Some(false));
        assert_eq!(figure(1.0, Target::AtLeast(1.0)).reached(), Some(true));
        assert_eq!(figure(1.0, Target::None).reached(), None);
    }
}
