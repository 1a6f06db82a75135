//! The files of the workspace, and what a rule reports about them.

use std::fmt;
use std::fs;
use std::path::Path;

/// Built or kept by tools, not written by us.
const NOT_OURS: &[&str] = &["target", ".git"];

/// One text file; the path is relative to the workspace and has forward slashes.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
            && (self.path.starts_with("crates/") || self.path.starts_with("xtask/"))
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs")
    }

    pub(crate) fn finding(&self, line: usize, what: impl fmt::Display, cure: &str) -> Finding {
        Finding {
            place: format!("{}:{line}", self.path),
            what: what.to_string(),
            cure: cure.into(),
        }
    }
}

/// All text files of the workspace, or a few planted ones.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    pub(crate) fn of_this_workspace() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask has a parent");
        let mut files = Vec::new();
        collect(root, "", &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Tree { files }
    }

    /// A tree of one file.
    pub(crate) fn planted(path: &str, text: &str) -> Tree {
        Tree {
            files: vec![File {
                path: path.into(),
                text: text.into(),
            }],
        }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// The library's own sources.
    pub(crate) fn library(&self) -> impl Iterator<Item = &File> {
        self.rust()
            .filter(|file| file.path.starts_with("crates/lockkeeper/src/"))
    }
}

fn collect(directory: &Path, prefix: &str, files: &mut Vec<File>) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        if NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            files.push(File { path, text });
        }
    }
}

/// A broken rule: where, what, and how to cure it.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) place: String,
    pub(crate) what: String,
    pub(crate) cure: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    cure: {}", self.place, self.what, self.cure)
    }
}
