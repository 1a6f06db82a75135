//! What documentation and tests must not leave out: examples that run, and cancel safety.

use crate::masks::{code_only, line_of};
use crate::tree::{File, Finding, Tree};

/// Code that postpones what it promises.
const POSTPONED: &[&str] = &["todo!(", "unimplemented!(", "#[ignore"];

const CANCEL_SAFETY: &str = "# Cancel safety";

pub(crate) fn nothing_ignored(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.files.iter().flat_map(ignored_examples).collect();
    for file in tree.rust() {
        let code = code_only(&file.text);
        for what in POSTPONED {
            let found = code.match_indices(what);
            let cure = "do it, or take it out";
            findings.extend(found.map(|(at, _)| file.finding(line_of(&code, at), what, cure)));
        }
    }
    findings
}

fn ignored_examples(file: &File) -> Vec<Finding> {
    let cure = "make the example run; `no_run` if it needs a real engine, `text` if it is no code";
    let (markdown, rust) = (file.path.ends_with(".md"), file.is_rust());
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim_start();
        let is_doc = markdown || (rust && (line.starts_with("///") || line.starts_with("//!")));
        let fence = line.trim_start_matches(['/', '!', ' ']).strip_prefix("```");
        let words = fence
            .filter(|_| is_doc)
            .unwrap_or_default()
            .split([',', ' ']);
        if words
            .into_iter()
            .any(|word| word == "ignore" || word.starts_with("ignore-"))
        {
            findings.push(file.finding(index + 1, "an example that is not run", cure));
        }
    }
    findings
}

pub(crate) fn cancel_safety(tree: &Tree) -> Vec<Finding> {
    let cure = "add a section `# Cancel safety` to its documentation: what is left when the \
                future is dropped";
    let mut findings = Vec::new();
    for file in tree.library() {
        let code = code_only(&file.text);
        for (index, line) in code.lines().enumerate() {
            if line.trim_start().starts_with("pub async fn ") && !is_documented(file, index) {
                findings.push(file.finding(index + 1, line.trim(), cure));
            }
        }
    }
    findings
}

/// Looks upwards from a function through its attributes and documentation.
fn is_documented(file: &File, function: usize) -> bool {
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let ends_before = |line: &&&str| {
        !line.starts_with("//") && (line.is_empty() || line.ends_with(['{', '}', ';']))
    };
    let mut above = lines[..function]
        .iter()
        .rev()
        .take_while(|line| !ends_before(line));
    above.any(|line| line.starts_with("///") && line.contains(CANCEL_SAFETY))
}

#[test]
fn ignored_examples_and_tests_are_found() {
    let fence = "```";
    for bad in [
        format!("//! A.\n/// {fence}ignore\n"),
        format!("//! A.\n//! {fence}rust,ignore\n"),
        "//! A.\n#[ignore]\n".to_owned(),
        "//! A.\n#[ignore = \"slow\"]\n".to_owned(),
        "//! A.\nfn f() { todo!() }\n".to_owned(),
        "//! A.\nfn f() { unimplemented!(\"x\") }\n".to_owned(),
    ] {
        let findings = nothing_ignored(&Tree::planted("crates/x/src/a.rs", &bad));
        assert_eq!(findings.len(), 1, "{bad}");
        assert_eq!(findings[0].place, "crates/x/src/a.rs:2");
    }
    let good =
        format!("//! A.\n/// {fence}no_run\n// todo!( in a comment\nlet a = \"#[ignore]\";\n");
    assert!(nothing_ignored(&Tree::planted("crates/x/src/a.rs", &good)).is_empty());
    let readme = format!("{fence}ignore\n");
    assert_eq!(
        nothing_ignored(&Tree::planted("README.md", &readme)).len(),
        1
    );
}

#[test]
fn undocumented_cancel_safety_is_found() {
    let path = "crates/lockkeeper/src/guard.rs";
    let good = "impl G {\n    /// Ends.\n    ///\n    /// # Cancel safety\n    /// Safe.\n    #[must_use]\n    pub async fn end(self) {}\n}\n";
    assert!(cancel_safety(&Tree::planted(path, good)).is_empty());
    let bad = format!("{good}    /// Begins.\n    pub async fn begin(self) {{}}\n");
    let findings = cancel_safety(&Tree::planted(path, &bad));
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].place, format!("{path}:10"));
}
