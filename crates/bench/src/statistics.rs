//! Medians and percentiles. No means: one preempted round would move them.

/// Values in order.
#[derive(Debug)]
pub(crate) struct Percentiles(Vec<f64>);

impl Percentiles {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        Self(sorted)
    }

    /// The value below which `percent` of the values lie, by the nearest rank; NaN of nothing.
    pub(crate) fn at(&self, percent: f64) -> f64 {
        let rank = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        let place = rank.clamp(1, self.0.len().max(1)) - 1;
        self.0.get(place).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn percentile(values: &[f64], percent: f64) -> f64 {
    Percentiles::of(values).at(percent)
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// The median of the ratios of rounds that were run next to each other: what slows the machine down
/// for a while slows both.
pub(crate) fn median_ratio(ours: &[f64], limit: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(limit).map(|(a, b)| a / b).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_nearest() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(median(&values), 100.0);
        assert_eq!(percentile(&values, 99.0), 198.0);
        assert_eq!(percentile(&values, 100.0), 200.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_taken_side_by_side() {
        assert_eq!(median_ratio(&[2.0, 20.0, 3.0], &[1.0, 10.0, 3.0]), 2.0);
    }
}
