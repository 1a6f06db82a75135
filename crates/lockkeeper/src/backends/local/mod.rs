//! `local:`, the embedded default: one machine, many processes, no server, nothing to configure.
//!
//! # Where the locks live
//!
//! In a directory: `$XDG_STATE_HOME/lockkeeper`, else `~/.local/state/lockkeeper`, for `local:`; any
//! other for `local:/path`. It is not the runtime directory, which a cron job does not have: the job
//! would silently use another directory than the same user's shell.
//!
//! | file | what it is |
//! |---|---|
//! | `gate` | its `flock` is held for each change, and it holds the order counter of this boot; never deleted |
//! | `claims-BOOT.db`, `-wal`, `-shm` | the lists of this boot in SQLite; those of earlier boots are deleted unread |
//! | `ceiling` | no order number above it was ever used; on the disk before a number up to it is used |
//! | `alive/ID` | one named pipe per keeper: its process lives while it is locked, and is rung through it |
//!
//! A directory that does not exist is made with mode 0700, files in it with 0600. A directory that its
//! owner opened to a group (`chmod g+ws`) is shared: files in it are made with 0660, and the members of
//! the group trust each other. A directory that everybody may write to, that belongs to somebody
//! else, that is a symbolic link or lies on a network file system, is refused. Do not restore the
//! directory from a copy, and keep it out of reach of programs that clean up `/tmp`.
//! A pipe that such a program deletes frees no claim: the lease decides, and a renewal makes the pipe anew.
//!
//! # How it works
//!
//! Nothing is flushed to the disk for a grant: locks die with the machine anyway. Only the ceiling is,
//! once for a million grants, so that no token is ever handed out again, power cut or not. A killed
//! process is seen by its pipe: whoever waits behind it is told by the kernel at once. A waiter is rung
//! when its turn comes; nobody polls.
//!
//! # What to know before relying on it
//!
//! - Linux only, and one kernel: containers may share the directory, if their boot-time clocks are the
//!   same. A process in a time namespace with another offset is refused.
//! - A child made by `fork` without `exec` inherits the pipe: if its parent is killed, the parent's
//!   claims stay until their leases end. The child itself is refused; it connects anew.
//! - A stopped process (`SIGSTOP`) keeps what it holds until the lease ends. If it was stopped in the
//!   few microseconds in which it had the gate, all others get an error that names it.
//! - On `tmpfs` the ceiling does not outlive a restart of the machine; the class says so.

mod backend;
mod ceiling;
mod client;
mod config;
mod directory;
mod faults;
mod gate;
mod list;
mod presence;
mod reader;
mod store;
mod timens;
mod watch;

use std::sync::Arc;

pub use config::Config;

use self::backend::{LocalBackend, Shared};
use self::directory::Directory;
use self::faults::{damaged, unreachable};
use crate::backend::Backend;
use crate::error::Error;
use crate::guarantees::{Class, DeadAfter, Guarantees};
use crate::lifecycle::deadline::Clock;

const BACKEND: &str = "local";

/// Opens the directory, for one keeper.
///
/// # Errors
/// [`Error::Denied`] when the directory is not safe or not ours to use, [`Error::Unreachable`] when its
/// content cannot be read or trusted; each with the cure.
pub fn connect(config: &Config, clock: Clock) -> Result<Arc<dyn Backend>, Error> {
    let directory = Arc::new(Directory::open(&config.path)?);
    let boot = boot(config, &directory)?;
    let shared = Shared::new(directory, boot, clock)?;
    shared.open()?;
    Ok(Arc::new(LocalBackend(Arc::new(shared))))
}

/// The first half of the machine's boot id.
fn boot(config: &Config, directory: &Directory) -> Result<[u8; 16], Error> {
    let file = "/proc/sys/kernel/random/boot_id";
    let text = match &config.boot {
        Some(boot) => boot.clone(),
        None => std::fs::read_to_string(file)
            .map_err(|error| unreachable(format!("reading {file}: {error}")))?,
    };
    let digits = text.bytes().filter(u8::is_ascii_hexdigit).take(16);
    let digits: Vec<u8> = digits.collect();
    digits
        .try_into()
        .map_err(|_| damaged(&directory.path, file))
}

fn guarantees(directory: &Directory) -> Guarantees {
    let (class, reason) = if directory.forgets {
        let reason = "the directory is on a file system in memory, so the token starts anew when the machine does";
        (Class::BestEffort, reason)
    } else {
        (Class::Durable, "one machine: it does not outlive its disk")
    };
    Guarantees {
        class_reason: reason.into(),
        survives: vec![
            "a killed process, holding or waiting",
            "a power cut",
            "a full disk",
            "a wrong or jumping wall clock",
            "a suspend of the machine",
        ],
        caveats: vec![
            "a process that is paused past the end of its lease goes on believing: fence the resource".into(),
            "a child of a fork without exec keeps the claims of its killed parent until their leases end".into(),
            "the directory must not be restored from a copy".into(),
        ],
        clock: "the machine's boot-time clock",
        token: "a counter in the directory under a ceiling that is on the disk first; it rises as long as the directory is neither deleted nor restored".into(),
        dead_after: DeadAfter::ProcessEnd,
        ..Guarantees::of(BACKEND, class)
    }
}
