//! What an operator sees: `ls`, `show`, `watch`, `guarantees`, and the documentation.

mod place;

use std::io::{BufRead, BufReader};

use place::{Job, Place, until};
use rustix::process::Signal;
use serde_json::json;

fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

// proves: U3
#[test]
fn ls_json_has_exactly_the_documented_shape() {
    let place = Place::new();
    assert_eq!(place.json(&["ls", "--json"]), json!([]));
    let holder = place.holder("orders/42", &["--lease", "20s"]);
    let waiter = place.start(&["run", "orders/42", "--", "true"]);
    until("it waits", || place.waiters("orders/42") == 1);

    let locks = place.json(&["ls", "orders/*", "--json"]);
    assert_eq!(locks.as_array().unwrap().len(), 1);
    let lock = &locks[0];
    assert_eq!(keys(lock), ["holders", "mode", "name", "waiters"]);
    assert_eq!(
        (&lock["name"], &lock["mode"]),
        (&json!("orders/42"), &json!("exclusive"))
    );
    let (held, waits) = (&lock["holders"][0], &lock["waiters"][0]);
    assert_eq!(
        keys(held),
        ["held_ms", "host", "lease_left_ms", "owner", "pid", "token"]
    );
    assert_eq!(keys(waits), ["host", "owner", "pid", "token", "waiting_ms"]);
    assert_eq!(
        (&held["owner"], &waits["owner"]),
        (&json!("sh"), &json!("true"))
    );
    assert_eq!(held["pid"], json!(holder.pid().as_raw_pid()));
    assert_eq!(waits["pid"], json!(waiter.pid().as_raw_pid()));
    assert!(held["token"].as_u64().unwrap() < waits["token"].as_u64().unwrap());
    let left = held["lease_left_ms"].as_u64().unwrap();
    assert!(left > 10_000 && left <= 20_000, "{left}");

    assert_eq!(place.json(&["ls", "other*", "--json"]), json!([]));
    assert_eq!(
        place.json(&["show", "orders/42", "--json"])["name"],
        json!("orders/42")
    );
    let free = json!({"name": "free", "mode": null, "holders": [], "waiters": []});
    assert_eq!(place.json(&["show", "free", "--json"]), free);
}

// proves: U3
#[test]
fn modes_are_named() {
    let place = Place::new();
    let _shared = place.holder("a", &["--shared"]);
    let _permits = place.holder("b", &["--permits", "1", "--of", "2"]);
    let locks = place.json(&["ls", "--json"]);
    assert_eq!(
        (&locks[0]["mode"], &locks[1]["mode"]),
        (&json!("shared"), &json!("permits"))
    );
}

// proves: U3
#[test]
fn tables_are_for_people() {
    let place = Place::new();
    assert_eq!(place.run(&["ls"]).stdout, "");
    assert_eq!(place.run(&["show", "n"]).stdout, "n is free\n");
    let holder = place.holder("n", &[]);
    let table = place.run(&["ls"]).stdout;
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines.len(), 2, "{table}");
    assert!(lines[0].starts_with("NAME  STATE  MODE"), "{table}");
    assert!(lines[1].starts_with("n     holds  exclusive"), "{table}");
    let shown = place.run(&["show", "n"]).stdout;
    let held_by = format!("n is held by sh (pid {} on ", holder.pid().as_raw_pid());
    assert!(shown.starts_with(&held_by), "{shown}");
    assert!(shown.contains("lk1:x:"), "{shown}");
}

/// A name is data: it must not clear the screen, forge a line or turn the writing direction.
#[test]
fn hostile_names_do_not_act_on_the_terminal() {
    let place = Place::new();
    let name = "a\nb\x1b[2J\u{202e}c\u{9b}31m*?'\";--";
    let _holder = place.holder(name, &[]);
    for args in [
        &["ls"][..],
        &["ls", "a*"],
        &["show", name],
        &["run", name, "--try", "--", "true"],
    ] {
        let finished = place.run(args);
        let shown = finished.stdout + &finished.stderr;
        let acts = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!shown.contains(acts), "{args:?}: {shown:?}");
        assert!(shown.contains("a\\nb\\u{1b}[2J"), "{args:?}: {shown}");
    }
    assert_eq!(place.run(&["ls"]).stdout.lines().count(), 2);
    assert_eq!(place.json(&["ls", "--json"])[0]["name"], json!(name));
    let name_seen = place.run(&[
        "run",
        "x\ny",
        "--",
        "sh",
        "-c",
        "printf %s \"$LOCKKEEPER_NAME\"",
    ]);
    assert_eq!(name_seen.stdout, "x\ny");
}

// proves: U3
#[test]
fn watch_prints_a_line_per_change() {
    let place = Place::new();
    let first = place.holder("n", &[]);
    let mut watch = place.start(&["watch", "n*"]);
    let mut lines = BufReader::new(watch.child().stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    let line = next();
    let (time, change) = line.split_once(' ').unwrap();
    assert_eq!(
        (time.len(), &time[10..11], &time[19..]),
        (20, "T", "Z"),
        "{line}"
    );
    assert!(change.starts_with("n holds token "), "{line}");
    first.signal(Signal::TERM);
    assert!(next().contains(" n freed token "));
    let _second = place.holder("n2", &[]);
    assert!(next().contains(" n2 holds token "));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    let _holder = place.holder("n", &[]);
    for command in [
        "ls",
        "show n",
        "guarantees",
        "man",
        "completions zsh",
        "ls --json",
    ] {
        let script = format!("{{ $LK {command}; echo $? > code; }} | true");
        let finished = Job::start(&mut place.shell(&script)).finish();
        assert_eq!(finished.stderr, "", "{command}");
        assert_eq!(place.read("code").trim(), "0", "{command}");
    }
}

// proves: C1
#[test]
fn guarantees_are_shown() {
    let place = Place::new();
    let shown = place.run(&["guarantees"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for title in [
        "engine", "class", "survives", "clock", "token", "modes", "leases",
    ] {
        assert!(
            shown.stdout.lines().any(|line| line.starts_with(title)),
            "{title}: {shown:?}"
        );
    }
    let promised = place.json(&["guarantees", "--json"]);
    assert_eq!(promised["backend"], json!("local"));
    assert_eq!(promised["dead_after"], json!("process-end"));
    assert_eq!(promised["modes"], json!(["exclusive", "shared", "permits"]));
}

// proves: U2
#[test]
fn documentation_needs_no_engine() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.run(&["--on", "nonsense", "completions", shell]);
        assert_eq!(script.code, 0, "{shell}");
        assert!(script.stdout.contains("lockkeeper"), "{shell}");
    }
    let page = place.run(&["--on", "nonsense", "man"]).stdout;
    for word in [
        ".TH lockkeeper 1",
        "EXIT STATUS",
        "LOCKKEEPER_TOKEN",
        "lockkeeper run",
        "pdeathsig",
    ] {
        assert!(
            page.to_lowercase().contains(&word.to_lowercase()),
            "{word} in {page}"
        );
    }
    assert_eq!(place.run(&["--version"]).code, 0);
    assert!(
        !place.locks().exists(),
        "nothing is made that is not needed"
    );
}
