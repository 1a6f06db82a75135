//! Signals to `lockkeeper run` reach the command, once.

mod place;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::time::Duration;

use place::{Job, Place, state, until};
use rustix::process::Signal;

// proves: U2
#[test]
fn signals_are_passed_on() {
    let place = Place::new();
    for (name, signal) in [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        let script = format!(
            "trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.01; done"
        );
        let mut job = place.start(&["run", "n", "--", "sh", "-c", &script]);
        let mut lines = BufReader::new(job.child().stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        job.signal(signal);
        assert_eq!(lines.next().unwrap().unwrap(), format!("got {name}"));
        assert_eq!(job.finish().code, 9, "{name}");
    }
    assert!(place.is_free("n"));
}

#[test]
fn a_signal_that_ends_the_command_is_the_exit_status() {
    let place = Place::new();
    let job = place.holder("n", &[]);
    job.signal(Signal::TERM);
    assert_eq!(job.finish().code, 143);
    assert!(place.is_free("n"));
}

// proves: L9
#[test]
fn a_waiter_that_is_told_to_end_leaves_nothing_behind() {
    let place = Place::new();
    let holder = place.holder("n", &[]);
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let waiter = place.start(&["run", "n", "--", "touch", "ran"]);
        until("it waits", || place.waiters("n") == 1);
        waiter.signal(signal);
        assert_eq!(waiter.finish().code, code);
        assert_eq!(place.waiters("n"), 0);
    }
    holder.signal(Signal::TERM);
    holder.finish();
    assert!(place.is_free("n"));
    assert!(!place.file("ran").exists());
}

/// Ctrl-C goes to the whole foreground group: the command has it already when we get it.
#[test]
fn control_c_arrives_once_and_ends_the_script_around_us() {
    let place = Place::new();
    // Counts what is delivered, at once: a shell's trap would make one of two that come together.
    let inner = r#"
        use POSIX; $| = 1; my $count = 0;
        sigaction(SIGINT, POSIX::SigAction->new(sub { $count++ }));
        print "ready\n";
        my $end = time + 3; select(undef, undef, undef, 0.1) while time < $end;
        open(my $log, ">", "log"); print $log $count; close $log;
        $SIG{INT} = 'DEFAULT'; kill INT => $$; sleep 1;
    "#;
    std::fs::write(place.file("inner"), inner).unwrap();
    let outer = "$LK run n -- perl ./inner; echo went on > after";
    let mut script = std::process::Command::new("script");
    script
        .args(["-qefc", outer, "/dev/null"])
        .env("SHELL", "/bin/bash");
    script
        .env("LOCKKEEPER_URL", place.url())
        .env("LK", place::PROGRAM);
    script.current_dir(place.file(""));
    script
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut job = Job::start(&mut script);
    let mut keyboard = job.child().stdin.take().unwrap();
    let mut screen = BufReader::new(job.child().stdout.take().unwrap());
    let mut line = String::new();
    screen.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "ready");
    // Two signals that come together count as one: of many pairs, some come apart.
    for _ in 0..20 {
        keyboard.write_all(b"\x03").unwrap();
        keyboard.flush().unwrap();
        std::thread::sleep(Duration::from_millis(30));
    }
    let mut rest = Vec::new();
    screen.read_to_end(&mut rest).unwrap();
    job.finish();
    assert_eq!(place.read("log"), "20", "once each, not twice");
    assert!(
        !place.file("after").exists(),
        "bash must see that Ctrl-C ended us"
    );
}

#[test]
fn what_nohup_ignores_stays_ignored() {
    let place = Place::new();
    let script = "trap '' HUP; exec $LK run n -- sh -c 'grep SigIgn /proc/self/status; echo > up; sleep 0.5'";
    let job = Job::start(&mut place.shell(script));
    until("the command runs", || place.file("up").exists());
    job.signal(Signal::HUP);
    let finished = job.finish();
    assert_eq!(finished.code, 0, "{finished:?}");
    let set = finished
        .stdout
        .trim()
        .strip_prefix("SigIgn:")
        .unwrap()
        .trim();
    assert_eq!(
        u64::from_str_radix(set, 16).unwrap() & 1,
        1,
        "HUP is ignored by the command too"
    );
}

#[test]
fn a_stop_stops_both_and_a_continue_continues_both() {
    let place = Place::new();
    let script = "echo $$ > pid; while :; do sleep 0.01; done";
    let job = place.start(&["run", "n", "--", "sh", "-c", script]);
    until("the command runs", || place.read("pid").ends_with('\n'));
    let command: i32 = place.read("pid").trim().parse().unwrap();
    let keeper = job.pid().as_raw_pid();
    job.signal(Signal::TSTP);
    until("both are stopped", || {
        state(command) == Some('T') && state(keeper) == Some('T')
    });
    job.signal(Signal::CONT);
    until("both go on", || {
        state(command) != Some('T') && state(keeper) != Some('T')
    });
    job.signal(Signal::TERM);
    assert_eq!(job.finish().code, 143);
}
