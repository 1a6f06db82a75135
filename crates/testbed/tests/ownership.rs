//! Servers disappear with their owner, however it ends, and leave nothing on the machine.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockkeeper_testbed::{Postgres, Redis};

/// The state letter of a process, or nothing when it is gone or only waits to be collected.
fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn assert_gone(pid: i32, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_alive(pid) {
        assert!(Instant::now() < deadline, "{what} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that owns servers of this kind, and their process ids.
fn owner_of(kind: &str) -> (Child, Vec<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
    let mut owner = command.arg(kind).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let mut pids = Vec::new();
    for line in lines.map(Result::unwrap) {
        if line == "ready" {
            return (owner, pids);
        }
        pids.push(line.rsplit(' ').next().unwrap().parse().unwrap());
    }
    panic!("{kind} did not start: {:?}", owner.wait());
}

#[test]
fn dropping_kills_and_removes() {
    let redis = Redis::start().unwrap();
    let (pid, directory) = (
        redis.server().pid().unwrap(),
        redis.server().directory().to_owned(),
    );
    assert!(is_alive(pid) && directory.is_dir());
    drop(redis);
    assert!(!is_alive(pid));
    assert!(!directory.parent().unwrap().exists());
}

#[test]
fn a_paused_server_is_killed_all_the_same() {
    let redis = Redis::start().unwrap();
    let pid = redis.server().pid().unwrap();
    redis.server().pause().unwrap();
    drop(redis);
    assert!(!is_alive(pid));
}

/// The shared memory that a PostgreSQL in this directory uses, as the kernel numbers it.
fn segment_of(directory: &Path) -> String {
    let text = std::fs::read_to_string(directory.join("data/postmaster.pid")).unwrap();
    let words = text.lines().nth(6).unwrap().split_whitespace();
    words.last().unwrap().to_owned()
}

fn segment_exists(segment: &str) -> bool {
    let all = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    all.lines()
        .any(|line| line.split_whitespace().nth(1) == Some(segment))
}

#[test]
fn postgres_leaves_no_shared_memory() {
    let postgres = Postgres::start().unwrap();
    let segment = segment_of(postgres.server().directory());
    assert!(segment_exists(&segment));
    drop(postgres);
    assert!(!segment_exists(&segment));
}

/// A kind per way of starting: plain, as another user with children, and as a Java program.
#[test]
fn a_killed_owner_takes_its_servers_along() {
    for kind in ["redis", "postgres", "mariadb", "etcd", "zookeeper"] {
        let (mut owner, pids) = owner_of(kind);
        assert!(!pids.is_empty() && pids.iter().all(|pid| is_alive(*pid)));
        owner.kill().unwrap();
        owner.wait().unwrap();
        for pid in pids {
            assert_gone(pid, kind);
        }
    }
}

/// PostgreSQL's children are still about when the sweeper comes at once, attached to memory that
/// only the directory knows of.
#[test]
fn what_a_killed_owner_leaves_is_swept() {
    let (mut owner, pids) = owner_of("postgres");
    let data = std::fs::read_link(format!("/proc/{}/cwd", pids[0])).unwrap();
    let directory: PathBuf = data.parent().unwrap().to_owned();
    let segment = segment_of(&directory);
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(directory.is_dir());
    // Sweeping gives way to others at work, so the first one to come may leave it to the next.
    for _ in 0..50 {
        let (mut next, _) = owner_of("redis");
        next.kill().unwrap();
        next.wait().unwrap();
        if !directory.exists() {
            assert!(
                !segment_exists(&segment),
                "shared memory {segment} was left"
            );
            return;
        }
    }
    panic!("{} was never swept", directory.display());
}
