//! The torture of every fence: 32 writers with shuffled, delayed, repeated and stale tokens, killed at random.
//! The highest accepted token never falls, no stale write stands, nothing is lost. With the comparison and
//! the write in two steps, the very same test sees the harm.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use lockkeeper_testbed::{Actor, MariaDb, Postgres, Redis};

use crate::history::{Harm, History, writes_in};
use crate::on::{self, Store};
use crate::stage::{Stage, inside, runtime};
use crate::writer::{Dice, WRITERS, Way, Writer, now};

// proves: F3
#[test]
fn postgres_guard_columns() {
    let server = Postgres::start().unwrap();
    on::postgres::prepare(&server);
    Stage::new("postgres", &server.url(), Way::Fenced).holds::<on::postgres::Guarded>(|| {});
    on::postgres::forget(&server);
    Stage::new("postgres", &server.url(), Way::TwoSteps).breaks::<on::postgres::Guarded>();
}

// proves: F3
#[test]
fn postgres_side_table() {
    let server = Postgres::start().unwrap();
    on::postgres::prepare(&server);
    Stage::new("postgres-side", &server.url(), Way::Fenced).holds::<on::postgres::Side>(|| {});
    on::postgres::forget(&server);
    Stage::new("postgres-side", &server.url(), Way::TwoSteps).breaks::<on::postgres::Side>();
}

// proves: F3
#[test]
fn mysql_guard_columns() {
    let server = MariaDb::start().unwrap();
    on::mysql::prepare(&server);
    Stage::new("mysql", &server.url(), Way::Fenced).holds::<on::mysql::Guarded>(|| {});
    on::mysql::forget(&server);
    Stage::new("mysql", &server.url(), Way::TwoSteps).breaks::<on::mysql::Guarded>();
}

// proves: F3
#[test]
fn mysql_side_table() {
    let server = MariaDb::start().unwrap();
    on::mysql::prepare(&server);
    Stage::new("mysql-side", &server.url(), Way::Fenced).holds::<on::mysql::Side>(|| {});
    on::mysql::forget(&server);
    Stage::new("mysql-side", &server.url(), Way::TwoSteps).breaks::<on::mysql::Side>();
}

// proves: F3
#[test]
fn sqlite_guard_columns() {
    let directory = tempfile::tempdir().unwrap();
    let path = inside(directory.path(), "database");
    on::sqlite::prepare(&path);
    Stage::new("sqlite", &path, Way::Fenced).holds::<on::sqlite::Guarded>(|| {});
    let path = inside(directory.path(), "other");
    on::sqlite::prepare(&path);
    Stage::new("sqlite", &path, Way::TwoSteps).breaks::<on::sqlite::Guarded>();
}

// proves: F3
#[test]
fn sqlite_side_table() {
    let directory = tempfile::tempdir().unwrap();
    let path = inside(directory.path(), "database");
    on::sqlite::prepare(&path);
    Stage::new("sqlite-side", &path, Way::Fenced).holds::<on::sqlite::Side>(|| {});
    let path = inside(directory.path(), "other");
    on::sqlite::prepare(&path);
    Stage::new("sqlite-side", &path, Way::TwoSteps).breaks::<on::sqlite::Side>();
}

// proves: F3
#[test]
fn redis() {
    let server = Redis::start().unwrap();
    let url = format!("redis://{}", server.address());
    Stage::new("redis", &url, Way::Fenced).holds::<on::redis::Fenced>(|| {});
    let server = Redis::start().unwrap();
    let url = format!("redis://{}", server.address());
    Stage::new("redis", &url, Way::TwoSteps).breaks::<on::redis::Fenced>();
}

// proves: F3
#[test]
fn file() {
    let directory = tempfile::tempdir().unwrap();
    let path = inside(directory.path(), "resource");
    Stage::new("file", &path, Way::Fenced).holds::<on::file::Fenced>(|| {});
    let path = inside(directory.path(), "other");
    Stage::new("file", &path, Way::TwoSteps).breaks::<on::file::Fenced>();
}

/// The server is killed too, and comes back with what its gate has on the disk.
// proves: F3
#[test]
fn http() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().display().to_string();
    let serve = || {
        let role = [
            ("LOCKKEEPER_FENCE_ROLE", "http-server"),
            ("LOCKKEEPER_FENCE_TARGET", &target),
        ];
        let server = Actor::play(&role);
        let start = Instant::now();
        while runtime().block_on(on::http::Client::open(&target)).is_err() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "the server does not come up"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    };
    let server = RefCell::new(Some(serve()));
    Stage::new("http", &target, Way::Fenced).holds::<on::http::Client>(|| {
        server.replace(None);
        server.replace(Some(serve()));
    });
    std::fs::remove_file(directory.path().join("value")).unwrap();
    Stage::new("http", &target, Way::TwoSteps).breaks::<on::http::Client>();
}

/// In one process, since the store is: calls are dropped halfway instead.
// proves: F3
#[test]
fn object() {
    let rounds = std::env::var("LOCKKEEPER_FENCE_WRITES").map_or(100, |writes| {
        writes.parse::<u64>().unwrap().div_ceil(WRITERS)
    });
    let violations = object_history("fenced", Way::Fenced, rounds).violations();
    assert!(
        violations.is_empty(),
        "{} violations, first {}",
        violations.len(),
        violations[0].1
    );
    let broken = (0..12).any(|round| {
        let history = object_history(&format!("two steps {round}"), Way::TwoSteps, 60);
        history
            .violations()
            .iter()
            .any(|(harm, _)| *harm == Harm::StaleAccepted)
    });
    assert!(
        broken,
        "compare and write in two steps, and no harm was seen: this test can prove nothing"
    );
}

fn object_history(target: &str, way: Way, rounds: u64) -> History {
    let logs = tempfile::tempdir().unwrap();
    let start = now();
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let mut writer = Writer::new(logs.path(), number, (way, start), number + 1);
            scope.spawn(move || runtime().block_on(write_hastily(&mut writer, target, rounds)));
        }
    });
    let writes = writes_in(logs.path());
    println!("object: {} writes {way:?}", writes.len());
    let samples = Vec::new();
    History { writes, samples }
}

/// Writes, and drops every tenth call halfway.
async fn write_hastily(writer: &mut Writer, target: &str, rounds: u64) {
    let mut store = on::object::Fenced::open(target).await.unwrap();
    let mut dice = Dice::new(writer.number + 99);
    for _ in 0..rounds {
        let once = writer.once(&mut store);
        let patience = match dice.below(10) {
            0 => Duration::from_micros(dice.below(2_000)),
            _ => Duration::from_secs(60),
        };
        let _dropped_halfway = tokio::time::timeout(patience, once).await;
    }
}
