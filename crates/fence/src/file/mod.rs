//! A file behind a fence: replaced as a whole, with the highest pass in a record beside it.
//!
//! `report.txt` gets the companions `report.txt.fence`, the record and the lock of all writers, and, while it
//! is being written, `report.txt.draft`. Under that lock a writer compares, brings its pass to the disk, and
//! only then replaces the file: after a crash at any point the file is the old one or the new one as a whole,
//! and the record is never lower than the file.
//!
//! It needs a file system of this machine: locks on network file systems may not be what they seem. A
//! writer that is *stopped* while it has the lock keeps others waiting; after their patience they fail
//! without having written.

mod record;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use record::Record;
use record::sync_directory;

use crate::{Fence, FenceError, Pass};

/// A file behind a fence.
///
/// ```
/// use lockkeeper_fence::file::FileFence;
/// use lockkeeper_fence::{Pass, Token};
///
/// let directory = tempfile::tempdir()?;
/// let report = FileFence::new(directory.path().join("report.txt"));
/// report.replace(&Pass::from(Token::new(8, 0)?), b"by the new holder")?;
/// let late = report.replace(&Pass::from(Token::new(7, 0)?), b"by the old one");
/// assert!(late.unwrap_err().refusal().is_some());
/// assert_eq!(std::fs::read(report.path())?, b"by the new holder");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct FileFence {
    path: PathBuf,
    patience: Duration,
}

impl FileFence {
    /// Puts a fence around a file, which need not exist yet. A symbolic link is replaced, not followed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            patience: Duration::from_secs(10),
        }
    }

    /// How long a write waits for other writers; 10 seconds unless told.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The file; reading it needs no fence.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Compares and replaces the file, all of it or nothing. When it returns, it is on the disk.
    ///
    /// # Errors
    /// [`FenceError::Refused`] with both numbers; [`FenceError::Store`] when the disk failed or another writer
    /// did not finish in time.
    pub fn replace(&self, pass: &Pass, content: &[u8]) -> Result<(), FenceError<io::Error>> {
        let mut record = Record::open(&self.beside("fence"), self.patience)?;
        record.raise(pass)?;
        self.put(content).map_err(FenceError::Store)
    }

    /// The pass of the last write.
    ///
    /// # Errors
    /// As [`FileFence::replace`].
    pub fn highest(&self) -> Result<Option<Pass>, FenceError<io::Error>> {
        let path = self.beside("fence");
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            known => known.map_err(FenceError::Store)?,
        };
        Ok(Record::open(&path, self.patience)?.highest())
    }

    /// Replaces the file; the caller has the lock, so nobody else has this draft.
    fn put(&self, content: &[u8]) -> io::Result<()> {
        let path = self.beside("draft");
        // One that a crash left, or a symbolic link of another user, which is not followed.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut draft = File::create_new(&path)?;
        if let Ok(old) = fs::metadata(&self.path) {
            draft.set_permissions(old.permissions())?;
        }
        draft.write_all(content)?;
        draft.sync_all()?;
        fs::rename(&path, &self.path)?;
        sync_directory(&self.path)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(ending);
        name.into()
    }
}

/// Blocks the thread for as long as the disk takes: in a program with a runtime, use
/// [`FileFence::replace`] on a thread that may block.
impl Fence for FileFence {
    type Value = [u8];
    type Error = io::Error;

    async fn write(&self, pass: &Pass, value: &[u8]) -> Result<(), FenceError<io::Error>> {
        self.replace(pass, value)
    }

    async fn highest(&self) -> Result<Option<Pass>, FenceError<io::Error>> {
        FileFence::highest(self)
    }
}
