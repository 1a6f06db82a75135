//! Many runs on one name: nobody overlaps, nobody waits for the dead.

mod place;

use std::time::{Duration, Instant};

use place::{Place, until};
use rustix::process::Signal;

// proves: L9, U2
#[test]
fn try_gives_up_at_once_and_names_the_holder() {
    let place = Place::new();
    let holder = place.holder("n", &[]);
    let finished = place.run(&["run", "n", "--try", "--", "touch", "ran"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (75, ""));
    let pid = format!("sh (pid {} on ", holder.pid().as_raw_pid());
    assert!(finished.stderr.contains(&pid), "{finished:?}");
    assert!(!place.file("ran").exists());
}

// proves: L9, U2
#[test]
fn wait_gives_up_in_time_and_names_the_holder() {
    let place = Place::new();
    let _holder = place.holder("n", &[]);
    let start = Instant::now();
    let finished = place.run(&["run", "n", "--wait", "300ms", "--", "touch", "ran"]);
    let waited = start.elapsed();
    assert_eq!((finished.code, finished.stdout.as_str()), (75, ""));
    assert!(finished.stderr.contains("sh (pid "), "{finished:?}");
    assert!(
        waited >= Duration::from_millis(300) && waited < Duration::from_secs(3),
        "{waited:?}"
    );
    assert!(!place.file("ran").exists());
    assert_eq!(place.waiters("n"), 0);
}

// proves: L9
#[test]
fn wait_gets_in_when_the_holder_ends() {
    let place = Place::new();
    let holder = place.holder("n", &[]);
    let limited = place.start(&["run", "n", "--wait", "30s", "--", "echo", "in"]);
    let unlimited = place.start(&["run", "n", "--", "echo", "in"]);
    until("both wait", || place.waiters("n") == 2);
    holder.signal(Signal::TERM);
    assert_eq!(holder.finish().code, 143);
    for waiter in [limited, unlimited] {
        let finished = waiter.finish();
        assert_eq!(
            (finished.code, finished.stdout.as_str()),
            (0, "in\n"),
            "{finished:?}"
        );
    }
}

// proves: L3
#[test]
fn a_killed_holder_is_gone_at_once() {
    let place = Place::new();
    let holder = place.holder("n", &["--lease", "30s"]);
    let waiter = place.start(&["run", "n", "--", "echo", "in"]);
    until("it waits", || place.waiters("n") == 1);
    let start = Instant::now();
    holder.signal(Signal::KILL);
    let finished = waiter.finish();
    let waited = start.elapsed();
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (0, "in\n"),
        "{finished:?}"
    );
    assert!(waited < Duration::from_secs(3), "{waited:?}");
}

// proves: L1, U2
#[test]
fn a_hundred_cron_jobs_never_overlap() {
    let place = Place::new();
    std::fs::write(place.file("counter"), "0").unwrap();
    // Reads, dawdles, writes: any overlap loses an increment.
    let script = "n=$(cat counter); sleep 0.002; echo $((n + 1)) > counter";
    let jobs: Vec<_> = (0..100)
        .map(|_| place.start(&["run", "n", "--", "sh", "-c", script]))
        .collect();
    for job in jobs {
        let finished = job.finish();
        assert_eq!(finished.code, 0, "{finished:?}");
    }
    assert_eq!(place.read("counter").trim(), "100");
}
