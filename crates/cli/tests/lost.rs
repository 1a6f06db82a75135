//! A command whose lock is lost does not work on: TERM before the deadline, KILL by it.

mod place;

use std::time::{Duration, Instant, SystemTime};

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

/// The shell dies of TERM; what it started does not.
// bug 71
#[test]
fn an_orphan_that_ignores_term_is_killed_too() {
    let place = Place::new();
    let script = "(trap '' TERM; echo > up; sleep 60; sleep 60) & echo $! > inner; wait";
    let options = [
        "run", "n", "--lease", "3s", "--grace", "300ms", "--", "sh", "-c", script,
    ];
    let job = place.start(&options);
    until("the command runs", || {
        place.file("up").exists() && place.read("inner").ends_with('\n')
    });
    let orphan = place.read("inner").trim().parse().unwrap();
    break_it(&place);
    until("lockkeeper is done", || !is_alive(job.pid().as_raw_pid()));
    assert!(!is_alive(orphan));
    assert_eq!(job.finish().code, 76);
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

/// Nobody can renew while somebody sits in the gate of the directory.
fn shut(place: &Place) -> std::fs::File {
    let gate = std::fs::File::open(place.locks().join("gate")).unwrap();
    gate.lock().unwrap();
    gate
}

// proves: U2, L7 — bug 71
#[test]
fn a_lock_that_cannot_be_renewed_ends_the_command_before_its_deadline() {
    let place = Place::new();
    let script = "trap 'date +%s%N >> told' TERM; echo > up; while :; do date +%s%N >> last; sleep 0.01; done";
    let options = [
        "run", "n", "--lease", "2s", "--grace", "600ms", "--", "sh", "-c", script,
    ];
    let job = place.start(&options);
    until("the command runs", || place.file("up").exists());
    let gate = shut(&place);
    let start = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let pid = job.pid().as_raw_pid();
    until("it is over", || {
        !is_alive(pid) || place.read("told").ends_with('\n')
    });
    std::thread::sleep(Duration::from_millis(800));
    // The last whole line: KILL may have come in the middle of one.
    let after = |name| {
        let text = place.read(name);
        let (whole, _) = text.rsplit_once('\n').unwrap();
        let nanos = whole.lines().last().unwrap().parse().unwrap();
        Duration::from_nanos(nanos).saturating_sub(start)
    };
    let (told, last) = (after("told"), after("last"));
    drop(gate);
    let finished = job.finish();
    assert_eq!(finished.code, 76, "{finished:?}");
    assert!(
        finished.stderr.contains("could not be renewed"),
        "{finished:?}"
    );
    // The last renewal was before the gate was shut: its lease ends at most two seconds after that.
    assert!(told < Duration::from_millis(1_500), "TERM after {told:?}");
    assert!(last > told, "the command shrugged TERM off");
    assert!(
        last < Duration::from_secs(2),
        "still at work after {last:?}"
    );
}

// proves: U2
#[test]
fn a_lock_at_risk_ends_nothing_as_long_as_there_is_time() {
    let place = Place::new();
    let script = "echo > up; sleep 4; exit 5";
    let options = [
        "run", "n", "--lease", "4500ms", "--grace", "300ms", "--", "sh", "-c", script,
    ];
    let job = place.start(&options);
    until("the command runs", || place.file("up").exists());
    // A renewal is due after a third of the lease, and is given up after another.
    let gate = shut(&place);
    std::thread::sleep(Duration::from_millis(3_500));
    drop(gate);
    let finished = job.finish();
    assert_eq!((finished.code, finished.stderr.as_str()), (5, ""));
}
