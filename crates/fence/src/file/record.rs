//! The record of the highest pass: a file of two slots, written in turns, so that a write that is cut short
//! leaves the other one. It is also what writers lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::{FenceError, Pass, Token};

/// Text, a checksum, blanks and a line's end: small enough never to be split by a disk.
const SLOT: usize = 64;

/// A symbolic link in place of the record is an error: another user of the directory may have made it.
const NO_LINK: i32 = OFlags::NOFOLLOW.bits().cast_signed();

/// Between two tries to lock; others hold it for as long as a disk takes to write.
const TRY_AGAIN: Duration = Duration::from_micros(500);

/// The open record, locked against all other writers until it is dropped or its process ends.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    highest: Option<Pass>,
    /// Where the next one goes.
    free: u64,
}

impl Record {
    /// Opens, locks and reads it.
    pub(crate) fn open(path: &Path, patience: Duration) -> Result<Self, FenceError<io::Error>> {
        let file = locked(path, patience).map_err(FenceError::Store)?;
        let mut bytes = [0; 2 * SLOT];
        let length = read(&file, &mut bytes).map_err(FenceError::Store)?;
        // A first slot that is not even whole was never finished, so nothing was written under it.
        if length < SLOT {
            // Nor is it certain that the file's name is on the disk.
            sync_directory(path).map_err(FenceError::Store)?;
            let (highest, free) = (None, 0);
            return Ok(Self {
                file,
                highest,
                free,
            });
        }
        let slots = bytes[..length].chunks(SLOT).map(parse);
        let newest = slots
            .enumerate()
            .filter_map(|(index, slot)| Some((slot?, index)));
        let Some((pass, index)) = newest.max_by_key(|(pass, _)| pass.token()) else {
            return Err(FenceError::unreadable(String::from_utf8_lossy(
                &bytes[..length],
            )));
        };
        let free = if index == 0 { SLOT as u64 } else { 0 };
        let highest = Some(pass);
        Ok(Self {
            file,
            highest,
            free,
        })
    }

    pub(crate) fn highest(&self) -> Option<Pass> {
        self.highest
    }

    /// Compares, and makes the pass the highest one, on the disk, before it returns.
    pub(crate) fn raise(&mut self, pass: &Pass) -> Result<(), FenceError<io::Error>> {
        pass.after(self.highest.as_ref())?;
        // The writer of the newest slot may have failed to flush it, so it may not be on the disk. It is written again, because
        // a second flush alone may write nothing. Only then may the other slot, perhaps the only good one, be overwritten.
        if let Some(newest) = self.highest {
            self.write(&newest, SLOT as u64 - self.free)?;
        }
        if self.highest == Some(*pass) {
            return Ok(());
        }
        self.write(pass, self.free)?;
        self.free = SLOT as u64 - self.free;
        self.highest = Some(*pass);
        Ok(())
    }

    /// Writes one slot and flushes it.
    fn write(&self, pass: &Pass, at: u64) -> Result<(), FenceError<io::Error>> {
        let written = self.file.write_all_at(&slot(pass), at);
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(FenceError::Store)
    }
}

fn locked(path: &Path, patience: Duration) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(NO_LINK)
        .open(path)?;
    let start = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => thread::sleep(TRY_AGAIN),
            Err(TryLockError::WouldBlock) => return Err(busy(path, patience)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(file)
}

fn busy(path: &Path, patience: Duration) -> io::Error {
    let what = format!(
        "another writer has been holding {} for {patience:?}, perhaps stopped in the middle of its \
         write: nothing was written by this one",
        path.display()
    );
    io::Error::new(io::ErrorKind::WouldBlock, what)
}

/// Makes a new or renamed entry outlast a power cut.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn read(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    loop {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => return Ok(length),
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn slot(pass: &Pass) -> Vec<u8> {
    let text = format!("{:019}.{}", pass.token().get(), pass.claim());
    let line = format!("{text} {:08x}", checksum(text.as_bytes()));
    format!("{line:<63}\n").into_bytes()
}

fn parse(slot: &[u8]) -> Option<Pass> {
    let line = std::str::from_utf8(slot).ok()?;
    let (token, claim) = line.split_whitespace().next()?.split_once('.')?;
    let token = Token::try_from(token.parse::<u64>().ok()?).ok()?;
    let pass = Pass::new(token, claim.parse().ok()?);
    (self::slot(&pass) == slot).then_some(pass)
}

/// FNV-1a, folded: it tells a torn slot from a whole one, and is no protection against malice.
fn checksum(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PATIENCE: Duration = Duration::ZERO;

    fn pass(order: u64) -> Pass {
        Pass::from(Token::new(order, 0).unwrap())
    }

    // proves: F3
    #[test]
    fn a_write_that_is_cut_short_leaves_the_record_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        for order in 1..=6 {
            Record::open(&path, NO_PATIENCE)
                .unwrap()
                .raise(&pass(order))
                .unwrap();
            let whole = fs::read(&path).unwrap();
            // Whatever part of the next slot reaches the disk, the last finished one is found.
            let next = slot(&pass(order + 1));
            let at = if order % 2 == 1 { SLOT } else { 0 };
            for length in 1..SLOT {
                let mut torn = whole.clone();
                torn.resize(torn.len().max(at + length), 0);
                torn[at..at + length].copy_from_slice(&next[..length]);
                fs::write(&path, &torn).unwrap();
                // The last bytes of all slots are the same: the new one may be whole already.
                let is_whole = torn.get(at..at + SLOT) == Some(&next[..]);
                let found = Record::open(&path, NO_PATIENCE).unwrap().highest();
                let expected = pass(order + u64::from(is_whole));
                assert_eq!(found, Some(expected), "torn after {length} bytes");
            }
            fs::write(&path, &whole).unwrap();
        }
    }

    /// An earlier process may have written the equal record and failed to flush it.
    // proves: F3
    #[test]
    fn an_equal_record_is_flushed_again() {
        // A device that takes every write and refuses to flush.
        let file = OpenOptions::new().write(true).open("/dev/null").unwrap();
        let (highest, free) = (Some(pass(7)), 0);
        let mut record = Record {
            file,
            highest,
            free,
        };
        let raised = record.raise(&pass(7));
        assert!(matches!(raised, Err(FenceError::Store(_))), "{raised:?}");
    }

    #[test]
    fn a_foreign_record_is_no_permission() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        fs::write(&path, [b'x'; 128]).unwrap();
        let error = Record::open(&path, NO_PATIENCE).unwrap_err();
        assert!(matches!(error, FenceError::Unreadable { .. }), "{error}");
    }

    #[test]
    fn one_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("record");
        let first = Record::open(&path, NO_PATIENCE).unwrap();
        assert!(Record::open(&path, NO_PATIENCE).is_err());
        drop(first);
        Record::open(&path, NO_PATIENCE).unwrap();
    }
}
