//! The line before a claim: who is ahead of it, whether it holds, and whose leaving it has to hear of.
//! Pure; no I/O.

use super::names::Contender;
use crate::Mode;
use crate::rule::{Verdict, Walk};

/// Numbers that are farther apart may have wrapped: 32 bits do not tell which of them is older.
const CLEAR: u32 = 1 << 30;

/// Everybody ahead of a claim, the first first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<Contender>);

/// What a listing says about a claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sorted {
    /// It is there, behind these.
    Behind(Line),
    /// It is there, but the sequence numbers do not tell the order.
    Unclear(Vec<Contender>),
    /// It is not there.
    Missing,
}

/// Sorts those ahead of `own` by their sequence numbers. The number is the count of changes to the
/// children of one node, in 32 bits: it rises until it wraps, so the order of two that are near each
/// other is clear, across the wrap too (bug 54). It is compared as a number, never as part of a name
/// (bug 55).
pub(super) fn sort(contenders: Vec<Contender>, own: &str) -> Sorted {
    let Some(number) = contenders
        .iter()
        .find(|contender| contender.child == own)
        .map(|contender| contender.number)
    else {
        return Sorted::Missing;
    };
    let distance = |contender: &Contender| contender.number.wrapping_sub(number);
    let is_unclear = |contender: &Contender| {
        let distance = distance(contender);
        distance.unsigned_abs() >= CLEAR || (distance == 0 && contender.child != own)
    };
    if contenders.iter().any(is_unclear) {
        return Sorted::Unclear(contenders);
    }
    let mut ahead: Vec<Contender> = contenders
        .into_iter()
        .filter(|contender| distance(contender) < 0)
        .collect();
    ahead.sort_by_key(distance);
    Sorted::Behind(Line(ahead))
}

/// The one just behind `own`, as far as the numbers tell.
pub(super) fn next_after<'a>(contenders: &'a [Contender], own: &str) -> Option<&'a Contender> {
    let own = contenders.iter().find(|one| one.child == own)?;
    let distance = |one: &&Contender| one.number.wrapping_sub(own.number);
    let behind = contenders.iter().filter(|one| distance(one) > 0);
    behind.min_by_key(distance)
}

impl Line {
    /// From contenders with the transactions that made them, those before `own`.
    pub(super) fn by_creation(mut all: Vec<(i64, Contender)>, own: i64) -> Self {
        all.retain(|(created, _)| *created < own);
        all.sort_by_key(|(created, _)| *created);
        Self(all.into_iter().map(|(_, contender)| contender).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Contender> {
        self.0.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Contender> {
        self.0.iter_mut()
    }

    /// Whether a claim of this mode behind the line holds.
    ///
    /// If it holds behind a line, it holds behind every part of it: nobody can enter ahead of it, and
    /// those ahead can only leave, or turn from exclusive to shared. So it may be concluded from a
    /// listing that is old, as long as the claim itself is still there.
    pub(super) fn verdict(&self, mode: Mode) -> Verdict {
        let mut walk = Walk::default();
        for contender in &self.0 {
            walk.next(contender.mode);
        }
        walk.next(mode)
    }

    /// The line without those who left.
    pub(super) fn without(&self, left: &[String]) -> Self {
        let stays = |contender: &&Contender| !left.contains(&contender.child);
        Self(self.0.iter().filter(stays).cloned().collect())
    }

    /// Those ahead whose change a waiting claim of this mode has to hear of: as few as can be, so that
    /// a release wakes only whom it concerns.
    pub(super) fn watched(&self, mode: Mode) -> Vec<&Contender> {
        let nearest = |blocks: fn(Mode) -> bool| {
            let blocker = self.0.iter().rev().find(|ahead| blocks(ahead.mode));
            blocker.into_iter().collect::<Vec<_>>()
        };
        match mode {
            Mode::Shared => nearest(|ahead| ahead != Mode::Shared),
            Mode::Permits { .. } => {
                let others = nearest(|ahead| !matches!(ahead, Mode::Permits { .. }));
                match others.is_empty() {
                    false => others,
                    // Any of the holders may make room for the first that waits. Whoever waits behind it
                    // hears from it when it comes to hold.
                    true if self.all_hold() => self.0.iter().collect(),
                    true => self.0.last().into_iter().collect(),
                }
            }
            _ => self.0.last().into_iter().collect(),
        }
    }

    /// Whether a renewal may rest on those who are watched. Behind permits that wait it may not: that the
    /// one before has come to hold is said once, and may be lost.
    pub(super) fn is_told_of_all(&self, mode: Mode) -> bool {
        !matches!(mode, Mode::Permits { .. }) || self.all_hold()
    }

    fn all_hold(&self) -> bool {
        let mut walk = Walk::default();
        let mut modes = self.0.iter().map(|contender| contender.mode);
        modes.all(|mode| walk.next(mode) == Verdict::Holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn contender(child: &str, number: i32, mode: Mode) -> Contender {
        Contender {
            child: child.into(),
            number,
            mode,
            version: 0,
        }
    }

    fn exclusive(child: &str, number: i32) -> Contender {
        contender(child, number, Mode::Exclusive)
    }

    fn children(line: &Line) -> Vec<&str> {
        line.iter().map(|ahead| ahead.child.as_str()).collect()
    }

    fn behind(contenders: Vec<Contender>, own: &str) -> Line {
        match sort(contenders, own) {
            Sorted::Behind(line) => line,
            other => panic!("{other:?}"),
        }
    }

    // bug 55
    #[test]
    fn the_number_decides_and_not_the_name() {
        let all = vec![exclusive("z", 1), exclusive("own", 3), exclusive("a", 2)];
        assert_eq!(children(&behind(all, "own")), ["z", "a"]);
    }

    // bug 54
    #[test]
    fn the_order_is_right_across_the_wrap() {
        let all = vec![
            exclusive("after", i32::MIN),
            exclusive("own", i32::MIN + 1),
            exclusive("before", i32::MAX),
            exclusive("behind", i32::MIN + 2),
        ];
        assert_eq!(children(&behind(all, "own")), ["before", "after"]);
        let all = vec![exclusive("own", -1), exclusive("next", 0)];
        assert_eq!(children(&behind(all, "own")), [""; 0]);
    }

    #[test]
    fn the_next_one_is_the_nearest_behind() {
        let all = [
            exclusive("last", i32::MIN + 3),
            exclusive("next", i32::MIN + 1),
            exclusive("own", i32::MAX),
            exclusive("before", i32::MAX - 1),
        ];
        let next = |own| next_after(&all, own).map(|one| one.child.as_str());
        assert_eq!(next("own"), Some("next"));
        assert_eq!(next("next"), Some("last"));
        assert_eq!(next("last"), None);
        assert_eq!(next("nobody"), None);
    }

    // bug 54
    #[test]
    fn what_is_far_apart_is_unclear_and_the_transaction_decides() {
        let all = vec![exclusive("old", i32::MAX), exclusive("own", 2)];
        let Sorted::Unclear(all) = sort(all, "own") else {
            panic!("32 bits cannot tell");
        };
        let all = all.into_iter().zip([5, 9]).map(|(c, zxid)| (zxid, c));
        assert_eq!(children(&Line::by_creation(all.collect(), 9)), ["old"]);
        let twins = vec![exclusive("own", 2), exclusive("twin", 2)];
        assert!(matches!(sort(twins, "own"), Sorted::Unclear(_)));
        assert_eq!(sort(vec![exclusive("a", 1)], "own"), Sorted::Missing);
    }

    fn modes() -> impl Strategy<Value = Mode> {
        prop_oneof![
            Just(Mode::Exclusive),
            Just(Mode::Shared),
            (1..4u32).prop_map(|take| Mode::Permits { take, of: 4 }),
        ]
    }

    proptest! {
        // What `verdict` says about old listings.
        #[test]
        fn whoever_holds_behind_a_line_holds_behind_any_part_of_it(
            line in prop::collection::vec((modes(), any::<bool>()), 0..6),
            mode in modes(),
        ) {
            let all = line.iter().enumerate();
            let all: Vec<_> = all.map(|(n, (mode, _))| contender(&n.to_string(), n as i32, *mode)).collect();
            let gone = line.iter().enumerate().filter(|(_, (_, leaves))| *leaves);
            let gone: Vec<String> = gone.map(|(n, _)| n.to_string()).collect();
            let line = Line(all);
            if line.verdict(mode) == Verdict::Holds {
                prop_assert_eq!(line.without(&gone).verdict(mode), Verdict::Holds);
            }
        }

        // A waiter that hears of nobody it watches is right to go on waiting.
        #[test]
        fn nothing_that_is_not_watched_lets_a_waiter_in(
            line in prop::collection::vec((modes(), any::<bool>()), 1..6),
            mode in modes(),
        ) {
            let all = line.iter().enumerate();
            let all: Vec<_> = all.map(|(n, (mode, _))| contender(&n.to_string(), n as i32, *mode)).collect();
            let all = Line(all);
            if all.verdict(mode) == Verdict::Waits {
                let watched: Vec<String> = all.watched(mode).iter().map(|c| c.child.clone()).collect();
                prop_assert!(!watched.is_empty());
                let gone = line.iter().enumerate().filter(|(_, (_, leaves))| *leaves);
                let gone: Vec<String> = gone.map(|(n, _)| n.to_string()).filter(|n| !watched.contains(n)).collect();
                let left = all.without(&gone);
                // Behind permits that wait, the one before it speaks up when it comes to hold.
                let spoken_for = matches!(mode, Mode::Permits { .. }) && !all.all_hold();
                prop_assert!(spoken_for || left.verdict(mode) == Verdict::Waits);
            }
        }
    }
}
