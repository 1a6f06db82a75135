//! The time axis: where a moment lies, and which moments are named.

use crate::history::Event;

/// Maps the times of a history to the width of a picture.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) left: f64,
    pub(super) right: f64,
}

impl Scale {
    /// All of a history, with a little air at its end.
    pub(super) fn of(history: &[Event], left: f64, right: f64) -> Scale {
        let from = history.iter().map(|event| event.at).min().unwrap_or(0);
        let last = history.iter().map(|event| event.at).max().unwrap_or(0);
        let to = last.saturating_add(((last - from) / 40).max(1_000_000));
        // A moment at the very end of time still needs a width.
        let from = from.min(to - 1);
        Scale {
            from,
            to,
            left,
            right,
        }
    }

    /// Where a moment lies; what is outside lies on the edge.
    pub(super) fn x(&self, at: u64) -> f64 {
        let at = at.clamp(self.from, self.to);
        let part = (at - self.from) as f64 / (self.to - self.from) as f64;
        self.left + part * (self.right - self.left)
    }

    /// Round moments, each with its name.
    pub(super) fn ticks(&self) -> Vec<(u64, String)> {
        let step = self.step();
        let first = self.from.div_ceil(step);
        let moments = (first..).map_while(|number| number.checked_mul(step));
        let moments = moments.take_while(|at| *at <= self.to);
        moments.map(|at| (at, name(at, step))).collect()
    }

    /// The shortest round step that gives no more than ten ticks.
    fn step(&self) -> u64 {
        let least = ((self.to - self.from) / 10).max(1000);
        let mut step = 1000;
        loop {
            for factor in [1, 2, 5] {
                if step * factor >= least {
                    return step * factor;
                }
            }
            step = step.saturating_mul(10);
            if step > u64::MAX / 100 {
                return step;
            }
        }
    }
}

fn name(at: u64, step: u64) -> String {
    if step < 1_000_000 {
        return format!("{} µs", at / 1000);
    }
    let ms = at / 1_000_000;
    match step / 1_000_000 {
        0..10 => format!("{ms} ms"),
        10..100 => format!("{}.{:02} s", ms / 1000, ms % 1000 / 10),
        100..1000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} s", ms / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::What;

    fn over(from: u64, to: u64) -> Scale {
        let event = |at| Event {
            at,
            lane: String::new(),
            what: What::Paused,
        };
        Scale::of(&[event(from), event(to)], 100.0, 900.0)
    }

    #[test]
    fn every_length_has_a_few_round_ticks() {
        for length in [
            0,
            1,
            999,
            5_000,
            70_000_000,
            1_500_000_000,
            3_600_000_000_000,
            u64::MAX / 2,
        ] {
            let ticks = over(7, length.max(7)).ticks();
            assert!((1..=12).contains(&ticks.len()), "{length}: {ticks:?}");
        }
        let ticks = over(0, 1_500_000_000).ticks();
        assert_eq!(ticks[1], (200_000_000, "0.2 s".to_owned()));
    }

    #[test]
    fn moments_stay_in_the_picture() {
        let scale = over(1_000, 2_000_000_000);
        assert_eq!(scale.x(0), 100.0);
        assert_eq!(scale.x(u64::MAX), 900.0);
        assert!(scale.x(1_000_000_000) > 400.0 && scale.x(1_000_000_000) < 600.0);
    }
}
