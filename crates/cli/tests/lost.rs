//! A command whose lock is lost does not work on: TERM before the deadline, KILL by it.

mod place;

use std::time::{Duration, Instant};

use place::{Job, Place, is_alive, until};
use rustix::process::Signal;

/// A command that shrugs TERM off, with a child of its own that does too.
const STUBBORN: &str =
    "trap '' TERM; sleep 60 & echo $! > inner; echo $$ > outer; sleep 60; sleep 60";

fn stubborn(place: &Place, options: &[&str]) -> (Job, [i32; 2]) {
    let args = [&["run", "n"][..], options, &["--", "sh", "-c", STUBBORN]].concat();
    let job = place.start(&args);
    until("the command runs", || place.read("outer").ends_with('\n'));
    let pid = |name| place.read(name).trim().parse().unwrap();
    (job, [pid("inner"), pid("outer")])
}

fn break_it(place: &Place) {
    let finished = place.run(&["break", "n", "--reason", "test", "--yes"]);
    assert_eq!(finished.code, 0, "{finished:?}");
}

// proves: U2, W2 — bug 71
#[test]
fn a_broken_lock_ends_the_command() {
    let place = Place::new();
    let script = "trap 'echo told; exit 3' TERM; echo > up; while :; do sleep 0.01; done";
    let options = ["run", "n", "--lease", "3s", "--", "sh", "-c", script];
    let job = place.start(&options);
    until("the command runs", || place.file("up").exists());
    break_it(&place);
    let finished = job.finish();
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (76, "told\n"),
        "{finished:?}"
    );
    assert!(finished.stderr.contains("lost"), "{finished:?}");
}

// bug 71
#[test]
fn what_ignores_term_is_killed_with_all_its_children() {
    let place = Place::new();
    let (job, pids) = stubborn(&place, &["--lease", "3s", "--grace", "300ms"]);
    break_it(&place);
    let start = Instant::now();
    let finished = job.finish();
    assert_eq!(finished.code, 76, "{finished:?}");
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
}

// bug 71
#[test]
fn a_stopped_lockkeeper_kills_the_command_when_it_wakes_too_late() {
    let place = Place::new();
    let (job, pids) = stubborn(&place, &["--lease", "1s"]);
    job.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(1500));
    assert!(place.is_free("n"), "the lease has ended");
    job.signal(Signal::CONT);
    let start = Instant::now();
    let finished = job.finish();
    assert_eq!(finished.code, 76, "{finished:?}");
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
}

/// A pause shorter than the lease is none of the command's business.
#[test]
fn a_short_stop_ends_nothing() {
    let place = Place::new();
    let job = place.start(&[
        "run",
        "n",
        "--lease",
        "3s",
        "--",
        "sh",
        "-c",
        "echo > up; sleep 2; exit 5",
    ]);
    until("the command runs", || place.file("up").exists());
    job.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(900));
    job.signal(Signal::CONT);
    let finished = job.finish();
    assert_eq!((finished.code, finished.stderr.as_str()), (5, ""));
}

// proves: U2
#[test]
fn on_lost_warn_lets_the_command_finish() {
    let place = Place::new();
    let script = "echo > up; sleep 1.5; echo done";
    let options = [
        "run",
        "n",
        "--lease",
        "1s",
        "--on-lost",
        "warn",
        "--",
        "sh",
        "-c",
        script,
    ];
    let job = place.start(&options);
    until("the command runs", || place.file("up").exists());
    break_it(&place);
    let finished = job.finish();
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (76, "done\n"),
        "{finished:?}"
    );
    assert!(
        finished.stderr.contains("goes on without it"),
        "{finished:?}"
    );
}

/// A renewed lock outlives its lease many times over.
#[test]
fn a_lock_that_is_renewed_is_not_lost() {
    let place = Place::new();
    let finished = place.run(&["run", "n", "--lease", "500ms", "--", "sleep", "2"]);
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""));
}
