//! The seams of the library: what a backend may know, who may name an engine, who may read a clock.

use crate::masks::{code_only, line_of, without_comments, without_tests};
use crate::tree::{File, Finding, Tree};

const BACKENDS: &str = "crates/lockkeeper/src/backends/";
const CLOCK: &str = "crates/lockkeeper/src/lifecycle/deadline.rs";
const CONNECT: &str = "crates/lockkeeper/src/connect.rs";

/// What a backend may use of the rest of the library: the trait, the nouns, and the clock.
const BACKEND_MAY_USE: &[&str] = &[
    "backend",
    "claim",
    "rule",
    "name",
    "guarantees",
    "Mode",
    "Name",
    "Token",
    "error",
    "lifecycle::deadline",
    // The pieces of a URL, and whom to trust behind it, are the same for all.
    "backends::url",
    "backends::tls",
];

const ENGINES: &[&str] = &[
    "redis",
    "etcd",
    "zookeeper",
    "postgres",
    "mysql",
    "mariadb",
    "sqlite",
    "rusqlite",
];

pub(crate) fn backends_import_little(tree: &Tree) -> Vec<Finding> {
    let cure = "a backend uses the trait, the nouns, the clock and its own folder only";
    let mut findings = Vec::new();
    for (file, backend) in tree
        .library()
        .filter_map(|file| Some((file, backend_of(file)?)))
    {
        let code = without_tests(&file.text, &code_only(&file.text));
        for (at, path) in paths_after(&code, "crate::") {
            if !may_use(&path, backend) {
                findings.push(file.finding(
                    line_of(&code, at),
                    format!("uses crate::{path}"),
                    cure,
                ));
            }
        }
        for (at, path) in escapes(file, &code) {
            findings.push(file.finding(line_of(&code, at), format!("uses {path}"), cure));
        }
    }
    findings
}

/// The backend that a file belongs to; the list of backends itself belongs to none.
fn backend_of(file: &File) -> Option<&str> {
    let rest = file.path.strip_prefix(BACKENDS)?;
    let name = rest.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (name != "mod").then_some(name)
}

fn may_use(path: &str, backend: &str) -> bool {
    let is_in = |module: &str| path == module || path.starts_with(&format!("{module}::"));
    // The SQL dialects share their statements; a quorum of Redis nodes is made of Redis connections.
    let shared = if backend == "redlock" { "redis" } else { "sql" };
    let siblings = [
        format!("backends::{backend}"),
        format!("backends::{shared}"),
    ];
    BACKEND_MAY_USE.iter().any(|module| is_in(module)) || siblings.iter().any(|own| is_in(own))
}

/// Ways out of the folder that do not begin with `crate`.
fn escapes(file: &File, code: &str) -> Vec<(usize, String)> {
    let depth = file.path[BACKENDS.len()..].matches('/').count();
    let is_root = depth == 0 || file.path.ends_with("/mod.rs");
    let way_out = "super::".repeat(if is_root { depth.max(1) } else { depth + 1 });
    code.match_indices(&way_out)
        .map(|(at, found)| (at, found.to_owned()))
        .collect()
}

/// All paths that follow `start`, groups in braces written out.
fn paths_after(code: &str, start: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(start) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let mut paths = Vec::new();
        write_out(&code[at + start.len()..], "", &mut paths);
        found.extend(paths.into_iter().map(|path| (at, path)));
    }
    found
}

/// Writes out one path or group; gives how much of `text` it took.
fn write_out(text: &str, prefix: &str, paths: &mut Vec<String>) -> usize {
    if !text.starts_with('{') {
        let ends = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '*');
        let end = text.find(ends).unwrap_or(text.len());
        let name = &text[..end];
        if let Some(inner) = name
            .strip_suffix("::")
            .filter(|_| text[end..].starts_with('{'))
        {
            return end + write_out(&text[end..], &format!("{prefix}{inner}::"), paths);
        }
        paths.push(format!("{prefix}{name}"));
        return end;
    }
    let mut at = 1;
    while let Some(next) = text[at..].chars().next() {
        match next {
            '}' => return at + 1,
            c if c.is_alphanumeric() || c == '_' || c == '*' => {
                at += write_out(&text[at..], prefix, paths);
            }
            c => at += c.len_utf8(),
        }
    }
    at
}

pub(crate) fn engines_stay_in_backends(tree: &Tree) -> Vec<Finding> {
    let cure = "say it without the engine's name, or move it to the engine's backend";
    let outside = |file: &&File| !file.path.starts_with(BACKENDS) && file.path != CONNECT;
    let mut findings = Vec::new();
    for file in tree.library().filter(outside) {
        let code = without_comments(&file.text).to_ascii_lowercase();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        for (index, line) in code.lines().enumerate() {
            let words = line.split(|c| !is_word(c));
            let named = words.filter(|word| ENGINES.contains(word));
            findings.extend(
                named.map(|engine| file.finding(index + 1, format!("names {engine}"), cure)),
            );
        }
    }
    findings
}

/// No wall clock can enter a decision if nobody reads one: not for leases (bug 28), not for waits
/// (bug 34).
pub(crate) fn one_clock(tree: &Tree) -> Vec<Finding> {
    let cure = "ask the clock of lifecycle/deadline.rs, so that tests own the time";
    let mut findings = Vec::new();
    for file in tree.library().filter(|file| file.path != CLOCK) {
        let code = code_only(&file.text);
        for call in ["Instant::now", "SystemTime::now"] {
            let calls = code.match_indices(call);
            findings.extend(calls.map(|(at, _)| file.finding(line_of(&code, at), call, cure)));
        }
    }
    findings
}

#[test]
fn a_backend_that_reaches_out_is_found() {
    let path = "crates/lockkeeper/src/backends/redis/client.rs";
    let good = "//! A.\nuse crate::error::{Error, Result};\nuse crate::{\n    claim::Claim,\n    lifecycle::{deadline::Deadline},\n};\nuse crate::backends::redis::config::Config;\nuse super::config;\n#[cfg(test)]\nmod tests { use crate::keeper::Keeper; }\n";
    assert!(backends_import_little(&Tree::planted(path, good)).is_empty());
    for bad in [
        "use crate::keeper::Keeper;",
        "use crate::{error::Error, lifecycle::{deadline, watchdog}};",
        "use crate::backends::etcd::client;",
        "fn f() -> crate::Keeper {}",
        "use super::super::etcd;",
    ] {
        let findings = backends_import_little(&Tree::planted(path, &format!("//! A.\n{bad}\n")));
        assert_eq!(findings.len(), 1, "{bad}: {findings:?}");
        assert!(findings[0].place.ends_with(":2"));
    }
    let root = "crates/lockkeeper/src/backends/redis/mod.rs";
    assert_eq!(
        backends_import_little(&Tree::planted(root, "use super::etcd;\n")).len(),
        1
    );
    let list = "crates/lockkeeper/src/backends/mod.rs";
    assert!(backends_import_little(&Tree::planted(list, "use crate::keeper;\n")).is_empty());
}

#[test]
fn an_engine_named_outside_is_found() {
    let text = "//! Like redis.\n// etcd\nfn f() { g(\"Redis://\") }\nfn redistribute() {}\n";
    let findings =
        engines_stay_in_backends(&Tree::planted("crates/lockkeeper/src/keeper.rs", text));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].place, "crates/lockkeeper/src/keeper.rs:3");
    assert!(engines_stay_in_backends(&Tree::planted(CONNECT, text)).is_empty());
}

#[test]
fn a_second_clock_is_found() {
    let text = "//! Not Instant::now.\nlet t = tokio::time::Instant::now();\n";
    let findings = one_clock(&Tree::planted("crates/lockkeeper/src/guard.rs", text));
    assert_eq!(findings[0].place, "crates/lockkeeper/src/guard.rs:2");
    assert!(one_clock(&Tree::planted(CLOCK, text)).is_empty());
}
