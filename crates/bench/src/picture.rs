//! Latency distributions as pictures: percentiles from left to right, each nine as wide as the one
//! before, latency upwards on a logarithmic scale, one line per contender.

use std::path::{Path, PathBuf};

use plotters::prelude::*;

use crate::Result;
use crate::statistics::Percentiles;

/// One chart.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

/// One contender: its latency in microseconds at each of the [`places`].
#[derive(Debug)]
pub(crate) struct Line {
    name: &'static str,
    points: Vec<(f64, f64)>,
}

/// Steps from one nine to the next.
const STEPS_PER_NINE: u32 = 20;
/// The last percentile shown is 99.99.
const NINES: u32 = 4;
const SIZE: (u32, u32) = (960, 540);
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
];

impl Line {
    pub(crate) fn new(name: &'static str, micros: &[f64]) -> Self {
        let percentiles = Percentiles::of(micros);
        // A percentile that fewer than one value lies above says nothing.
        let told = |nines: &f64| micros.len() as f64 >= 10_f64.powf(*nines);
        let point = |nines: f64| {
            let percent = 100.0 * (1.0 - 10_f64.powf(-nines));
            (nines, percentiles.at(percent).max(0.1))
        };
        let points = places().filter(told).map(point).collect();
        Self { name, points }
    }
}

/// Nines: 1 is 90 %, 2 is 99 %.
fn places() -> impl Iterator<Item = f64> {
    (0..=NINES * STEPS_PER_NINE).map(|step| f64::from(step) / f64::from(STEPS_PER_NINE))
}

impl Picture {
    /// Writes it into a directory, under a name made of its title.
    pub(crate) fn save(&self, directory: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(directory)?;
        let letters = self.title.chars().map(|one| match one {
            one if one.is_ascii_alphanumeric() => one,
            _ => '-',
        });
        let name: String = letters.collect();
        let words: Vec<&str> = name.split('-').filter(|word| !word.is_empty()).collect();
        let file = directory.join(words.join("-") + ".svg");
        std::fs::write(&file, self.svg()?)?;
        Ok(file)
    }

    fn svg(&self) -> Result<String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(&self.title, ("sans-serif", 20))
                .margin(12)
                .x_label_area_size(42)
                .y_label_area_size(64)
                .build_cartesian_2d(0.0..f64::from(NINES), self.range().log_scale())?;
            chart
                .configure_mesh()
                .x_desc("percentile")
                .y_desc("latency")
                .x_labels(NINES as usize + 1)
                .x_label_formatter(&|nines| percent(*nines))
                .y_label_formatter(&|micros| span(*micros))
                .light_line_style(RGBColor(235, 235, 235))
                .draw()?;
            for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
                let style = color.stroke_width(2);
                chart
                    .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                    .label(line.name)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.85))
                .border_style(RGBColor(200, 200, 200))
                .draw()?;
            area.present()?;
        }
        Ok(text)
    }

    /// From a little below the quickest to a little above the slowest.
    fn range(&self) -> std::ops::Range<f64> {
        let all = self.lines.iter().flat_map(|line| &line.points);
        let ends = all.fold((f64::INFINITY, 0.0_f64), |(low, high), (_, micros)| {
            (low.min(*micros), high.max(*micros))
        });
        match ends {
            (low, high) if low <= high => low * 0.8..high * 1.25,
            _ => 1.0..10.0,
        }
    }
}

fn percent(nines: f64) -> String {
    match nines.round() as usize {
        0 => "0 %".into(),
        1 => "90 %".into(),
        2 => "99 %".into(),
        more => format!("99.{} %", "9".repeat(more - 2)),
    }
}

fn span(micros: f64) -> String {
    match micros {
        _ if micros >= 1e6 => format!("{} s", micros / 1e6),
        _ if micros >= 1e3 => format!("{} ms", micros / 1e3),
        _ => format!("{micros} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contender_has_its_line() {
        let micros: Vec<f64> = (1..=2000).map(f64::from).collect();
        let picture = Picture {
            title: "redis: one task, own name".into(),
            lines: vec![Line::new("bare", &micros), Line::new("nobody", &[])],
        };
        // 2000 values say nothing about 99.99 %.
        let (last, _) = picture.lines[0].points[picture.lines[0].points.len() - 1];
        assert!((3.2..3.4).contains(&last), "{last}");
        let text = picture.svg().unwrap();
        for word in ["redis: one task", "bare", "nobody", "99.9 %", "1 ms"] {
            assert!(text.contains(word), "{word} is not in the picture");
        }
    }

    #[test]
    fn files_are_named_after_titles() {
        let directory = std::env::temp_dir().join(format!("picture-{}", std::process::id()));
        let picture = Picture {
            title: "etcd: 2 processes, 20 ms work: hand-over".into(),
            lines: Vec::new(),
        };
        let file = picture.save(&directory).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let name = file.file_name().and_then(|name| name.to_str());
        assert_eq!(name, Some("etcd-2-processes-20-ms-work-hand-over.svg"));
    }
}
