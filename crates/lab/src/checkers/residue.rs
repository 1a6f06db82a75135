//! M8: when all is over, nothing is left: no key, no node, no lease, no session, no task, no socket.

use super::{Finding, Model};

/// One finding for each thing that is left; `left` is what somebody saw who looked for everything.
#[must_use]
pub fn residue(left: &[String]) -> Vec<Finding> {
    let finding = |what: &String| Finding {
        model: Model::Residue,
        at: None,
        words: format!("{what:?} was left behind"),
    };
    left.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_left_is_named() {
        let left = ["lk:{x}:claims".to_owned(), String::new()];
        let found = residue(&left);
        assert_eq!(found.len(), 2, "also what has no name");
        assert_eq!(
            found[0].to_string(),
            "M8 residue: \"lk:{x}:claims\" was left behind"
        );
        assert!(residue(&[]).is_empty());
    }
}
