//! A test about the code: the rules that style in prose would let decay. Each rule is a function
//! from the tree to findings, and has a test that plants a violation and sees it found.

mod docs;
mod machine;
mod masks;
mod proofs;
mod seams;
mod shape;
mod tree;

use tree::{Finding, Tree};

/// Requirements that no test proves yet, with the reason. An id that is proved must not stand
/// here, so that the list stays honest.
const OPEN: &[(&str, &str)] = &[];

fn assert_tidy(rule: fn(&Tree) -> Vec<Finding>) {
    let findings = rule(&Tree::of_this_workspace());
    let report: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        report.is_empty(),
        "\n{} findings:\n{}\n",
        report.len(),
        report.join("\n")
    );
}

#[test]
fn the_tree_is_found() {
    let tree = Tree::of_this_workspace();
    assert!(
        tree.files
            .iter()
            .any(|file| file.path == "xtask/tests/tidy/main.rs")
    );
    assert!(tree.files.iter().any(|file| file.path == "Cargo.toml"));
    assert!(
        !tree
            .files
            .iter()
            .any(|file| file.path.starts_with("target/"))
    );
}

#[test]
fn every_file_says_what_lives_there() {
    assert_tidy(shape::opens_with_docs);
}

#[test]
fn no_file_is_too_long() {
    assert_tidy(shape::is_short);
}

#[test]
fn lib_rs_has_docs_and_re_exports_only() {
    assert_tidy(shape::lib_is_a_table_of_contents);
}

#[test]
fn a_backend_knows_only_the_trait_and_the_nouns() {
    assert_tidy(seams::backends_import_little);
}

#[test]
fn no_engine_is_named_outside_its_backend() {
    assert_tidy(seams::engines_stay_in_backends);
}

#[test]
fn there_is_one_clock() {
    assert_tidy(seams::one_clock);
}

#[test]
fn nothing_is_ignored_or_left_to_do() {
    assert_tidy(docs::nothing_ignored);
}

#[test]
fn cancel_safety_is_documented() {
    assert_tidy(docs::cancel_safety);
}

#[test]
fn every_requirement_is_proved_or_open() {
    println!("{}", proofs::coverage(&Tree::of_this_workspace()));
    assert_tidy(|tree| proofs::proved_or_open(tree, OPEN));
}

#[test]
fn no_developers_machine_shows() {
    assert_tidy(machine::no_private_paths);
}

#[test]
fn no_registry_is_named() {
    assert_tidy(machine::no_registries);
}
