//! What the other processes do. A role is a test that does nothing unless the stage asks for it.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::getppid;

use crate::history::Verdict;
use crate::on::{self, Store};
use crate::stage::{PER_PROCESS, runtime};
use crate::writer::{Way, Writer, now};

fn setting(name: &str) -> String {
    std::env::var(format!("LOCKKEEPER_FENCE_{name}")).unwrap()
}

fn number(name: &str) -> u64 {
    setting(name).parse().unwrap()
}

#[test]
fn play() {
    let Ok(role) = std::env::var("LOCKKEEPER_FENCE_ROLE") else {
        return;
    };
    match role.as_str() {
        "postgres" => write::<on::postgres::Guarded>(),
        "postgres-side" => write::<on::postgres::Side>(),
        "mysql" => write::<on::mysql::Guarded>(),
        "mysql-side" => write::<on::mysql::Side>(),
        "sqlite" => write::<on::sqlite::Guarded>(),
        "sqlite-side" => write::<on::sqlite::Side>(),
        "redis" => write::<on::redis::Fenced>(),
        "file" => write::<on::file::Fenced>(),
        "http" => write::<on::http::Client>(),
        "http-server" => on::http::serve(&PathBuf::from(setting("TARGET"))),
        role => panic!("no role {role}"),
    }
}

/// Some writers, each on a thread of its own since some stores block, until they are killed.
fn write<S: Store + 'static>() {
    let first = number("PROCESS") * PER_PROCESS;
    let parent = getppid();
    let threads = (first..first + PER_PROCESS).map(|number| {
        std::thread::spawn(move || {
            runtime().block_on(async {
                while getppid() == parent {
                    work::<S>(number).await;
                }
            });
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

/// Writes until the store fails, or for a while.
async fn work<S: Store>(writer: u64) {
    let way = match setting("WAY").as_str() {
        "fenced" => Way::Fenced,
        _ => Way::TwoSteps,
    };
    let seed = number("SEED") ^ (writer << 40) ^ now();
    let directory = PathBuf::from(setting("DIRECTORY"));
    let mut writer = Writer::new(&directory, writer, (way, number("START")), seed);
    let Ok(mut store) = S::open(&setting("TARGET")).await else {
        return tokio::time::sleep(Duration::from_millis(20)).await;
    };
    for _ in 0..500 {
        if writer.once(&mut store).await == Verdict::Unknown {
            return;
        }
    }
}
