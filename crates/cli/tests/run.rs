//! `lockkeeper run` from the outside: exit status, environment, streams.

mod place;

use std::io::Write;
use std::process::Stdio;

use place::{Place, until};

// proves: U2
#[test]
fn the_exit_status_is_the_commands() {
    let place = Place::new();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 37", 37),
        ("kill -9 $$", 137),
        ("kill $$", 143),
    ] {
        let finished = place.run(&["run", "n", "--", "sh", "-c", script]);
        assert_eq!(finished.code, code, "{script}: {finished:?}");
        assert_eq!(finished.stderr, "");
    }
    assert!(place.is_free("n"));
}

// proves: U2
#[test]
fn wrong_usage_is_2() {
    let place = Place::new();
    for args in [
        &["run", "n", "true"][..],
        &["run", "n"],
        &["run", "n", "--"],
        &["run", "", "--", "true"],
        &["run", &"x".repeat(257), "--", "true"],
        &["run", "n", "--try", "--wait", "1s", "--", "true"],
        &["run", "n", "--wait", "10", "--", "true"],
        &["run", "n", "--permits", "1", "--", "true"],
        &["run", "n", "--permits", "3", "--of", "2", "--", "true"],
        &[
            "run",
            "n",
            "--shared",
            "--permits",
            "1",
            "--of",
            "2",
            "--",
            "true",
        ],
        &["run", "n", "--grace", "20s", "--lease", "30s", "--", "true"],
        &["run", "n", "--on-lost", "cry", "--", "true"],
        &["check", "lk1:x:007:n"],
        &["break", "n"],
        &["unknown"],
        &[],
    ] {
        let finished = place.run(args);
        assert_eq!(finished.code, 2, "{args:?}: {finished:?}");
        assert_eq!(finished.stdout, "", "{args:?}");
        assert!(!finished.stderr.is_empty(), "{args:?}");
    }
}

// proves: U2
#[test]
fn a_bad_place_is_78() {
    let place = Place::new();
    for url in ["nonsense", "gopher://x", "local:relative/dir", ""] {
        let finished = place.run(&["--on", url, "run", "n", "--", "true"]);
        assert_eq!(finished.code, 78, "{url}: {finished:?}");
        assert!(finished.stderr.starts_with("lockkeeper: "), "{finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
}

// proves: U2
#[test]
fn a_place_that_is_not_safe_is_77() {
    let place = Place::new();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::create_dir(place.locks()).unwrap();
    std::fs::set_permissions(place.locks(), open).unwrap();
    let finished = place.run(&["run", "n", "--", "echo", "ran"]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (77, ""),
        "{finished:?}"
    );
    assert!(finished.stderr.starts_with("lockkeeper: "), "{finished:?}");
}

// proves: U2
#[test]
fn a_place_that_does_not_answer_is_69() {
    let place = Place::new();
    assert!(place.is_free("n"));
    for file in std::fs::read_dir(place.locks()).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".db") {
            std::fs::write(path, "this is no database, and never was one").unwrap();
        } else if name.contains(".db-") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let finished = place.run(&["run", "n", "--", "echo", "ran"]);
    assert_eq!(
        (finished.code, finished.stdout.as_str()),
        (69, ""),
        "{finished:?}"
    );
    assert!(finished.stderr.starts_with("lockkeeper: "), "{finished:?}");
}

// proves: U2
#[test]
fn a_command_that_cannot_run_leaves_the_lock_free() {
    let place = Place::new();
    std::fs::write(place.file("plain"), "no program").unwrap();
    for (command, code) in [
        ("no-such-command", 127),
        ("./plain", 126),
        ("/", 126),
        ("", 127),
    ] {
        let finished = place.run(&["run", "n", "--", command]);
        assert_eq!(finished.code, code, "{command}: {finished:?}");
        assert!(
            finished.stderr.starts_with("lockkeeper: cannot run"),
            "{finished:?}"
        );
        assert!(place.is_free("n"), "{command}");
    }
}

// proves: U2, F5
#[test]
fn the_command_sees_its_lock() {
    let place = Place::new();
    let script = "echo $LOCKKEEPER_NAME; echo $LOCKKEEPER_TOKEN; echo $LOCKKEEPER_SEQUENCER; \
                  $LK check $LOCKKEEPER_SEQUENCER";
    let finished = place.run(&["run", "orders/a b", "--", "sh", "-c", script]);
    assert_eq!(finished.code, 0, "{finished:?}");
    let lines: Vec<_> = finished.stdout.lines().collect();
    let token: u64 = lines[1].parse().unwrap();
    let sequencer = format!("lk1:x:{token}:orders/a%20b");
    assert_eq!(lines, ["orders/a b", lines[1], &sequencer, "valid"]);
    let stale = place.run(&["check", &sequencer]);
    assert_eq!((stale.code, stale.stdout.as_str()), (1, "stale\n"));
}

// proves: F1
#[test]
fn tokens_rise_from_run_to_run() {
    let place = Place::new();
    let mut last = 0;
    for _ in 0..5 {
        let finished = place.run(&["run", "n", "--", "sh", "-c", "echo $LOCKKEEPER_TOKEN"]);
        let token: u64 = finished.stdout.trim().parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
}

// proves: U2
#[test]
fn the_streams_belong_to_the_command() {
    let place = Place::new();
    let mut command = place.command(&["run", "n", "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"through\0and through")
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"through\0and through");
    assert_eq!(output.stderr, b"");
}

/// Also when lockkeeper has something to say.
#[test]
fn our_own_words_go_to_standard_error() {
    let place = Place::new();
    let _holder = place.holder("n", &[]);
    let finished = place.run(&["run", "n", "--try", "--", "echo", "hello"]);
    assert_eq!((finished.code, finished.stdout.as_str()), (75, ""));
}

#[test]
fn the_command_inherits_none_of_our_descriptors() {
    let place = Place::new();
    let bare = place
        .shell("exec ls /proc/self/fd")
        .output()
        .unwrap()
        .stdout;
    let under_lock = place.run(&["run", "n", "--", "ls", "/proc/self/fd"]).stdout;
    assert_eq!(under_lock, String::from_utf8(bare).unwrap());
}

/// Some service managers start their children with CHLD ignored; then the kernel throws exit
/// statuses away.
#[test]
fn an_ignored_chld_does_not_swallow_the_exit_status() {
    let place = Place::new();
    let output = place
        .shell("exec perl -e '$SIG{CHLD} = q(IGNORE); exec @ARGV' $LK run n -- sh -c 'exit 37'")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(37), "{output:?}");
}

// proves: L12, L13
#[test]
fn shared_holders_and_permits_run_together() {
    let place = Place::new();
    let _first = place.holder("docs", &["--shared"]);
    assert_eq!(
        place
            .run(&["run", "docs", "--try", "--shared", "--", "true"])
            .code,
        0
    );
    assert_eq!(place.run(&["run", "docs", "--try", "--", "true"]).code, 75);

    let permits = |take| ["--permits", take, "--of", "3"];
    let _two = place.holder("slots", &permits("2"));
    let try_to = |take| {
        let args = [
            &["run", "slots", "--try"][..],
            &permits(take),
            &["--", "true"],
        ]
        .concat();
        place.run(&args).code
    };
    assert_eq!((try_to("1"), try_to("2")), (0, 75));
}

/// The lock goes with the command, not with what it left in the background.
#[test]
fn background_processes_do_not_keep_the_lock() {
    let place = Place::new();
    let script = "sleep 30 >/dev/null 2>&1 & echo $!";
    let finished = place.run(&["run", "n", "--", "sh", "-c", script]);
    let orphan: i32 = finished.stdout.trim().parse().unwrap();
    assert!(place::is_alive(orphan), "it was not ours to end");
    assert!(place.is_free("n"));
    let pid = rustix::process::Pid::from_raw(orphan).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    until("the orphan is gone", || !place::is_alive(orphan));
}
