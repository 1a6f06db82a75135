//! A process shows that it lives, and is rung, through one named pipe in `alive/`.
//!
//! Its owner keeps the pipe open for reading and `flock`ed: both end with the process, however it
//! ends. Others ring by writing to it, and whoever keeps it open for writing is told by the kernel
//! when its last reader is gone.
//!
//! A pipe that is missing proves nothing: a program that cleans up may have deleted it. Then the lease
//! decides, and the owner restores the pipe when it renews.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::directory::Directory;
use super::faults::{from_system, unreachable};
use crate::claim::ClaimId;
use crate::error::Error;

/// The random name of a keeper's pipe.
pub(super) type KeeperId = [u8; 16];

/// What a ring says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ring {
    /// The claim may hold now.
    Look,
    /// The claim goes on waiting, but behind others than before: watch those.
    Watch,
}

/// The length of a ring on the wire: what it says, and to which claim.
pub(super) const RING_BYTES: usize = 17;

/// This keeper's own pipe.
#[derive(Debug)]
pub(super) struct Presence {
    /// Its name.
    pub(super) id: KeeperId,
    pipe: Mutex<OwnedFd>,
    directory: Arc<Directory>,
}

impl Presence {
    /// Makes a pipe and shows by it that this process lives.
    pub(super) fn show(directory: &Arc<Directory>) -> Result<Self, Error> {
        let (id, pipe) = make(directory)?;
        Ok(Self {
            id,
            pipe: Mutex::new(pipe),
            directory: directory.clone(),
        })
    }

    /// Another descriptor of the pipe, to read rings from.
    pub(super) fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.pipe().try_clone()
    }

    /// Whether the pipe is still in its place.
    pub(super) fn is_in_place(&self) -> Result<bool, Error> {
        is_at(&self.directory, &hex(&self.id), &self.pipe()).map_err(|errno| self.fault(errno))
    }

    /// Puts a new pipe in the place of one that was deleted. Call it under the gate.
    pub(super) fn restore(&self) -> Result<(), Error> {
        let (draft, pipe) = make(&self.directory)?;
        let alive = &self.directory.alive;
        // Under its own name it is locked from the start: a reader without the gate finds it alive.
        if let Err(errno) = rustix::fs::renameat(alive, hex(&draft), alive, hex(&self.id)) {
            bury(&self.directory, &draft);
            return Err(self.fault(errno));
        }
        *self.pipe() = pipe;
        Ok(())
    }

    /// Deletes the pipe of a keeper that has no claims left.
    pub(super) fn remove(&self) {
        bury(&self.directory, &self.id);
    }

    /// Makes this keeper count as dead: others delete its claims, and then its pipe.
    pub(super) fn end(&self) {
        // Explicitly, since a forked child may have a copy of the descriptor (bug 89).
        let _closing_does_too = rustix::fs::flock(&*self.pipe(), FlockOperation::Unlock);
    }

    fn pipe(&self) -> MutexGuard<'_, OwnedFd> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, errno: Errno) -> Error {
        from_system(&self.directory.path, "restoring a pipe in alive/", errno)
    }
}

/// Makes a pipe under a random name, open and locked.
fn make(directory: &Directory) -> Result<(KeeperId, OwnedFd), Error> {
    let fault = |errno| from_system(&directory.path, "making a pipe in alive/", errno);
    // A passing cleaner may take a pipe away before it is locked; not again and again.
    for _ in 0..16 {
        let mut id = KeeperId::default();
        getrandom::fill(&mut id)
            .map_err(|error| unreachable(format!("making a random name: {error}")))?;
        if let Some(pipe) = try_show(directory, &hex(&id)).map_err(fault)? {
            return Ok((id, pipe));
        }
    }
    Err(fault(Errno::AGAIN))
}

fn try_show(directory: &Directory, name: &str) -> Result<Option<OwnedFd>, Errno> {
    rustix::fs::mkfifoat(&directory.alive, name, directory.mode())?;
    let pipe = match open(directory, name, OFlags::RDWR) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    rustix::fs::fchmod(&pipe, directory.mode())?;
    match rustix::fs::flock(&pipe, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    Ok(is_at(directory, name, &pipe)?.then_some(pipe))
}

/// Whether the open pipe is the one that others find under this name.
fn is_at(directory: &Directory, name: &str, pipe: &OwnedFd) -> Result<bool, Errno> {
    // The inode is not used again while the pipe is open.
    let mine = rustix::fs::fstat(pipe)?.st_ino;
    match rustix::fs::statat(&directory.alive, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(found.st_ino == mine),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether the keeper's process may live. Only a pipe without its owner proves that it does not; in
/// every other case its lease decides.
pub(super) fn is_alive(directory: &Directory, keeper: &KeeperId) -> bool {
    probe(directory, &hex(keeper)) != Sign::Dead
}

/// What a keeper's pipe says about its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// It is locked, or cannot be examined.
    Alive,
    /// It is there, and its owner is not.
    Dead,
    /// It was deleted: by a cleaner, or by a keeper that left no claims.
    Missing,
}

fn probe(directory: &Directory, name: &str) -> Sign {
    match open(directory, name, OFlags::WRONLY) {
        // No process reads it.
        Err(Errno::NXIO) => Sign::Dead,
        Err(Errno::NOENT) => Sign::Missing,
        Err(_) => Sign::Alive,
        Ok(pipe) => match rustix::fs::flock(&pipe, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => Sign::Alive,
            _ => Sign::Dead,
        },
    }
}

/// Rings another keeper. A ring is a hint: one that finds nobody, or a full pipe, is let go.
pub(super) fn ring(directory: &Directory, keeper: &KeeperId, ring: Ring, claim: ClaimId) {
    // For reading too, so that a reader who dies meanwhile does not bring SIGPIPE upon this process.
    if let Ok(pipe) = open(directory, hex(keeper), OFlags::RDWR) {
        let mut bytes = [0; RING_BYTES];
        bytes[0] = match ring {
            Ring::Look => b'l',
            Ring::Watch => b'w',
        };
        bytes[1..].copy_from_slice(claim.as_bytes());
        let _full_is_fine = rustix::io::write(&pipe, &bytes);
    }
}

/// What a ring on the wire says; `None` for nonsense.
pub(super) fn parse_ring(bytes: &[u8]) -> Option<(Ring, ClaimId)> {
    let (kind, claim) = bytes.split_first()?;
    let ring = match kind {
        b'l' => Ring::Look,
        b'w' => Ring::Watch,
        _ => return None,
    };
    Some((ring, ClaimId::from_bytes(claim.try_into().ok()?)))
}

/// Opens the keeper's pipe to be told when its process ends; `ENXIO` if that has happened already.
pub(super) fn open_to_watch(directory: &Directory, keeper: &KeeperId) -> Result<OwnedFd, Errno> {
    open(directory, hex(keeper), OFlags::WRONLY)
}

/// Deletes the pipe of a dead keeper that has no claims left.
pub(super) fn bury(directory: &Directory, keeper: &KeeperId) {
    let name = hex(keeper);
    let _others_may = rustix::fs::unlinkat(&directory.alive, name.as_str(), AtFlags::empty());
}

/// Whether any keeper but `me` lives, and which are dead.
pub(super) fn sweep(
    directory: &Directory,
    me: Option<KeeperId>,
) -> Result<(Population, Vec<KeeperId>), Error> {
    let fault = |errno| from_system(&directory.path, "looking through alive/", errno);
    let (mut population, mut dead) = (Population::Nobody, Vec::new());
    for entry in rustix::fs::Dir::read_from(&directory.alive).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let Some(keeper) = parse_name(entry.file_name()) else {
            continue;
        };
        if me == Some(keeper) {
            continue;
        }
        match probe(directory, &hex(&keeper)) {
            Sign::Alive => population = Population::Somebody,
            Sign::Dead => dead.push(keeper),
            // It went away just now.
            Sign::Missing => {}
        }
    }
    Ok((population, dead))
}

/// Whether anybody uses the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Population {
    /// All are dead.
    Nobody,
    /// At least one keeper lives.
    Somebody,
}

fn parse_name(name: &CStr) -> Option<KeeperId> {
    let name = name.to_str().ok()?;
    let id = u128::from_str_radix(name, 16).ok()?.to_be_bytes();
    (hex(&id) == name).then_some(id)
}

fn open(directory: &Directory, name: impl AsRef<Path>, how: OFlags) -> Result<OwnedFd, Errno> {
    let flags = how | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(&directory.alive, name.as_ref(), flags, Mode::empty())
}

fn hex(id: &KeeperId) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    id.iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn directory() -> (tempfile::TempDir, Arc<Directory>) {
        let temp = tempfile::tempdir().unwrap();
        let directory = Arc::new(Directory::open(&temp.path().join("locks")).unwrap());
        (temp, directory)
    }

    // proves: L3
    #[test]
    fn it_lives_until_it_is_closed_whoever_asks_and_rings() {
        let (_temp, directory) = directory();
        let presence = Presence::show(&directory).unwrap();
        let id = presence.id;
        let claim = ClaimId::random().unwrap();
        for _ in 0..3 {
            assert!(is_alive(&directory, &id));
            ring(&directory, &id, Ring::Look, claim);
        }
        let population = |me| sweep(&directory, me).unwrap().0;
        assert_eq!(population(None), Population::Somebody);
        assert_eq!(population(Some(id)), Population::Nobody);
        // As by a kill: closed, but not taken away.
        drop(presence);
        assert!(!is_alive(&directory, &id));
        ring(&directory, &id, Ring::Look, claim);
        assert!(!is_alive(&directory, &id), "a ring does not raise the dead");
        assert_eq!(
            sweep(&directory, None).unwrap(),
            (Population::Nobody, vec![id])
        );
    }

    // bug 89
    #[test]
    fn a_child_that_inherited_the_pipe_does_not_keep_a_closed_keeper_alive() {
        let (_temp, directory) = directory();
        let presence = Presence::show(&directory).unwrap();
        let inherited = presence.descriptor().unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(Stdio::from(inherited))
            .spawn()
            .unwrap();
        let id = presence.id;
        presence.end();
        drop(presence);
        let alive = is_alive(&directory, &id);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!alive);
    }

    #[test]
    fn a_full_pipe_takes_no_harm_and_no_time() {
        let (_temp, directory) = directory();
        let presence = Presence::show(&directory).unwrap();
        let claim = ClaimId::random().unwrap();
        for _ in 0..10_000 {
            ring(&directory, &presence.id, Ring::Watch, claim);
        }
        let mut bytes = [0; RING_BYTES];
        assert_eq!(
            rustix::io::read(&*presence.pipe(), &mut bytes).unwrap(),
            RING_BYTES
        );
        assert_eq!(parse_ring(&bytes), Some((Ring::Watch, claim)));
        assert_eq!(parse_ring(b"scribble---------"), None);
    }

    #[test]
    fn whoever_cannot_be_asked_lives() {
        let (_temp, directory) = directory();
        let id = [7; 16];
        // A link may lead anywhere: it is not followed, and proves nothing.
        rustix::fs::symlinkat("/nowhere", &directory.alive, hex(&id)).unwrap();
        assert!(is_alive(&directory, &id));
        // So does a pipe that is not there.
        assert!(is_alive(&directory, &[8; 16]));
    }
}
