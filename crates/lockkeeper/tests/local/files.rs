//! The directory and its files: who is let in, what is refused, and what damage does.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use lockkeeper::Error;
use lockkeeper::backend::{Entry, Query, Standing};
use lockkeeper::guarantees::Class;

use crate::stage::{Actor, Stage, exclusive, order};

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[track_caller]
fn assert_denied(stage: &Stage, word: &str) {
    let error = stage.try_connect().unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// This program, started as a user who owns nothing.
fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(std::env::current_exe().unwrap());
    command
}

// fault S15
#[tokio::test]
async fn files_are_private_in_a_private_directory() {
    let stage = Stage::new();
    let backend = stage.connect();
    order(backend.enter(&exclusive("a"), Entry::Try).await.unwrap());
    assert_eq!(mode(&stage.path), 0o700);
    assert_eq!(mode(&stage.path.join("alive")), 0o700);
    let mut seen = 0;
    for directory in [&stage.path, &stage.path.join("alive")] {
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if !kind.is_dir() {
                assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 6, "gate, ceiling, three of SQLite, one pipe");
}

// fault S15
#[tokio::test]
async fn files_are_the_groups_in_a_shared_directory() {
    let stage = Stage::new();
    fs::create_dir(&stage.path).unwrap();
    chmod(&stage.path, 0o770);
    assert_denied(&stage, "chmod g+s");
    chmod(&stage.path, 0o2770);
    let backend = stage.connect();
    order(backend.enter(&exclusive("a"), Entry::Try).await.unwrap());
    for file in ["gate", "ceiling"] {
        assert_eq!(mode(&stage.path.join(file)), 0o660);
    }
    let database = stage.databases()[0].display().to_string();
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(Path::new(&format!("{database}{ending}"))), 0o660);
    }
    assert_eq!(mode(&stage.path.join("alive")), 0o2770);
    let pipe = fs::read_dir(stage.path.join("alive"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert!(pipe.file_type().unwrap().is_fifo());
    assert_eq!(mode(&pipe.path()), 0o660);
}

// fault S15
#[test]
fn a_directory_that_is_not_safe_is_refused() {
    let stage = Stage::new();
    fs::create_dir(&stage.path).unwrap();
    for world in [0o777, 0o1777, 0o2777, 0o702] {
        chmod(&stage.path, world);
        assert_denied(&stage, "chmod o-w");
    }
    chmod(&stage.path, 0o700);
    drop(stage.connect());
    chmod(&stage.path.join("alive"), 0o777);
    assert_denied(&stage, "chmod o-w");
    chmod(&stage.path.join("alive"), 0o2770);
    assert_denied(&stage, "alive");
    chmod(&stage.path.join("alive"), 0o700);
    stage.connect();

    let mut through = Stage::new();
    through.path = through.temp.path().join("link");
    symlink(&stage.path, &through.path).unwrap();
    assert_denied(&through, "symbolic link");
    fs::remove_file(&through.path).unwrap();
    fs::write(&through.path, "").unwrap();
    let error = through.try_connect().unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
}

// fault S15
#[test]
fn a_file_that_is_a_symbolic_link_is_refused() {
    let link_instead = |file: &Path, stage: &Stage| {
        let aside = stage.temp.path().join("aside");
        fs::rename(file, &aside).unwrap();
        symlink(&aside, file).unwrap();
    };
    for file in ["gate", "ceiling", "alive"] {
        let stage = Stage::new();
        drop(stage.connect());
        link_instead(&stage.path.join(file), &stage);
        let error = stage.try_connect().unwrap_err();
        println!("{file}: {error}");
    }
    let stage = Stage::new();
    drop(stage.connect());
    let database = &stage.databases()[0];
    link_instead(database, &stage);
    // Such a file is not the one that was made here: it is deleted as a link, never followed.
    drop(stage.connect());
    assert!(
        fs::symlink_metadata(&stage.databases()[0])
            .unwrap()
            .is_file()
    );
}

// fault S15
#[test]
fn another_users_directory_is_refused() {
    // Without the right to become somebody else, the directory of somebody else must be found.
    if !is_root() {
        let mut stage = Stage::new();
        stage.path = "/".into();
        return assert_denied(&stage, "belongs to");
    }
    let stage = Stage::new();
    drop(stage.connect());
    std::os::unix::fs::chown(&stage.path, Some(65534), None).unwrap();
    assert_denied(&stage, "belongs to user 65534");
    std::os::unix::fs::chown(&stage.path, Some(0), None).unwrap();
    chmod(stage.temp.path(), 0o755);
    let actor = Actor::start(as_nobody(), &stage.path, "hold", "a");
    let said = actor.says();
    assert!(
        said.starts_with("error") && said.contains("denies access"),
        "{said}"
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_denied() {
    if is_root() {
        // Root may write everywhere; somebody else may not.
        let stage = Stage::new();
        chmod(stage.temp.path(), 0o755);
        let actor = Actor::start(as_nobody(), &stage.path, "hold", "a");
        let said = actor.says();
        assert!(said.contains("denies access"), "{said}");
        return;
    }
    let stage = Stage::new();
    fs::create_dir(&stage.path).unwrap();
    chmod(&stage.path, 0o500);
    assert_denied(&stage, "Permission denied");
}

#[test]
fn memory_is_known_to_forget() {
    let mut stage = Stage::new();
    assert_eq!(stage.connect().guarantees().class, Class::Durable);
    stage.temp = tempfile::tempdir_in("/dev/shm").unwrap();
    stage.path = stage.temp.path().join("locks");
    let backend = stage.connect();
    let guarantees = backend.guarantees();
    assert_eq!(guarantees.class, Class::BestEffort);
    assert!(
        guarantees.class_reason.contains("memory"),
        "{}",
        guarantees.class_reason
    );
}

/// Every kind of damage: an error or an honest answer, never a panic and never a second hold.
async fn assert_no_second_hold(stage: &Stage, what: &str) {
    let outcome = match stage.try_connect() {
        Err(error) => Err(error),
        Ok(backend) => backend.enter(&exclusive("a"), Entry::Try).await,
    };
    match outcome {
        Ok(standing) => assert_eq!(standing, Standing::Gone, "{what}"),
        Err(error) => {
            assert!(
                error.to_string().contains("nothing was granted"),
                "{what}: {error}"
            );
        }
    }
}

#[tokio::test]
async fn a_damaged_database_grants_nothing() {
    let stage = Stage::new();
    let actor = stage.play("hold", "a");
    actor.expect("holds");
    let database = stage.databases()[0].clone();
    let log = database.with_extension("db-wal");
    // The list itself may still be in the log: bring it all into the file.
    rusqlite::Connection::open(&database)
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    let whole = fs::read(&database).unwrap();
    for (what, damage) in damages(&whole) {
        fs::write(&database, &damage).unwrap();
        assert_no_second_hold(&stage, &what).await;
    }
    fs::write(&database, &whole).unwrap();
    fs::write(&log, [0xa5; 4096]).unwrap();
    assert_no_second_hold(&stage, "the log is noise").await;
}

fn damages(whole: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut damages = Vec::new();
    let noise = |from: usize, length: usize| {
        let mut bytes = whole.to_vec();
        let end = bytes.len().min(from + length);
        for (at, byte) in bytes[from..end].iter_mut().enumerate() {
            *byte = (at * 73 + 41) as u8;
        }
        bytes
    };
    damages.push(("noise at the start".into(), noise(0, 100)));
    for page in 0..whole.len() / 2048 {
        damages.push((format!("noise on page {page}"), noise(page * 2048, 2048)));
    }
    for length in [1, 50, 100, 2047, 2048, whole.len() / 2] {
        damages.push((format!("cut to {length}"), whole[..length].to_vec()));
    }
    damages
}

#[tokio::test]
async fn rows_with_nonsense_in_them_are_errors() {
    for nonsense in [
        "mode = 7",
        "mode = 2, take = 9, out_of = 1",
        "mode = 2, take = -1",
        "id = x'00'",
        "keeper = x'0011'",
        "ends_ns = -5",
        "granted_ns = -5",
    ] {
        let stage = Stage::new();
        let actor = stage.play("hold", "a");
        actor.expect("holds");
        let database = rusqlite::Connection::open(&stage.databases()[0]).unwrap();
        database
            .execute(&format!("UPDATE claims SET {nonsense}"), [])
            .unwrap();
        drop(database);
        let backend = stage.connect();
        let error = backend
            .enter(&exclusive("a"), Entry::Try)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("nothing was granted"),
            "{nonsense}: {error}"
        );
        backend.inspect(&Query::All).await.unwrap_err();
    }
}

// bug 88; fault 22
#[tokio::test]
async fn closing_other_descriptors_of_the_files_frees_nothing() {
    let stage = Stage::new();
    let backend = stage.connect();
    let held = exclusive("a");
    order(backend.enter(&held, Entry::Try).await.unwrap());
    let open_and_close_all = || {
        let directories = [stage.path.clone(), stage.path.join("alive")];
        let entries = directories
            .iter()
            .flat_map(|path| fs::read_dir(path).unwrap());
        for path in entries.map(|entry| entry.unwrap().path()) {
            if !path.is_dir() {
                drop(File::options().read(true).write(true).open(path).unwrap());
            }
        }
    };
    for round in 0..5 {
        open_and_close_all();
        // Another process comes and goes as if it were the last one, and would clean up.
        let mut passing = stage.play("hold", &format!("b{round}"));
        passing.expect("holds");
        open_and_close_all();
        passing.tell("release");
        passing.expect("released");
        open_and_close_all();
        assert!(passing.wait());
        // What is written after that must not go where nobody reads it.
        order(backend.renew(std::slice::from_ref(&held)).await.unwrap()[0]);
        let later = format!("c{round}");
        order(backend.enter(&exclusive(&later), Entry::Try).await.unwrap());
        for name in ["a", &later] {
            stage.play("hold", name).expect("waits");
        }
    }
    let stage_view = stage.connect().inspect(&Query::All).await.unwrap();
    assert_eq!(stage_view.len(), 6);
}
