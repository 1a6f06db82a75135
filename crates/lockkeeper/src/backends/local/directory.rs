//! The directory: who may use it, on what kind of file system, and how files in it are made.
//!
//! Everything is opened relative to one descriptor of it and never through a symbolic link.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Stat, Statx, StatxFlags};
use rustix::io::Errno;

use super::faults::{denied, from_system};
use super::timens::boottime_offset_ns;
use crate::error::Error;

/// Flags of everything that is opened.
const SAFE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// An open directory that passed all checks.
#[derive(Debug)]
pub(super) struct Directory {
    /// The directory itself.
    pub(super) fd: OwnedFd,
    /// Its real path, without symbolic links.
    pub(super) path: PathBuf,
    /// Where each process shows that it lives.
    pub(super) alive: OwnedFd,
    /// Whether its content is gone after a restart of the machine.
    pub(super) forgets: bool,
    /// How far this process's boot-time clock is ahead of the machine's.
    pub(super) boottime_offset_ns: i64,
    shared: bool,
}

/// Which file a path names: the number alone is used again as soon as a file is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FileId {
    pub(super) inode: u64,
    pub(super) born_ns: u64,
}

/// A file as it is found under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct FoundFile {
    pub(super) id: FileId,
    pub(super) bytes: u64,
}

impl Directory {
    /// Opens the directory, or makes it as a private one.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let fd = open_or_make(path)?;
        let fault = |errno| from_system(path, "opening the directory", errno);
        let shared = check_owner(path, &rustix::fs::fstat(&fd).map_err(fault)?)?;
        let kind = rustix::fs::fstatfs(&fd).map_err(fault)?.f_type as u64;
        let forgets = check_file_system(path, kind & 0xffff_ffff)?;
        let real = path.canonicalize().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            from_system(path, "finding the real path of the directory", errno)
        })?;
        let alive = open_alive(&fd, shared).map_err(fault)?;
        let stat = rustix::fs::fstat(&alive).map_err(fault)?;
        if check_owner(&real.join("alive"), &stat)? != shared {
            return Err(denied(format!(
                "{}/alive does not have the permissions of its parent: give both the same",
                real.display()
            )));
        }
        Ok(Self {
            fd,
            path: real,
            alive,
            forgets,
            boottime_offset_ns: boottime_offset_ns()?,
            shared,
        })
    }

    /// The permissions of files in it.
    pub(super) fn mode(&self) -> Mode {
        let group = Mode::RGRP | Mode::WGRP;
        let user = Mode::RUSR | Mode::WUSR;
        if self.shared { user | group } else { user }
    }

    /// Opens an existing file for reading and writing.
    pub(super) fn open_file(&self, name: &str) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.fd, name, SAFE | OFlags::RDWR, Mode::empty())
    }

    /// Makes a file that must not exist yet.
    pub(super) fn make_file(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = SAFE | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let file = rustix::fs::openat(&self.fd, name, flags, self.mode())?;
        // The umask must not decide whether the group gets in.
        rustix::fs::fchmod(&file, self.mode())?;
        Ok(file)
    }

    /// Opens a file, or makes it: it never stands under its name with other permissions than the right
    /// ones, so that of two users who come first at the same time none is turned away.
    pub(super) fn open_or_make_file(&self, name: &str) -> Result<OwnedFd, Errno> {
        loop {
            match self.open_file(name) {
                Err(Errno::NOENT) => {}
                opened => return opened,
            }
            let draft = draft_name(name);
            drop(self.make_file(&draft)?);
            let linked = rustix::fs::linkat(&self.fd, &draft, &self.fd, name, AtFlags::empty());
            rustix::fs::unlinkat(&self.fd, &draft, AtFlags::empty())?;
            match linked {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// The file that the name means now, if any.
    pub(super) fn find(&self, name: &str) -> Result<Option<FoundFile>, Errno> {
        match rustix::fs::statx(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW, WANTED) {
            Ok(stat) => Ok(Some(FoundFile {
                id: id_of(&stat),
                bytes: stat.stx_size,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The names of all files in it that belong to claims of any boot.
    pub(super) fn claim_files(&self) -> Result<Vec<String>, Errno> {
        let mut found = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with("claims-") {
                found.push(name);
            }
        }
        Ok(found)
    }

    /// Removes a file; one that is not there is fine.
    pub(super) fn remove(&self, name: &str) -> Result<(), Errno> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }
}

const WANTED: StatxFlags = StatxFlags::INO
    .union(StatxFlags::SIZE)
    .union(StatxFlags::BTIME);

/// Which file is open here.
pub(super) fn id_of_open(fd: &OwnedFd) -> Result<FileId, Errno> {
    rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, WANTED).map(|stat| id_of(&stat))
}

fn id_of(stat: &Statx) -> FileId {
    let born = &stat.stx_btime;
    FileId {
        inode: stat.stx_ino,
        born_ns: (born.tv_sec as u64)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(u64::from(born.tv_nsec)),
    }
}

fn draft_name(name: &str) -> String {
    // Two processes must not share a draft; one process makes one at a time under one name, or fails
    // to make the second and tries again.
    format!(".{name}-{}", rustix::thread::gettid().as_raw_nonzero())
}

fn open_or_make(path: &Path) -> Result<OwnedFd, Error> {
    let flags = SAFE | OFlags::RDONLY | OFlags::DIRECTORY;
    let open = || rustix::fs::openat(CWD, path, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                from_system(path, "making the directory", errno)
            })?;
            open()
        }
        opened => opened,
    };
    opened.map_err(|errno| match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => denied(format!(
            "{} is a symbolic link, and none is followed: name the directory itself",
            path.display()
        )),
        Ok(found) if !found.is_dir() => {
            Error::invalid(format_args!("{} is no directory", path.display()))
        }
        _ => from_system(path, "opening the directory", errno),
    })
}

fn open_alive(parent: &OwnedFd, shared: bool) -> Result<OwnedFd, Errno> {
    let flags = SAFE | OFlags::RDONLY | OFlags::DIRECTORY;
    let open = |name: &str| rustix::fs::openat(parent, name, flags, Mode::empty());
    loop {
        match open("alive") {
            Err(Errno::NOENT) => {}
            opened => return opened,
        }
        let mode = if shared { 0o2770 } else { 0o700 };
        let draft = draft_name("alive");
        rustix::fs::mkdirat(parent, &draft, Mode::RWXU)?;
        rustix::fs::fchmod(open(&draft)?, Mode::from_raw_mode(mode))?;
        let flags = RenameFlags::NOREPLACE;
        if let Err(errno) = rustix::fs::renameat_with(parent, &draft, parent, "alive", flags) {
            rustix::fs::unlinkat(parent, &draft, AtFlags::REMOVEDIR)?;
            if errno != Errno::EXIST {
                return Err(errno);
            }
        }
    }
}

/// Whether the directory is one that its group shares on purpose; an error if it lets in anybody else.
fn check_owner(path: &Path, stat: &Stat) -> Result<bool, Error> {
    let place = path.display();
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(Mode::WOTH) {
        return Err(denied(format!(
            "everybody may write to {place}, so anybody could take or break locks: chmod o-w {place}"
        )));
    }
    let shared = mode.contains(Mode::WGRP);
    if shared && !mode.contains(Mode::SGID) {
        return Err(denied(format!(
            "the group may write to {place} but new files would not belong to it: chmod g+s {place} to share it, or chmod g-w {place} to keep it private"
        )));
    }
    let me = rustix::process::geteuid();
    if !shared && stat.st_uid != me.as_raw() {
        return Err(denied(format!(
            "{place} belongs to user {}, not to user {}: use a directory of your own, or have it shared with a group (chmod g+ws {place})",
            stat.st_uid,
            me.as_raw()
        )));
    }
    Ok(shared)
}

/// File systems between machines, or through a program, on which file locks or shared memory are not
/// those of one kernel.
const FOREIGN: [(u64, &str); 14] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB2"),
    (0xff53_4d42, "CIFS"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x0bd0_0bd0, "Lustre"),
    (0x786f_4256, "VirtualBox shared folder"),
];

/// Whether the file system forgets everything at a restart; an error if it is not this machine's own.
fn check_file_system(path: &Path, kind: u64) -> Result<bool, Error> {
    if let Some((_, name)) = FOREIGN.iter().find(|(magic, _)| *magic == kind) {
        return Err(denied(format!(
            "{} is on {name}, where file locks and shared memory cannot be relied on: choose a directory on a disk of this machine",
            path.display()
        )));
    }
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    Ok(matches!(kind, TMPFS | RAMFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_file_systems_are_refused_and_memory_is_known_to_forget() {
        let path = Path::new("/x");
        for (magic, name) in FOREIGN {
            let error = check_file_system(path, magic).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert!(check_file_system(path, 0x0102_1994).unwrap());
        assert!(!check_file_system(path, 0xef53).unwrap());
    }
}
