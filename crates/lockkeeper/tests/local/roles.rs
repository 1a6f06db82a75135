//! What the other processes do. A role is a test that does nothing unless the stage asks for it.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Clock;
use lockkeeper::Mode;
use lockkeeper::backend::{Backend, Entry, Released, Standing};
use lockkeeper::backends::local::{Config, connect};

use crate::stage::{acquire, acquire_after, claim, exclusive};

fn say(what: &str) {
    // One write, so that lines of several tasks do not mix.
    let line = format!("\nsays: {what}\n");
    std::io::stdout().write_all(line.as_bytes()).unwrap();
}

/// Blocks until the stage says something; `None` when it is gone.
fn hear() -> Option<String> {
    let line = std::io::stdin().lock().lines().next()?;
    Some(line.unwrap())
}

#[test]
fn play() {
    let Ok(role) = std::env::var("LOCKKEEPER_TEST_ROLE") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let name = std::env::var("LOCKKEEPER_TEST_NAME").unwrap();
        let directory = std::env::var("LOCKKEEPER_TEST_DIRECTORY").unwrap();
        let backend = connect(&Config::at(directory.clone()).unwrap(), Clock::system());
        let backend = match backend {
            Ok(backend) => backend,
            Err(error) => return say(&format!("error {error}")),
        };
        match role.as_str() {
            "hold" => hold(&backend, &name, Mode::Exclusive).await,
            "hold both" => hold_both(&backend, &name).await,
            "read" => hold(&backend, &name, Mode::Shared).await,
            "permit" => hold(&backend, &name, Mode::permits(1, 3).unwrap()).await,
            "cycle" => cycle(&backend, &name, &directory).await,
            "churn" => churn(&backend, &name).await,
            "fill" => fill(&backend).await,
            role => panic!("no role {role}"),
        }
    });
    // Threads that wait for the stage's next word must not keep the process.
    runtime.shutdown_background();
}

/// Holds the name until it is told to release it, to leave without a word, or the stage is gone.
async fn hold(backend: &Arc<dyn Backend>, name: &str, mode: Mode) {
    let claim = claim(name, mode);
    let acquire = acquire_after(backend, &claim, || say("waits"));
    let heard = tokio::task::spawn_blocking(hear);
    tokio::pin!(acquire);
    tokio::pin!(heard);
    let heard = tokio::select! {
        (order, asked) = &mut acquire => {
            say(&format!("holds {order}"));
            say(&format!("asked {asked}"));
            heard.await
        }
        heard = &mut heard => heard,
    };
    match heard.unwrap().as_deref() {
        Some("release") => {
            assert_eq!(backend.release(&claim).await.unwrap(), Released::Freed);
            say("released");
            let _until_the_stage_is_gone = tokio::task::spawn_blocking(hear).await;
        }
        Some("stop") | None => {}
        Some(word) => panic!("told {word}"),
    }
}

/// Holds two names until it is killed.
async fn hold_both(backend: &Arc<dyn Backend>, name: &str) {
    for name in [name, &format!("{name}/2")] {
        acquire(backend, &exclusive(name)).await;
    }
    say("holds");
    let _until_the_stage_is_gone = tokio::task::spawn_blocking(hear).await;
}

/// Takes the name again and again; alone each time, and with a higher number.
async fn cycle(backend: &Arc<dyn Backend>, name: &str, directory: &str) {
    let witness = format!("{directory}/../witness");
    let log = format!("{directory}/../log");
    let rounds = 5;
    for _ in 0..rounds {
        let claim = exclusive(name);
        let (order, _) = acquire(backend, &claim).await;
        let alone = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&witness);
        alone.expect("two processes hold at the same time");
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&log);
        writeln!(log.unwrap(), "{order}").unwrap();
        std::fs::remove_file(&witness).unwrap();
        assert_eq!(backend.release(&claim).await.unwrap(), Released::Freed);
    }
    say("done");
}

/// Takes and gives back a permit, a reading and a writing claim, until it is killed.
async fn churn(backend: &Arc<dyn Backend>, name: &str) {
    say("begins");
    for round in 0u64.. {
        let mode = match round % 3 {
            0 => Mode::permits(1, 3).unwrap(),
            1 => Mode::Shared,
            _ => Mode::Exclusive,
        };
        let claim = claim(name, mode);
        acquire(backend, &claim).await;
        tokio::time::sleep(Duration::from_micros(200)).await;
        backend.release(&claim).await.unwrap();
    }
}

/// Takes more and more names, until the disk is full.
async fn fill(backend: &Arc<dyn Backend>) {
    let first = exclusive("first");
    backend.enter(&first, Entry::Try).await.unwrap();
    for number in 0..100_000 {
        let claim = exclusive(&format!("{number:0250}"));
        match backend.enter(&claim, Entry::Try).await {
            Ok(standing) => assert!(matches!(standing, Standing::Holds { .. })),
            Err(error) => {
                say(&format!("full {number}"));
                say(&format!("error {error}"));
                break;
            }
        }
    }
    let renewed = backend.renew(std::slice::from_ref(&first)).await;
    say(&format!("renewed {renewed:?}"));
    tokio::task::spawn_blocking(hear).await.unwrap();
    let released = backend.release(&first).await;
    say(&format!("released {released:?}"));
    tokio::task::spawn_blocking(hear).await.unwrap();
}
