//! Data directories that take seconds to make and a blink to copy: made once per machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::fs::FlockOperation;

use crate::clock::Clock;
use crate::error::{Doing, Result};
use crate::home::{self, Home};
use crate::launch::Launch;
use crate::ports::{self, Port};
use crate::program::{self, User};
use crate::server::Server;
use crate::setup::Setup;

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

    /// Starts a server of this name on a copy of its own, as `recipe(directory, port)` says.
    pub(crate) fn start(
        &self,
        name: &str,
        user: Option<&User>,
        setup: &Setup,
        recipe: impl Fn(PathBuf, Port) -> Launch,
    ) -> Result<Server> {
        ports::retrying(|| {
            let home = Arc::new(Home::new(name, setup.durable)?);
            let directory = home.node(name, user)?;
            self.copy_to(&directory.join("data"))?;
            let clock = setup
                .movable_clock
                .then(|| Clock::in_directory(&directory))
                .transpose()?;
            let launch = recipe(directory, Port::reserve()?);
            Server::start(launch.user(user.cloned()).clock(clock), &home)
        })
    }

    /// Copies the data, with owners and modes, to `target`, which must not exist.
    fn copy_to(&self, target: &Path) -> Result<()> {
        let mut copy = Command::new(program::find("cp", "coreutils")?);
        copy.args(["--archive", "--reflink=auto"])
            .arg(&self.data)
            .arg(target);
        program::output_of(&mut copy).map(drop)
    }
}
