//! `lockkeeper lab`: every story goes as it is told, and its page is there.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command.arg("lab").args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn names() -> Vec<String> {
    let list = printed(&lab(&["list"]));
    let first = |line: &str| line.split(' ').next().map(str::to_owned);
    list.lines().filter_map(first).collect()
}

// proves: N1, N2, N3
#[test]
fn every_story_goes_as_it_is_told() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("new").join("pages");
    let played = lab(&["run", "--all", "--html", directory.to_str().unwrap()]);
    let text = printed(&played);
    let error = String::from_utf8_lossy(&played.stderr);
    assert_eq!(played.status.code(), Some(0), "{text}\n{error}");
    let names = names();
    assert!(names.len() >= 26, "{names:?}");
    for name in &names {
        assert!(
            text.contains(&format!("{name}: ")),
            "{name} is not told:\n{text}"
        );
        let harm = directory.join(format!("{name}.naive.svg"));
        assert!(
            fs::read_to_string(harm).unwrap().starts_with("<svg"),
            "{name}"
        );
        let history = directory.join(format!("{name}.naive.jsonl"));
        assert!(
            fs::read_to_string(history).unwrap().lines().count() > 3,
            "{name}"
        );
    }
    for page in ["index.html", "index.zh-CN.html"] {
        let page = fs::read_to_string(directory.join(page)).unwrap();
        assert!(names.iter().all(|name| page.contains(name.as_str())));
    }
}

/// The guide tells every story, in both languages, with pictures that are there.
#[test]
fn the_guide_tells_every_story() {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    for guide in ["guide.md", "guide.zh-CN.md"] {
        let text = fs::read_to_string(docs.join(guide)).unwrap();
        for name in names() {
            let command = format!("`lockkeeper lab run {name}`");
            assert!(text.contains(&command), "{guide} does not tell {name}");
        }
        let pictures = text.lines().filter_map(|line| {
            line.strip_prefix("![")?
                .split_once("](")?
                .1
                .strip_suffix(')')
        });
        for picture in pictures {
            assert!(docs.join(picture).exists(), "{guide} shows {picture}");
        }
    }
}

#[test]
fn a_story_that_is_not_there_is_wrong_usage() {
    let wrong = lab(&["run", "no-such-story"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        said.contains("no-such-story") && said.contains("lab list"),
        "{said}"
    );
    assert_eq!(lab(&["run"]).status.code(), Some(2));
}

/// Without the server that it needs, a story says which package is missing. The server is hidden from this one
/// process and its children.
#[test]
fn a_missing_server_is_named() {
    let hide =
        "mount --bind /dev/null /usr/bin/redis-server && exec \"$0\" lab run crash-without-expiry";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", hide]);
    let alone = command
        .arg(env!("CARGO_BIN_EXE_lockkeeper"))
        .output()
        .unwrap();
    let text = printed(&alone);
    assert_eq!(alone.status.code(), Some(69), "{text}{alone:?}");
    assert!(
        text.contains("install the Debian package redis-server"),
        "{text}"
    );
}
