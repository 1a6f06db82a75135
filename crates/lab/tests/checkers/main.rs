//! The checkers against random histories: all of a correct lock please them, and whatever is planted in one is found.

mod simulated;

use std::time::Duration;

use lockkeeper_lab::checkers::{
    believed_holds, fair_order, fence_order, guarded_resource, liveness, residue,
};
use lockkeeper_lab::history::{Event, What};
use proptest::collection::vec;
use proptest::prelude::*;
use simulated::{LOCK, Step, play};

const BLUR: Duration = Duration::from_millis(5);
const BOUND: Duration = Duration::from_secs(1000);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    vec((any::<u8>(), 0..4_usize), 0..120)
}

/// The indices of the events that are so.
fn all(history: &[Event], are: impl Fn(&Event) -> bool) -> Vec<usize> {
    let found = history.iter().enumerate().filter(|(_, event)| are(event));
    found.map(|(index, _)| index).collect()
}

fn token_of(event: &mut Event) -> &mut Option<u64> {
    match &mut event.what {
        What::Believes { token, .. } | What::Write { token, .. } => token,
        _ => panic!("an event without a token"),
    }
}

/// Swaps the tokens of two events.
fn swap_tokens(history: &mut [Event], one: usize, other: usize) {
    let first = *token_of(&mut history[one]);
    let second = std::mem::replace(token_of(&mut history[other]), first);
    *token_of(&mut history[one]) = second;
}

fn swap_lanes(history: &mut [Event], one: usize, other: usize) {
    let first = history[one].lane.clone();
    let second = std::mem::replace(&mut history[other].lane, first);
    history[one].lane = second;
}

/// A simulation in which nothing happens would prove nothing.
#[test]
fn the_simulation_has_all_that_can_go_wrong() {
    let steps: Vec<Step> = (0..4000_u64)
        .map(|n| (n * n * 31 % 251, n * 7 / 3))
        .map(mixed)
        .collect();
    let histories: Vec<Event> = steps.chunks(100).flat_map(play).collect();
    let kinds: [fn(&What) -> bool; 7] = [
        |what| *what == What::Killed,
        |what| *what == What::Resumed,
        |what| matches!(what, What::Lost { .. }),
        |what| matches!(what, What::Renewed { .. }),
        |what| matches!(what, What::Failed { .. }),
        |what| matches!(what, What::GaveBack { .. }),
        |what| {
            matches!(
                what,
                What::Write {
                    accepted: false,
                    ..
                }
            )
        },
    ];
    for (index, kind) in kinds.into_iter().enumerate() {
        let seen = histories.iter().filter(|event| kind(&event.what)).count();
        assert!(seen >= 5, "kind {index} was seen {seen} times");
    }
}

fn mixed((what, who): (u64, u64)) -> Step {
    (u8::try_from(what).unwrap(), usize::try_from(who).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_correct_lock_pleases_all(steps in steps()) {
        let history = play(&steps);
        prop_assert_eq!(fence_order(&history), []);
        prop_assert_eq!(believed_holds(&history), []);
        prop_assert_eq!(guarded_resource(&history), []);
        prop_assert_eq!(fair_order(&history, BLUR), []);
        prop_assert_eq!(liveness(&history, BOUND), []);
        prop_assert_eq!(residue(&[]), []);
    }

    #[test]
    fn swapped_and_repeated_tokens_are_found(steps in steps(), pick in any::<prop::sample::Index>()) {
        let good = play(&steps);
        let grants = all(&good, |event| matches!(event.what, What::Believes { .. }));
        // The last of all, and one that was over before it was asked for: otherwise they have no order.
        let last = *grants.last().unwrap();
        let lane = &good[last].lane;
        let asked = all(&good, |event| event.lane == *lane && matches!(event.what, What::Waits { .. }))[0];
        let before: Vec<_> = grants.iter().copied().filter(|index| *index < asked).collect();
        let one = before[pick.index(before.len())];
        let mut swapped = good.clone();
        swap_tokens(&mut swapped, one, last);
        prop_assert!(!fence_order(&swapped).is_empty());
        let mut repeated = good;
        let token = *token_of(&mut repeated[one]);
        *token_of(&mut repeated[last]) = token;
        prop_assert!(!fence_order(&repeated).is_empty());
    }

    #[test]
    fn a_second_believer_is_found(steps in steps(), pick in any::<prop::sample::Index>()) {
        let mut history = play(&steps);
        let grants = all(&history, |event| matches!(event.what, What::Believes { .. }));
        let one = grants[pick.index(grants.len())];
        let (at, lane) = (history[one].at + 1, "intruder".to_owned());
        let (lock, token) = (LOCK.to_owned(), Some(1_000_000));
        let until = Some(at + 1);
        history.insert(one + 1, Event { at, lane, what: What::Believes { lock, token, until } });
        prop_assert_eq!(believed_holds(&history).len(), 1);
    }

    #[test]
    fn a_lock_given_back_after_the_next_grant_is_found(steps in steps(), turn in 0..3_usize) {
        let mut history = play(&steps);
        let returns = all(&history, |event| matches!(event.what, What::GaveBack { .. }));
        let one = returns[returns.len() - 4 + turn];
        let next = all(&history[one..], |event| matches!(event.what, What::Believes { .. }))[0] + one;
        let (early, late) = (history[one].at, history[next].at);
        (history[one].at, history[next].at) = (late, early);
        history.swap(one, next);
        prop_assert!(!believed_holds(&history).is_empty());
    }

    #[test]
    fn a_stale_write_is_found(steps in steps(), pick in any::<prop::sample::Index>()) {
        let mut history = play(&steps);
        let is_taken = |event: &Event| matches!(event.what, What::Write { accepted: true, .. });
        let writes = all(&history, is_taken);
        let last = *writes.last().unwrap();
        let newest = *token_of(&mut history[last]);
        let mut older = writes;
        older.retain(|index| *token_of(&mut history[*index]) < newest);
        let one = older[pick.index(older.len())];
        swap_tokens(&mut history, one, last);
        prop_assert!(!guarded_resource(&history).is_empty());
    }

    #[test]
    fn a_grant_out_of_turn_is_found(steps in steps(), one in 0..3_usize, other in 0..3_usize) {
        prop_assume!(one != other);
        let mut history = play(&steps);
        // The last four: the first of them had it at once, the others waited for it together.
        let waits = all(&history, |event| matches!(event.what, What::Waits { .. }));
        let (one, other) = (waits[waits.len() - 3 + one], waits[waits.len() - 3 + other]);
        swap_lanes(&mut history, one, other);
        prop_assert!(!fair_order(&history, BLUR).is_empty());
    }

    #[test]
    fn a_lost_answer_is_found(steps in steps(), pick in any::<prop::sample::Index>()) {
        let mut history = play(&steps);
        let killed: Vec<_> = history.iter().filter(|event| event.what == What::Killed).map(|event| event.lane.clone()).collect();
        let is_answer = |event: &Event| matches!(event.what, What::Done { .. } | What::Failed { .. });
        let answers = all(&history, |event| is_answer(event) && !killed.contains(&event.lane));
        history.remove(answers[pick.index(answers.len())]);
        prop_assert!(!liveness(&history, BOUND).is_empty());
    }
}
