//! Turns that many processes took with one lock, and what they tell: gaps, hand-overs, fairness, and
//! whether it was a lock at all.

use std::collections::BTreeMap;

use crate::Result;

/// One turn of holding a lock, in nanoseconds of the clock that all processes share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) process: u32,
    pub(crate) asked: u64,
    pub(crate) acquired: u64,
    pub(crate) released: u64,
}

/// The turns of one name, in their order.
#[derive(Debug)]
pub(crate) struct Turns(Vec<Turn>);

impl Turns {
    /// Puts the turns in order.
    ///
    /// # Errors
    /// When two held at once: then nothing else about them is worth knowing.
    pub(crate) fn in_order(mut turns: Vec<Turn>) -> Result<Self> {
        turns.sort_unstable_by_key(|turn| turn.acquired);
        match turns
            .windows(2)
            .find(|two| two[1].acquired < two[0].released)
        {
            Some(two) => Err(format!("two processes held one lock at once: {two:?}").into()),
            None => Ok(Self(turns)),
        }
    }

    /// Microseconds from release to acquire, of turns that another process had been waiting for.
    pub(crate) fn gaps(&self) -> Vec<f64> {
        let real =
            |two: &&[Turn]| two[0].process != two[1].process && two[1].asked < two[0].released;
        let gap = |two: &[Turn]| (two[1].acquired - two[0].released) as f64 / 1e3;
        self.0.windows(2).filter(real).map(gap).collect()
    }

    /// How often the lock went from one process to another until `end`.
    pub(crate) fn hand_overs(&self, end: u64) -> usize {
        let within = self.0.partition_point(|turn| turn.acquired < end);
        let two = self.0[..within].windows(2);
        two.filter(|two| two[0].process != two[1].process).count()
    }

    /// Turns of each process until `end`; those behind it belong to the drain.
    pub(crate) fn shares(&self, end: u64) -> BTreeMap<u32, u64> {
        let mut shares = BTreeMap::new();
        for turn in self.0.iter().filter(|turn| turn.acquired < end) {
            *shares.entry(turn.process).or_default() += 1;
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(process: u32, asked: u64, acquired: u64, released: u64) -> Turn {
        Turn {
            process,
            asked,
            acquired,
            released,
        }
    }

    #[test]
    fn only_real_hand_overs_have_gaps() {
        let turns = Turns::in_order(vec![
            turn(2, 1_000, 22_000, 40_000), // waited for by 2 since 1 us: 2 us
            turn(1, 0, 500, 20_000),
            turn(2, 41_000, 42_000, 60_000), // the same process again
            turn(1, 61_000, 62_000, 80_000), // came after the release
        ]);
        let turns = turns.unwrap();
        assert_eq!(turns.gaps(), [2.0]);
        assert_eq!(turns.hand_overs(u64::MAX), 2);
        assert_eq!(turns.hand_overs(62_000), 1);
        assert_eq!(turns.shares(62_000), BTreeMap::from([(1, 1), (2, 2)]));
    }

    #[test]
    fn two_at_once_are_no_result() {
        assert!(Turns::in_order(vec![turn(1, 0, 5, 20), turn(2, 0, 19, 30)]).is_err());
    }
}
