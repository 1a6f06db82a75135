//! Which requirement is proved by a test, by the ids that tests carry in their comments.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{File, Finding, Tree};

/// This test's own files, which speak about ids without proving anything.
const SELF: &str = "xtask/tests/tidy/";

/// The families of ids that must be complete, and the single ones.
const FAMILIES: &[(&str, usize)] = &[("L", 16), ("W", 6), ("Q", 6), ("F", 7), ("S", 3)];
const SINGLE: &[&str] = &["C1"];

/// The catalogue of other libraries' bugs has this many rows.
const BUG_ROWS: usize = 90;

type Places = BTreeMap<String, Vec<String>>;

fn required() -> BTreeSet<String> {
    let families = FAMILIES.iter();
    let numbered =
        families.flat_map(|(letter, last)| (1..=*last).map(move |n| format!("{letter}{n}")));
    numbered
        .chain(SINGLE.iter().map(ToString::to_string))
        .collect()
}

pub(crate) fn proved_or_open(tree: &Tree, open: &[(&str, &str)]) -> Vec<Finding> {
    let proved = collect(tree, proved_ids);
    let list = File {
        path: format!("{SELF}main.rs"),
        text: String::new(),
    };
    let mut findings = Vec::new();
    for id in required() {
        let is_open = open.iter().any(|(name, _)| *name == id);
        match proved.get(&id) {
            None if !is_open => {
                let cure =
                    format!("write a test with the comment `proves: {id}`, or list it as open");
                findings.push(list.finding(1, format!("{id} is proved nowhere"), &cure));
            }
            Some(places) if is_open => {
                let what = format!("{id} stands as open, but is proved at {}", places[0]);
                findings.push(list.finding(1, what, "take it off the list OPEN"));
            }
            _ => {}
        }
    }
    findings.extend(unknown_ids(&proved, open));
    for (row, places) in collect(tree, bug_rows) {
        if row
            .parse::<usize>()
            .is_ok_and(|row| row == 0 || row > BUG_ROWS)
        {
            findings.push(Finding {
                place: places[0].clone(),
                what: format!("there is no bug {row}"),
                cure: format!("the rows go from 1 to {BUG_ROWS}"),
            });
        }
    }
    findings
}

/// Typing errors, in proofs and in the list.
fn unknown_ids(proved: &Places, open: &[(&str, &str)]) -> Vec<Finding> {
    let known = required();
    let in_family = |id: &str| FAMILIES.iter().any(|(letter, _)| id.starts_with(letter));
    let listed = open
        .iter()
        .map(|(id, _)| (id.to_string(), vec![format!("{SELF}main.rs:1")]));
    let mentioned = proved
        .iter()
        .map(|(id, places)| (id.clone(), places.clone()))
        .chain(listed);
    let wrong = mentioned.filter(|(id, _)| in_family(id) && !known.contains(id));
    let finding = |(id, places): (String, Vec<String>)| Finding {
        place: places[0].clone(),
        what: format!("there is no requirement {id}"),
        cure: "correct the id".to_owned(),
    };
    wrong.map(finding).collect()
}

/// One line for people: how far the proofs go.
pub(crate) fn coverage(tree: &Tree) -> String {
    let (proved, bugs) = (collect(tree, proved_ids), collect(tree, bug_rows));
    let required = required();
    let done = required
        .iter()
        .filter(|id| proved.contains_key(*id))
        .count();
    format!(
        "{done} of {} requirements are proved; {} of {BUG_ROWS} bugs have a test",
        required.len(),
        bugs.len()
    )
}

fn collect(tree: &Tree, ids_of: fn(&str) -> Vec<String>) -> Places {
    let mut found = Places::new();
    for file in tree.rust().filter(|file| !file.path.starts_with(SELF)) {
        for (index, line) in file.text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else {
                continue;
            };
            for id in ids_of(comment) {
                found
                    .entry(id)
                    .or_default()
                    .push(format!("{}:{}", file.path, index + 1));
            }
        }
    }
    found
}

/// The ids right after `proves:`, up to the first word that is none.
fn proved_ids(comment: &str) -> Vec<String> {
    let Some((_, list)) = comment.split_once("proves:") else {
        return Vec::new();
    };
    let words = list
        .split([',', ' ', ';', '.'])
        .filter(|word| !word.is_empty());
    words
        .take_while(|word| is_id(word))
        .map(ToOwned::to_owned)
        .collect()
}

fn is_id(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    digits.len() + 1 == word.len()
        && !digits.is_empty()
        && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The numbers after `bug` or `bugs`: `bug 37`, `bugs 88, 89`, `bugs 88-90`.
fn bug_rows(comment: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut after_bug = false;
    for word in comment
        .split([' ', ',', ':', '.', '(', ')', '`', ';'])
        .filter(|w| !w.is_empty())
    {
        let range = word.split_once(['-', '–']).unwrap_or((word, word));
        match (range.0.parse::<usize>(), range.1.parse::<usize>()) {
            (Ok(first), Ok(last)) if after_bug => {
                rows.extend((first..=last.min(first + BUG_ROWS)).map(|row| row.to_string()));
            }
            _ => after_bug = matches!(word, "bug" | "bugs") || (after_bug && word == "and"),
        }
    }
    rows
}

#[cfg(test)]
fn all_open() -> Vec<(String, String)> {
    required()
        .into_iter()
        .map(|id| (id, "planted".to_owned()))
        .collect()
}

#[cfg(test)]
fn findings_for(comment: &str, leave_out: &str) -> Vec<Finding> {
    let open = all_open();
    let open: Vec<(&str, &str)> = open
        .iter()
        .map(|(id, why)| (id.as_str(), why.as_str()))
        .filter(|(id, _)| *id != leave_out)
        .collect();
    proved_or_open(
        &Tree::planted("crates/x/src/a.rs", &format!("{comment}\n")),
        &open,
    )
}

#[test]
fn an_unproved_id_that_is_not_open_is_found() {
    let findings = findings_for("//! A.", "L4");
    assert_eq!(findings.len(), 1);
    assert!(findings[0].what.contains("L4 is proved nowhere"));
    assert!(findings_for("// proves: L4", "L4").is_empty());
}

#[test]
fn a_proved_id_that_stands_as_open_is_found() {
    let findings = findings_for("// proves: F5, L4 as in the paper, W1", "L4");
    assert_eq!(findings.len(), 1);
    assert!(
        findings[0].what.contains("F5 stands as open"),
        "{findings:?}"
    );
}

#[test]
fn ids_and_rows_that_do_not_exist_are_found() {
    assert!(
        findings_for("// proves: L17", "")
            .iter()
            .any(|f| f.what.contains("L17"))
    );
    assert!(
        findings_for("// bug 9999", "")
            .iter()
            .any(|f| f.what.contains("9999"))
    );
    assert!(findings_for("// bug 1", "").is_empty());
}

#[test]
fn bug_rows_are_read() {
    assert_eq!(bug_rows(" proves: L1; bug 37"), ["37"]);
    assert_eq!(
        bug_rows(" bugs 8, 12 and 14-16: text 5"),
        ["8", "12", "14", "15", "16"]
    );
    assert!(bug_rows(" a bug of 12 lines").is_empty());
}
