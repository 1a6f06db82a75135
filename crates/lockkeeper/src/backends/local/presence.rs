//! A process shows that it lives, and is rung, through one named pipe in `alive/`.
//!
//! Its owner keeps the pipe open for reading and `flock`ed: both end with the process, however it
//! ends. Others ring by writing to it, and whoever keeps it open for writing is told by the kernel
//! when its last reader is gone.

use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

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
    pipe: OwnedFd,
    directory: Arc<Directory>,
}

impl Presence {
    /// Makes a pipe and shows by it that this process lives.
    pub(super) fn show(directory: &Arc<Directory>) -> Result<Self, Error> {
        let fault = |errno| from_system(&directory.path, "making a pipe in alive/", errno);
        // A passing cleaner may take a pipe away before it is locked; not again and again.
        for _ in 0..16 {
            let mut id = KeeperId::default();
            getrandom::fill(&mut id)
                .map_err(|error| unreachable(format!("making a random name: {error}")))?;
            if let Some(pipe) = try_show(directory, &hex(&id)).map_err(fault)? {
                let directory = directory.clone();
                return Ok(Self {
                    id,
                    pipe,
                    directory,
                });
            }
        }
        Err(fault(Errno::AGAIN))
    }

    /// Another descriptor of the pipe, to read rings from.
    pub(super) fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.pipe.try_clone()
    }

    /// Takes the pipe away: from now on this keeper counts as dead.
    pub(super) fn remove(&self) {
        let _others_may = rustix::fs::unlinkat(
            &self.directory.alive,
            hex(&self.id).as_str(),
            AtFlags::empty(),
        );
    }
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
    let mine = rustix::fs::fstat(&pipe)?.st_ino;
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statat(&directory.alive, name, flags) {
        Ok(found) if found.st_ino == mine => Ok(Some(pipe)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether the keeper's process lives. Whoever cannot be asked, lives: its lease will tell.
pub(super) fn is_alive(directory: &Directory, keeper: &KeeperId) -> bool {
    lives(directory, &hex(keeper))
}

fn lives(directory: &Directory, name: &str) -> bool {
    match open(directory, name, OFlags::WRONLY) {
        // Nobody reads it, or it is gone.
        Err(Errno::NXIO | Errno::NOENT) => false,
        Err(_) => true,
        Ok(pipe) => {
            rustix::fs::flock(&pipe, FlockOperation::NonBlockingLockShared)
                == Err(Errno::WOULDBLOCK)
        }
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

/// Opens the keeper's pipe to be told when its process ends; an error if that has happened already.
pub(super) fn open_to_watch(directory: &Directory, keeper: &KeeperId) -> Result<OwnedFd, Errno> {
    open(directory, hex(keeper), OFlags::WRONLY)
}

/// Forgets a dead keeper's pipe.
pub(super) fn bury(directory: &Directory, keeper: &KeeperId) {
    let name = hex(keeper);
    let _others_may = rustix::fs::unlinkat(&directory.alive, name.as_str(), AtFlags::empty());
}

/// Buries the dead, and tells whether anybody but `me` lives.
pub(super) fn sweep(directory: &Directory, me: Option<KeeperId>) -> Result<Population, Error> {
    let fault = |errno| from_system(&directory.path, "looking through alive/", errno);
    let me = me.map(|id| hex(&id));
    let mut population = Population::Nobody;
    for entry in rustix::fs::Dir::read_from(&directory.alive).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let Some(name) = keeper_name(entry.file_name()) else {
            continue;
        };
        if me.as_deref() == Some(name) {
            continue;
        }
        if lives(directory, name) {
            population = Population::Somebody;
        } else {
            let _others_may = rustix::fs::unlinkat(&directory.alive, name, AtFlags::empty());
        }
    }
    Ok(population)
}

/// Whether anybody uses the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Population {
    /// All are dead.
    Nobody,
    /// At least one keeper lives.
    Somebody,
}

fn keeper_name(name: &CStr) -> Option<&str> {
    let name = name.to_str().ok()?;
    let is_hex = name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (name.len() == 32 && is_hex).then_some(name)
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
        assert_eq!(sweep(&directory, None).unwrap(), Population::Somebody);
        assert_eq!(sweep(&directory, Some(id)).unwrap(), Population::Nobody);
        // As by a kill: closed, but not taken away.
        drop(presence);
        assert!(!is_alive(&directory, &id));
        ring(&directory, &id, Ring::Look, claim);
        assert!(!is_alive(&directory, &id), "a ring does not raise the dead");
        assert_eq!(sweep(&directory, None).unwrap(), Population::Nobody);
        assert_eq!(
            rustix::fs::statat(&directory.alive, hex(&id), AtFlags::empty()).err(),
            Some(Errno::NOENT)
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
        presence.remove();
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
            rustix::io::read(&presence.pipe, &mut bytes).unwrap(),
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
    }
}
