//! The wall clock of one server: moved through a small library that is preloaded into it
//! (`clock.c`). Monotonic clocks stay true, as they do when an administrator sets the time.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::error::{Doing, Result};
use crate::home;
use crate::program;

const SOURCE: &str = include_str!("clock.c");

/// Moves the wall clock of one server; the machine's and every other server's stay.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    offset_path: PathBuf,
    offset_file: File,
    offset_nanos: Mutex<i64>,
}

impl Clock {
    /// A clock that shows true time, whose offset lives in `directory`.
    pub(crate) fn in_directory(directory: &Path) -> Result<Clock> {
        let offset_path = directory.join("clock");
        let what = format!("making {}", offset_path.display());
        fs::write(&offset_path, 0_i64.to_ne_bytes()).doing(&what)?;
        home::let_all_read(&offset_path)?;
        let offset_file = File::options()
            .write(true)
            .open(&offset_path)
            .doing(&what)?;
        let offset_nanos = Mutex::new(0);
        Ok(Clock {
            library: compiled_library()?,
            offset_path,
            offset_file,
            offset_nanos,
        })
    }

    /// Sets the server's clock this much further on than it is now.
    ///
    /// # Errors
    /// When the offset cannot be written.
    pub fn forward(&self, by: Duration) -> Result<()> {
        self.change(|offset| offset.saturating_add(nanos(by)))
    }

    /// Sets the server's clock this much back from what it is now.
    ///
    /// # Errors
    /// When the offset cannot be written.
    pub fn back(&self, by: Duration) -> Result<()> {
        self.change(|offset| offset.saturating_sub(nanos(by)))
    }

    /// Sets the server's clock to the machine's.
    ///
    /// # Errors
    /// When the offset cannot be written.
    pub fn set_true(&self) -> Result<()> {
        self.change(|_| 0)
    }

    /// What the server must be started with, as arguments of `env`.
    pub(crate) fn environment(&self) -> [String; 2] {
        [
            format!("LD_PRELOAD={}", self.library.display()),
            format!("LOCKKEEPER_CLOCK={}", self.offset_path.display()),
        ]
    }

    fn change(&self, new: impl Fn(i64) -> i64) -> Result<()> {
        let mut offset = self
            .offset_nanos
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *offset = new(*offset);
        // Eight aligned bytes of one page: the server sees the old or the new value, no mixture.
        self.offset_file
            .write_all_at(&offset.to_ne_bytes(), 0)
            .doing("moving a server's clock")
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Compiled once per machine; another version of the source has another name.
fn compiled_library() -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let directory = home::shared_directory("clock")?;
    let library = directory.join(format!("clock-{:016x}.so", hasher.finish()));
    let _alone = home::lock_file(&directory.join("lock"), FlockOperation::LockExclusive)?;
    if library.is_file() {
        return Ok(library);
    }
    let source = directory.join("clock.c");
    fs::write(&source, SOURCE).doing(format!("writing {}", source.display()))?;
    // Under another name first: a compiler that is killed must not leave half a library.
    let unfinished = library.with_extension("part");
    let mut cc = Command::new(program::find("cc", "gcc")?);
    cc.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&unfinished)
        .arg(&source);
    program::output_of(&mut cc)?;
    home::let_all_read(&unfinished)?;
    fs::rename(&unfinished, &library).doing("naming the clock library")?;
    Ok(library)
}
