//! Nothing in the tree depends on, or shows, the machine on which it was written.

use crate::tree::{Finding, Tree};

/// Split in two, so that this file does not break its own rule.
const PRIVATE: &[[&str; 2]] = &[["/wo", "rk/"], ["/ro", "ot/"], ["/ho", "me/"]];

const REGISTRIES: &[[&str; 2]] = &[
    ["index.", "crates.io"],
    ["static.", "crates.io"],
    ["deb.", "debian.org"],
    ["security.", "debian.org"],
    ["archive.", "ubuntu.com"],
    ["py", "pi.org"],
    ["python", "hosted.org"],
    ["registry.", "npmjs.org"],
    ["registry.", "yarnpkg.com"],
    ["repo.", "maven"],
    ["repo1.", "maven"],
    ["proxy.", "golang.org"],
];

pub(crate) fn no_private_paths(tree: &Tree) -> Vec<Finding> {
    let cure = "use a path relative to the workspace, or one that the program is given";
    // A directory of that name further down a path is nobody's business.
    let is_absolute =
        |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || "_-.~}".contains(c));
    found(tree, PRIVATE, cure, is_absolute)
}

pub(crate) fn no_registries(tree: &Tree) -> Vec<Finding> {
    let cure = "leave the choice of a registry to the machine's configuration";
    let begins_word = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || c == '-');
    found(tree, REGISTRIES, cure, begins_word)
}

fn found(tree: &Tree, needles: &[[&str; 2]], cure: &str, fits: fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree
        .files
        .iter()
        .filter(|file| !file.path.ends_with("Cargo.lock"))
    {
        for (index, line) in file.text.lines().enumerate() {
            for needle in needles.iter().map(|halves| halves.concat()) {
                if line.match_indices(&needle).any(|(at, _)| fits(&line[..at])) {
                    findings.push(file.finding(index + 1, format!("names {needle}"), cure));
                }
            }
        }
    }
    findings
}

#[test]
fn private_paths_are_found() {
    for halves in PRIVATE {
        let text = format!("//! A.\nopen(\"{}x\")\n", halves.concat());
        let findings = no_private_paths(&Tree::planted("docs/a.md", &text));
        assert_eq!(findings[0].place, "docs/a.md:2");
        let inside = format!("src{}x\n", halves.concat());
        assert!(no_private_paths(&Tree::planted("docs/a.md", &inside)).is_empty());
    }
}

#[test]
fn registries_are_found_outside_the_lock_file() {
    for halves in REGISTRIES {
        let text = format!("url = https://{}/x\n", halves.concat());
        assert_eq!(
            no_registries(&Tree::planted("README.md", &text)).len(),
            1,
            "{text}"
        );
        assert!(no_registries(&Tree::planted("Cargo.lock", &text)).is_empty());
    }
}
