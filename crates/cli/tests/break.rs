//! `lockkeeper break` from the outside.

mod place;

use place::{Place, until};

// proves: U3, F1
#[test]
fn the_next_waiter_gets_in_with_a_higher_token() {
    let place = Place::new();
    let _holder = place.holder("n", &[]);
    let waiter = place.start(&["run", "n", "--", "sh", "-c", "echo $LOCKKEEPER_TOKEN"]);
    until("it waits", || place.waiters("n") == 1);
    let held = place.json(&["show", "n", "--json"])["holders"][0]["token"]
        .as_u64()
        .unwrap();

    let broken = place.run(&["break", "n", "--reason", "it hangs", "--yes"]);
    assert_eq!((broken.code, broken.stderr.as_str()), (0, ""), "{broken:?}");
    assert!(
        broken.stdout.contains(&format!("token {held} of")),
        "{broken:?}"
    );

    let next: u64 = waiter.finish().stdout.trim().parse().unwrap();
    assert!(next > held, "{next} after {held}");
    let stale = place.run(&["check", &format!("lk1:x:{held}:n")]);
    assert_eq!(stale.code, 1, "{stale:?}");
}

#[test]
fn all_present_holders_are_broken() {
    let place = Place::new();
    let _first = place.holder("n", &["--shared"]);
    let _second = place.holder("n", &["--shared"]);
    let broken = place.run(&["break", "n", "--reason", "maintenance", "-y"]);
    assert_eq!(
        (broken.code, broken.stdout.lines().count()),
        (0, 2),
        "{broken:?}"
    );
    assert!(place.is_free("n"));
}

#[test]
fn nobody_to_break_is_1() {
    let place = Place::new();
    let finished = place.run(&["break", "n", "--reason", "why not", "--yes"]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (1, ""),
        "{finished:?}"
    );
    assert!(finished.stderr.contains("nobody holds"), "{finished:?}");
}

/// A script that forgot `--yes` must not hang on a question, nor break anything.
#[test]
fn without_a_terminal_it_needs_yes() {
    let place = Place::new();
    let _holder = place.holder("n", &[]);
    for reason in ["really", ""] {
        let finished = place.run(&["break", "n", "--reason", reason]);
        assert_eq!(finished.code, 2, "{finished:?}");
    }
    assert!(!place.is_free("n"));
}
