//! The floor of a machine of its own: a bare file lock. Its calls block, as the process has nothing
//! else to do.

use std::fs::File;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

use super::{Client, Contender};
use crate::Result;

/// Beside the locks at a `local:` URL.
pub(super) fn open(url: &str) -> Result<Directory> {
    let locks = PathBuf::from(url.trim_start_matches("local:"));
    let room = locks.parent().ok_or("the locks are in no directory")?;
    Ok(Directory(room.to_owned()))
}

pub(crate) struct Directory(PathBuf);

impl Client for Directory {
    type Contender = Locked;

    async fn contender(&self, name: &str) -> Result<Locked> {
        let path = self.0.join(format!("{name}.flock"));
        Ok(Locked(File::create(path)?))
    }
}

pub(crate) struct Locked(File);

impl Contender for Locked {
    async fn acquire(&mut self) -> Result<()> {
        Ok(flock(&self.0, FlockOperation::LockExclusive)?)
    }

    async fn release(&mut self) -> Result<()> {
        Ok(flock(&self.0, FlockOperation::Unlock)?)
    }
}
