//! The shape of files: each says what lives there, none is long, `lib.rs` is a table of contents.

use crate::masks::{code_only, line_of, without_tests};
use crate::tree::{File, Finding, Tree};

const MOST_LINES: usize = 500;

/// What a statement of `lib.rs` may begin with.
const CONTENTS: &[&str] = &["mod ", "pub mod ", "pub use ", "pub(crate) mod "];

pub(crate) fn opens_with_docs(tree: &Tree) -> Vec<Finding> {
    let cure = "open the file with `//!` and one to three sentences on what lives there";
    let bare = tree.rust().filter(|file| !file.text.starts_with("//!"));
    bare.map(|file| file.finding(1, "does not say what lives here", cure))
        .collect()
}

pub(crate) fn is_short(tree: &Tree) -> Vec<Finding> {
    let cure = "split it by job; tests, documentation and blank lines do not count";
    let long = tree
        .rust()
        .filter(|file| !file.is_test())
        .filter_map(|file| {
            let lines = counted_lines(file);
            (lines > MOST_LINES).then(|| file.finding(1, format!("{lines} lines"), cure))
        });
    long.collect()
}

fn counted_lines(file: &File) -> usize {
    let text = without_tests(&file.text, &file.text);
    let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !is_doc(line))
        .count()
}

pub(crate) fn lib_is_a_table_of_contents(tree: &Tree) -> Vec<Finding> {
    let cure = "move it to a module; lib.rs has docs, attributes, `mod` and `pub use` only";
    let mut findings = Vec::new();
    for file in tree
        .rust()
        .filter(|file| file.path.ends_with("/src/lib.rs"))
    {
        let code = without_attributes(&without_tests(&file.text, &code_only(&file.text)));
        let mut start = 0;
        for statement in code.split_inclusive(';') {
            let words = statement.trim_start();
            let at = start + statement.len() - words.len();
            start += statement.len();
            let listed = CONTENTS.iter().any(|begin| words.starts_with(begin));
            // Braces belong to a list of names, or else to a module written right here.
            let has_body = words.contains('{') && !words.starts_with("pub use ");
            if !words.is_empty() && (!listed || has_body) {
                let first = words.lines().next().unwrap_or_default();
                findings.push(file.finding(line_of(&code, at), format!("`{first}`"), cure));
            }
        }
    }
    findings
}

/// Blanks `#[…]` and `#![…]`, brackets inside included.
fn without_attributes(code: &str) -> String {
    let mut depth = 0_usize;
    let mut after_hash = false;
    let blank = |character: char| if character == '\n' { '\n' } else { ' ' };
    let masked = code.chars().map(|character| {
        let inside = depth > 0 || after_hash || character == '#';
        match character {
            '[' if after_hash || depth > 0 => depth += 1,
            ']' if depth > 0 => depth -= 1,
            _ => {}
        }
        after_hash = character == '#' || (after_hash && character == '!');
        if inside { blank(character) } else { character }
    });
    masked.collect()
}

#[test]
fn a_file_without_a_first_sentence_is_found() {
    let tree = Tree::planted("crates/x/src/a.rs", "use std::fs;\n");
    assert_eq!(opens_with_docs(&tree)[0].place, "crates/x/src/a.rs:1");
    let tree = Tree::planted("crates/x/src/a.rs", "//! A file.\n");
    assert!(opens_with_docs(&tree).is_empty());
}

#[test]
fn a_long_file_is_found_and_tests_do_not_count() {
    let docs = "/// Docs.\n\n".repeat(600);
    let tests = format!(
        "#[cfg(test)]\nmod tests {{\n{}}}\n",
        "fn t() {}\n".repeat(600)
    );
    let of_length = |lines| format!("//! A.\n{docs}{}{tests}", "fn f() {}\n".repeat(lines));
    assert!(is_short(&Tree::planted("crates/x/src/a.rs", &of_length(500))).is_empty());
    let findings = is_short(&Tree::planted("crates/x/src/a.rs", &of_length(501)));
    assert_eq!(findings[0].what, "501 lines");
}

#[test]
fn code_in_lib_rs_is_found() {
    let good = "//! Docs.\n#![forbid(unsafe_code)]\n\n/// A [thing].\n#[cfg(feature = \"a[b]\")]\npub mod a;\nmod b;\npub use b::{C,\n    D};\n";
    assert!(lib_is_a_table_of_contents(&Tree::planted("crates/x/src/lib.rs", good)).is_empty());
    for bad in [
        "fn helper() {}\n",
        "use b::C;\n",
        "pub struct S { x: u8 }\n",
        "mod c { fn x() {} }\n",
    ] {
        let text = format!("{good}{bad}");
        let findings = lib_is_a_table_of_contents(&Tree::planted("crates/x/src/lib.rs", &text));
        assert_eq!(findings.len(), 1, "{bad}: {findings:?}");
    }
}
