//! The gate: a file whose `flock` every writer holds for the length of one transaction, and which
//! holds the order counter of this boot.
//!
//! SQLite's own way to wait for another writer sleeps in steps of up to 100 ms; `flock` waits in the
//! kernel. The counter is here and not in the database for two reasons: a database that is deleted,
//! or replaced by an old copy, cannot turn it back, and a claim costs one database page less.

use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::ceiling::{self, BLOCK};
use super::directory::{Directory, FileId, id_of_open};
use super::faults::{from_system, unreachable};
use crate::Token;
use crate::error::Error;

const NAME: &str = "gate";
const MAGIC: &[u8; 8] = b"LKGATE1\n";
const LENGTH: usize = 72;

/// The open gate file.
#[derive(Debug)]
pub(super) struct Gate {
    file: OwnedFd,
    id: FileId,
}

/// What stands in the gate file. It is not flushed to the disk: after a restart of the machine
/// the boot differs, and only the ceiling counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// The boot that it counts for.
    pub(super) boot: [u8; 16],
    /// The next order number.
    pub(super) next: u64,
    /// The ceiling that is on the disk.
    pub(super) ceiling: u64,
    /// The database of this boot.
    pub(super) database: FileId,
    /// How long it was when last seen: it never becomes shorter.
    pub(super) database_bytes: u64,
}

/// What was found in the gate file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing: it was made just now.
    Nothing,
    /// Something unreadable, as a power cut may leave.
    Nonsense,
    /// A whole record, of this or of an earlier boot.
    Record(Record),
}

impl Gate {
    /// Opens the gate file, or makes it.
    pub(super) fn open(directory: &Directory) -> Result<Self, Error> {
        let fault = |errno| from_system(&directory.path, "opening `gate`", errno);
        let file = directory.open_or_make_file(NAME).map_err(fault)?;
        let id = id_of_open(&file).map_err(fault)?;
        Ok(Self { file, id })
    }

    /// Takes the gate if it is free.
    pub(super) fn try_lock(&self) -> Result<Option<Locked<'_>>, Errno> {
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Locked(self))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Takes the gate, and waits for it as long as it takes.
    pub(super) fn lock(&self) -> Result<Locked<'_>, Errno> {
        let lock = || rustix::fs::flock(&self.file, FlockOperation::LockExclusive);
        rustix::io::retry_on_intr(lock)?;
        Ok(Locked(self))
    }
}

/// Who holds the gate, for a message.
pub(super) fn holder(directory: &Directory) -> Option<u32> {
    let inode = directory.find(NAME).ok()??.id.inode;
    let inode = format!(":{inode} ");
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let holds = |line: &&str| line.contains("FLOCK") && line.contains(&inode);
    let line = locks
        .lines()
        .filter(|line| !line.contains("->"))
        .find(holds)?;
    line.split_whitespace().nth(4)?.parse().ok()
}

/// The gate while this process has it.
#[derive(Debug)]
pub(super) struct Locked<'a>(&'a Gate);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Explicitly, since closing alone would leave it to a forked child that has a copy of the
        // descriptor (bug 89).
        let _cannot_fail = rustix::fs::flock(&self.0.file, FlockOperation::Unlock);
    }
}

impl Locked<'_> {
    /// Whether the gate that is locked is still the one that others find.
    pub(super) fn is_current(&self, directory: &Directory) -> Result<bool, Error> {
        let found = directory.find(NAME);
        let found =
            found.map_err(|errno| from_system(&directory.path, "looking at `gate`", errno))?;
        Ok(found.map(|found| found.id) == Some(self.0.id))
    }

    pub(super) fn read(&self, directory: &Directory) -> Result<Found, Error> {
        let mut bytes = [0; LENGTH];
        let read = rustix::io::pread(&self.0.file, &mut bytes, 0);
        let read = read.map_err(|errno| from_system(&directory.path, "reading `gate`", errno))?;
        Ok(match read {
            0 => Found::Nothing,
            LENGTH => Record::parse(&bytes).map_or(Found::Nonsense, Found::Record),
            _ => Found::Nonsense,
        })
    }

    pub(super) fn write(&self, directory: &Directory, record: &Record) -> Result<(), Error> {
        let bytes = record.print();
        let written = rustix::io::pwrite(&self.0.file, &bytes, 0);
        let written = written.and_then(|n| {
            if n == LENGTH {
                Ok(())
            } else {
                Err(Errno::NOSPC)
            }
        });
        written.map_err(|errno| from_system(&directory.path, "counting in `gate`", errno))
    }

    /// The next order number. It counts as used from here on, whatever becomes of the claim.
    pub(super) fn number(&self, directory: &Directory, record: &mut Record) -> Result<u64, Error> {
        let number = record.next;
        if number >= Token::MAX_ORDER {
            return Err(unreachable(
                "numbering a claim: all 2^55 numbers of the directory are used (delete it)",
            ));
        }
        let mut after = *record;
        if number > record.ceiling {
            after.ceiling = number.saturating_add(BLOCK);
            ceiling::write(directory, after.ceiling)?;
        }
        after.next = number + 1;
        self.write(directory, &after)?;
        *record = after;
        Ok(number)
    }
}

impl Record {
    fn print(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..24].copy_from_slice(&self.boot);
        let numbers = [
            self.next,
            self.ceiling,
            self.database.inode,
            self.database.born_ns,
            self.database_bytes,
        ];
        for (place, number) in bytes[24..64].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let digest = ceiling::digest(&bytes[..64]);
        bytes[64..].copy_from_slice(&digest.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8; LENGTH]) -> Option<Self> {
        let number = |at: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let mut boot = [0; 16];
        boot.copy_from_slice(&bytes[8..24]);
        let record = Self {
            boot,
            next: number(24),
            ceiling: number(32),
            database: FileId {
                inode: number(40),
                born_ns: number(48),
            },
            database_bytes: number(56),
        };
        (record.print() == *bytes).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let temp = tempfile::tempdir().unwrap();
        let directory = Directory::open(&temp.path().join("locks")).unwrap();
        (temp, directory)
    }

    // proves: F1, F2
    #[test]
    fn the_ceiling_is_on_the_disk_before_a_number_above_the_old_one_is_used() {
        let (_temp, directory) = directory();
        let gate = Gate::open(&directory).unwrap();
        let locked = gate.lock().unwrap();
        let mut record = Record {
            boot: *b"0123456789abcdef",
            next: 10,
            ceiling: 10,
            database: FileId::default(),
            database_bytes: 0,
        };
        assert_eq!(locked.number(&directory, &mut record).unwrap(), 10);
        assert_eq!(
            ceiling::read(&directory).unwrap(),
            None,
            "10 is covered by 10"
        );
        for number in 11..20 {
            assert_eq!(locked.number(&directory, &mut record).unwrap(), number);
            assert_eq!(ceiling::read(&directory).unwrap(), Some(11 + BLOCK));
            assert_eq!(locked.read(&directory).unwrap(), Found::Record(record));
        }
        record.next = Token::MAX_ORDER;
        let error = locked.number(&directory, &mut record).unwrap_err();
        assert!(error.to_string().contains("2^55"), "{error}");
    }

    // proves: F1
    #[test]
    fn every_flipped_bit_of_the_record_is_seen() {
        let record = Record {
            boot: *b"0123456789abcdef",
            next: 77,
            ceiling: 1 << 20,
            database: FileId {
                inode: 5,
                born_ns: 6,
            },
            database_bytes: 6144,
        };
        let bytes = record.print();
        assert_eq!(Record::parse(&bytes), Some(record));
        for place in 0..LENGTH {
            let mut flipped = bytes;
            flipped[place] ^= 1;
            assert_eq!(Record::parse(&flipped), None, "byte {place}");
        }
    }

    // bug 89
    #[test]
    fn a_child_that_inherited_the_gate_does_not_keep_it_shut() {
        let (_temp, directory) = directory();
        let gate = Gate::open(&directory).unwrap();
        let locked = gate.lock().unwrap();
        // As by a fork: the child has the same open file, lock and all.
        let inherited = gate.file.try_clone().unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(inherited))
            .spawn()
            .unwrap();
        let other = Gate::open(&directory).unwrap();
        assert!(other.try_lock().unwrap().is_none());
        drop(locked);
        let free = other.try_lock().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(free, "the child has kept the gate");
    }
}
