//! Lists as rows against the memory backend's reading of the rule, and each verb by itself.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::Name;
use crate::claim::Party;

const LEASE: Duration = Duration::from_secs(10);

fn row(order: u64, mode: Mode, left_us: i64, granted: bool) -> Row {
    Row {
        order,
        id: id(order),
        mode,
        left_us,
        lease_us: micros(LEASE),
        granted,
        keeper: format!("k{order}"),
    }
}

fn id(order: u64) -> ClaimId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&order.to_be_bytes());
    ClaimId::from_bytes(bytes)
}

fn claim(order: u64, mode: Mode) -> Claim {
    Claim {
        id: id(order),
        name: Name::new("a").unwrap(),
        mode,
        lease: LEASE,
        party: Arc::new(Party::here("test")),
    }
}

const X: Mode = Mode::Exclusive;
const S: Mode = Mode::Shared;

#[test]
fn the_dead_leave_and_the_next_is_told() {
    let list = List::of(vec![row(1, X, 0, true), row(2, X, 5, false)]);
    let change = list.purge();
    assert_eq!((change.delete, change.grant), (vec![1], vec![2]));
    let ring = Ring {
        keeper: "k2".into(),
        id: id(2),
        holds: Some(2),
    };
    assert_eq!(change.rings, [ring]);
}

// bug 32
#[test]
fn a_clock_that_was_set_back_costs_one_lease_and_no_more() {
    let hour = micros(Duration::from_secs(3600));
    let list = List::of(vec![row(1, X, hour, true)]);
    let (change, entered) = list.enter(&claim(2, X), Entry::Queue);
    assert_eq!(change.restart, [1]);
    let look_again_in = LEASE;
    assert_eq!(
        entered,
        Entered::Waits {
            ahead: 1,
            look_again_in
        }
    );
    // Whoever renews or leaves is not capped besides.
    let list = List::of(vec![row(1, X, hour, true)]);
    let (change, _) = list.clone().renew(&claim(1, X));
    assert_eq!((change.restart, change.renew), (vec![], Some(1)));
    assert!(list.release(id(1)).0.restart.is_empty());
}

#[test]
fn who_was_made_a_holder_is_not_told_again() {
    let rows = vec![row(1, S, 5, true), row(2, S, 5, true), row(3, X, 5, false)];
    let (change, standing) = List::of(rows).renew(&claim(2, S));
    let holds = Standing::Holds {
        order: 2,
        lease_left: LEASE,
    };
    assert_eq!(standing, holds);
    let expected = Change {
        renew: Some(2),
        ..Change::default()
    };
    assert_eq!(change, expected);
}

#[test]
fn breaking_tells_its_keeper_to_ask() {
    let (change, told) = List::of(vec![row(1, X, 5, true)]).evict(1);
    assert_eq!(told, Released::Freed);
    assert_eq!(change.rings[0].holds, None);
    let (change, told) = List::of(vec![row(1, X, 5, true)]).evict(2);
    assert_eq!(told, Released::Gone);
    assert!(change.is_empty());
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(X),
        Just(S),
        (1u32..4).prop_map(|take| Mode::Permits { take, of: 3 })
    ]
}

/// Carries a change out as a server would.
fn apply(rows: &mut Vec<Row>, change: &Change, claim: &Claim, order: u64) {
    rows.retain(|row| !change.delete.contains(&row.order));
    for row in rows.iter_mut() {
        row.granted |= change.grant.contains(&row.order);
        if change.share == Some(row.order) {
            row.mode = Mode::Shared;
        }
        if change.renew == Some(row.order) {
            row.left_us = micros(claim.lease);
        }
    }
    if let Some(insert) = change.insert {
        let granted = insert == Insert::Holding;
        rows.push(row(order, claim.mode, micros(LEASE), granted));
    }
}

proptest! {
    // proves: L1, L11, L12, L13
    #[test]
    fn after_every_change_exactly_the_holders_are_marked_and_each_is_told_once(
        steps in prop::collection::vec((0u8..7, modes(), any::<prop::sample::Index>()), 1..60)
    ) {
        let mut rows: Vec<Row> = Vec::new();
        let mut knowing = std::collections::HashSet::new();
        for (number, (verb, mode, at)) in steps.into_iter().enumerate() {
            let order = number as u64 + 1;
            let chosen = (!rows.is_empty()).then(|| at.index(rows.len()));
            let subject = chosen.map_or(order, |at| rows[at].order);
            let subject = if verb < 3 { order } else { subject };
            let asker = claim(subject, mode);
            if verb == 6 && let Some(at) = chosen {
                rows[at].left_us = 0;
            }
            let list = List::of(rows.clone());
            let (change, standing) = match verb {
                0 | 1 => list.enter(&asker, Entry::Queue),
                2 => list.enter(&asker, Entry::Try),
                3 => {
                    let (change, _) = list.release(asker.id);
                    (change, Entered::Known(Standing::Gone))
                }
                4 => match list.downgrade(&asker) {
                    Ok((change, standing)) => (change, Entered::Known(standing)),
                    Err(_) => continue,
                },
                5 => {
                    let (change, standing) = list.renew(&asker);
                    (change, Entered::Known(standing))
                }
                _ => (list.purge(), Entered::Known(Standing::Gone)),
            };
            apply(&mut rows, &change, &asker, order);
            for ring in &change.rings {
                prop_assert!(knowing.insert(ring.id), "told twice");
            }
            if let Standing::Holds { .. } = standing.standing(order, LEASE) {
                knowing.insert(asker.id);
            }
            let holders = rule::holders(rows.iter().map(|row| row.mode));
            for (place, row) in rows.iter().enumerate() {
                prop_assert_eq!(row.granted, place < holders, "{:?}", rows);
                prop_assert_eq!(knowing.contains(&row.id), place < holders);
            }
        }
    }
}
