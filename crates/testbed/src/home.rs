//! The directories servers live in. They are below one directory of the machine that the servers'
//! own users can reach, and those of a killed owner are swept by the next process that comes.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Doing, Error, Result};
use crate::process;
use crate::program::User;

/// Overrides where everything lives that is on a disk; the place must be reachable by the users `postgres` and
/// `mysql`, so not below a closed home directory.
const PLACE_VARIABLE: &str = "LOCKKEEPER_TESTBED_DIR";

/// Where files are never written to a disk.
const MEMORY: &str = "/dev/shm";

/// The file whose lock says that the owner of a home is alive.
const OWNER_FILE: &str = "owner";

/// How long the kernel is given to end what a sweeper kills.
const CHILDREN_GONE_WITHIN: Duration = Duration::from_secs(2);

/// One directory for one server or set of servers, removed when dropped.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    /// Holds the lock that keeps sweepers away.
    _owner: File,
}

impl Home {
    /// On the disk for a server that must be durable. Any other lives in memory: not all of them can be told to leave
    /// the disk alone, and on a busy one each of their writes may take seconds.
    pub(crate) fn new(kind: &str, durable: bool) -> Result<Home> {
        static SWEPT: [OnceLock<()>; 2] = [const { OnceLock::new() }; 2];
        let in_memory = !durable && Path::new(MEMORY).is_dir();
        let runs = if in_memory {
            owned(&Path::new(MEMORY).join(own_name()))?.join("run")
        } else {
            shared_directory("run")?
        };
        make_directory(&runs)?;
        SWEPT[usize::from(in_memory)].get_or_init(|| sweep(&runs));
        Home::among(&runs, kind)
    }

    fn among(runs: &Path, kind: &str) -> Result<Home> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let path = runs.join(format!("{kind}-{}-{serial}", std::process::id()));
        // A sweeper must not see the directory before its lock is taken.
        let _no_sweeper = lock_file(&runs.with_extension("lock"), FlockOperation::LockShared)?;
        make_directory(&path)?;
        let owner = lock_file(&path.join(OWNER_FILE), FlockOperation::LockExclusive)?;
        Ok(Home {
            path,
            _owner: owner,
        })
    }

    /// A directory inside for one node, owned by the account that its server runs as.
    pub(crate) fn node(&self, name: &str, user: Option<&User>) -> Result<PathBuf> {
        let path = self.path.join(name);
        make_directory(&path)?;
        give_to(&path, user)?;
        Ok(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Left over on failure for the next sweep; a test's verdict does not depend on it.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A directory of this machine and user that outlives the process: ports, templates, homes.
pub(crate) fn shared_directory(name: &str) -> Result<PathBuf> {
    let base = std::env::var_os(PLACE_VARIABLE).map(PathBuf::from);
    let base = base.unwrap_or_else(|| Path::new("/tmp").join(own_name()));
    let path = owned(&base)?.join(name);
    make_directory(&path)?;
    Ok(path)
}

fn own_name() -> String {
    format!("lockkeeper-testbed-{}", rustix::process::geteuid().as_raw())
}

/// Makes the directory, unless it is there already and this user's.
fn owned(base: &Path) -> Result<&Path> {
    let uid = rustix::process::geteuid().as_raw();
    make_directory(base)?;
    let owner = fs::metadata(base)
        .doing(format!("reading {}", base.display()))?
        .uid();
    if owner != uid {
        let output = format!(
            "{} belongs to user {owner}; set {PLACE_VARIABLE}",
            base.display()
        );
        return Err(Error::Command {
            what: "using the shared directory".to_owned(),
            output,
        });
    }
    Ok(base)
}

/// Opens (and makes) a file and waits for its lock; dropping the file unlocks it.
pub(crate) fn lock_file(path: &Path, how: FlockOperation) -> Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    let file = options
        .open(path)
        .doing(format!("opening {}", path.display()))?;
    flock(&file, how).doing(format!("locking {}", path.display()))?;
    Ok(file)
}

/// Hands a file or directory to the account that a server runs as.
pub(crate) fn give_to(path: &Path, user: Option<&User>) -> Result<()> {
    let Some(user) = user else { return Ok(()) };
    chown(path, Some(user.uid), Some(user.gid)).doing(format!("chown of {}", path.display()))
}

/// Servers run as users of their own, and the umask of this process may be closed to them.
pub(crate) fn let_all_read(path: &Path) -> Result<()> {
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, open).doing(format!("opening up {}", path.display()))
}

fn make_directory(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let make = DirBuilder::new().recursive(true).create(path);
    make.doing(format!("making {}", path.display()))?;
    let_all_read(path)
}

/// Removes the homes whose owners were killed, with what may still run in them.
fn sweep(runs: &Path) {
    let lock = runs.with_extension("lock");
    let Ok(_alone) = lock_file(&lock, FlockOperation::NonBlockingLockExclusive) else {
        // Somebody else is sweeping, or just making a home: the next process will do it.
        return;
    };
    let Ok(homes) = fs::read_dir(runs) else {
        return;
    };
    for home in homes.flatten().map(|entry| entry.path()) {
        let owner = home.join(OWNER_FILE);
        if lock_file(&owner, FlockOperation::NonBlockingLockExclusive).is_ok() {
            clear_away(&home);
        }
    }
}

/// The kernel killed the servers themselves with their owner; what is left are their children,
/// about to notice, or stopped if the server was paused at that moment.
fn clear_away(home: &Path) {
    let deadline = Instant::now() + CHILDREN_GONE_WITHIN;
    // Until they are gone: shared memory that somebody is attached to cannot be removed, and its
    // id is lost with the directory.
    while Instant::now() < deadline {
        let left = process::living_in(home);
        if left.is_empty() {
            break;
        }
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
        thread::sleep(Duration::from_millis(2));
    }
    let Ok(nodes) = fs::read_dir(home) else {
        return;
    };
    for node in nodes.flatten() {
        remove_shared_memory(&node.path().join("data"));
    }
    let _ = fs::remove_dir_all(home);
}

/// PostgreSQL's shared memory outlives a SIGKILL, unlike everything else that servers leave; the
/// seventh line of its pid file has the segment's key and id.
pub(crate) fn remove_shared_memory(data_directory: &Path) {
    let Ok(text) = fs::read_to_string(data_directory.join("postmaster.pid")) else {
        return;
    };
    let Some(segment) = text.lines().nth(6) else {
        return;
    };
    let mut words = segment.split_whitespace();
    let (Some(key), Some(id)) = (words.next(), words.next()) else {
        return;
    };
    if !is_abandoned_segment(key, id) {
        return;
    }
    let mut ipcrm = Command::new("ipcrm");
    ipcrm
        .args(["-m", id])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _ = ipcrm.status();
}

/// Whether the segment is still this one, and nobody is attached: ids are used again.
fn is_abandoned_segment(key: &str, id: &str) -> bool {
    let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    segments.lines().any(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.first() == Some(&key) && columns.get(1) == Some(&id) && columns.get(6) == Some(&"0")
    })
}
