//! Data directories that take seconds to make and a blink to copy: made once per machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::FlockOperation;

use crate::error::{Doing, Result};
use crate::home;
use crate::program::{self, User};

/// An initialised data directory to copy from.
#[derive(Debug)]
pub(crate) struct Template {
    data: PathBuf,
}

impl Template {
    /// The template of the server `program`, made by `initialise(data directory)` when it is not
    /// there yet. Processes that come at the same time wait for the first.
    pub(crate) fn get(
        program: &Path,
        user: Option<&User>,
        initialise: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Template> {
        // An upgraded server gets a template of its own.
        let age = fs::metadata(program)
            .doing(format!("reading {}", program.display()))?
            .mtime();
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let base = home::shared_directory("template")?.join(format!("{name}-{age}"));
        let _alone = home::lock_file(
            &base.with_added_extension("lock"),
            FlockOperation::LockExclusive,
        )?;
        let (data, finished) = (base.join("data"), base.join("finished"));
        if !finished.is_file() {
            // What a killed process left half made.
            let _ = fs::remove_dir_all(&base);
            fs::create_dir(&base).doing(format!("making {}", base.display()))?;
            home::give_to(&base, user)?;
            initialise(&data)?;
            fs::write(&finished, "").doing("finishing a template")?;
        }
        Ok(Template { data })
    }

    /// Copies the data, with owners and modes, to `target`, which must not exist.
    pub(crate) fn copy_to(&self, target: &Path) -> Result<()> {
        let mut copy = Command::new(program::find("cp", "coreutils")?);
        copy.args(["--archive", "--reflink=auto"])
            .arg(&self.data)
            .arg(target);
        program::output_of(&mut copy).map(drop)
    }
}
