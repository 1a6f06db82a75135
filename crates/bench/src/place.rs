//! Where a run keeps its files: locks, databases of the limits, results.

use std::path::{Path, PathBuf};

use crate::Result;

/// A directory of this run alone; it is deleted with it.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    target: PathBuf,
}

impl Place {
    /// Makes it below `parent`, else beside the results in the target directory.
    pub(crate) fn make(parent: Option<&Path>) -> Result<Self> {
        let program = std::env::current_exe()?;
        let target = program.parent().and_then(Path::parent);
        let target = target.ok_or("this program is not in a target directory")?;
        let target = target.to_owned();
        let parent = match parent {
            Some(parent) => std::path::absolute(parent)?,
            None => target.join("bench"),
        };
        let path = parent.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self { path, target })
    }

    /// A directory of its own for each part of the run, so that none inherits another's files.
    pub(crate) fn room(&self, name: &str) -> Result<PathBuf> {
        let room = self.path.join(name);
        std::fs::create_dir_all(&room)?;
        Ok(room)
    }

    /// The URL of the locks in a room. The backend makes its directory itself, as private as it
    /// wants it.
    pub(crate) fn url(&self, name: &str) -> Result<String> {
        let path = self.room(name)?.join("locks");
        let path = path.to_str().ok_or("the directory's path is not UTF-8")?;
        Ok(format!("local:{path}"))
    }

    /// Where results go by default.
    pub(crate) fn results(&self) -> PathBuf {
        self.target.join("bench")
    }

    /// The program that is measured: the one that was built along with this one.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        let program = std::env::current_exe()?.with_file_name("lockkeeper");
        if program.is_file() {
            return Ok(program);
        }
        let missing = program.display();
        Err(format!(
            "{missing} is not built: run `cargo build --release -p lockkeeper-cli` first, or `cargo xtask bench local`, which does"
        )
        .into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("lockkeeper-bench: {}: {error}", self.path.display());
        }
    }
}
