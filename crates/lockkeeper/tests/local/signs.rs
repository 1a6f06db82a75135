//! The named pipes in `alive/` and the clock: what a deleted pipe means, and which clocks are refused.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use lockkeeper::backend::{Entry, Query, Released, Standing, Wake};

use crate::stage::{Actor, SOON, Stage, assert_waits, exclusive, order};

/// Deletes all pipes, as a program that cleans up `/tmp` does.
fn clean(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.path.join("alive")).unwrap();
    let pipes: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(!pipes.is_empty());
    for pipe in &pipes {
        fs::remove_file(pipe).unwrap();
    }
    pipes
}

// proves: L1, L3
#[tokio::test]
async fn a_holder_whose_pipe_was_deleted_holds_until_its_lease_ends() {
    let stage = Stage::new();
    let (holder, other) = (stage.connect(), stage.connect());
    let mut held = exclusive("a");
    held.lease = Duration::from_secs(3);
    order(holder.enter(&held, Entry::Try).await.unwrap());
    clean(&stage);
    let next = exclusive("a");
    assert_eq!(
        other.enter(&next, Entry::Try).await.unwrap(),
        Standing::Gone,
        "a live holder was freed"
    );
    assert_eq!(other.inspect(&Query::All).await.unwrap().len(), 1);
    // A waiter looks again at the end of the lease, and is not woken continuously until then.
    let mut wakes = other.wakes();
    assert_waits(other.enter(&next, Entry::Queue).await.unwrap());
    let woken = tokio::time::timeout(Duration::from_millis(300), wakes.next()).await;
    assert!(woken.is_err(), "woken for nothing: {woken:?}");
    tokio::time::sleep(held.lease).await;
    order(other.renew(&[next]).await.unwrap()[0]);
}

// proves: L3, W5
#[tokio::test]
async fn an_owner_makes_its_deleted_pipe_anew_when_it_renews() {
    let stage = Stage::new();
    let (holder, other) = (stage.connect(), stage.connect());
    let (held, next) = (exclusive("a"), exclusive("a"));
    order(holder.enter(&held, Entry::Try).await.unwrap());
    assert_waits(other.enter(&next, Entry::Queue).await.unwrap());
    let pipes = clean(&stage);
    order(holder.renew(std::slice::from_ref(&held)).await.unwrap()[0]);
    let mut wakes = other.wakes();
    assert_waits(other.renew(std::slice::from_ref(&next)).await.unwrap()[0]);
    assert!(pipes.iter().all(|pipe| pipe.exists()));
    // What was sent while the pipe was missing is lost: the claims look once.
    let woken = tokio::time::timeout(SOON, wakes.next()).await.unwrap();
    assert!(woken.is_some());
    assert_waits(other.renew(std::slice::from_ref(&next)).await.unwrap()[0]);
    while tokio::time::timeout(Duration::from_millis(300), wakes.next())
        .await
        .is_ok()
    {}
    // A notification arrives through the new pipe.
    assert_eq!(holder.release(&held).await.unwrap(), Released::Freed);
    let woken = tokio::time::timeout(SOON, wakes.next()).await.unwrap();
    assert_eq!(woken, Some(Wake::Look(next.id)));
    order(other.renew(&[next]).await.unwrap()[0]);
    drop((holder, other));
    assert_eq!(stage.pipes(), 0);
}

// proves: L3
#[tokio::test]
async fn a_keeper_that_closes_while_the_gate_is_shut_leaves_nothing() {
    let stage = Stage::new();
    let (one, other) = (stage.connect(), stage.connect());
    order(one.enter(&exclusive("a"), Entry::Try).await.unwrap());
    order(one.enter(&exclusive("b"), Entry::Try).await.unwrap());
    let gate = fs::File::open(stage.path.join("gate")).unwrap();
    gate.lock().unwrap();
    drop(one);
    drop(gate);
    for name in ["a", "b"] {
        order(other.enter(&exclusive(name), Entry::Try).await.unwrap());
    }
    assert_eq!(stage.pipes(), 1);
}

// proves: L3
#[tokio::test]
async fn all_names_of_a_killed_process_are_free_at_once() {
    let stage = Stage::new();
    let mut holder = stage.play("hold both", "a");
    holder.expect("holds");
    holder.kill();
    let backend = stage.connect();
    for name in ["a", "a/2"] {
        order(backend.enter(&exclusive(name), Entry::Try).await.unwrap());
    }
    assert_eq!(stage.pipes(), 1, "the pipe of the killed process is left");
}

/// This program in a time namespace whose boot-time clock is 100,000 seconds ahead.
fn in_another_time() -> Command {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--time", "--boottime", "100000"]);
    command.arg(std::env::current_exe().unwrap());
    command
}

// proves: L1
#[tokio::test]
async fn another_time_namespace_is_refused() {
    let stage = Stage::new();
    let backend = stage.connect();
    let held = exclusive("a");
    order(backend.enter(&held, Entry::Try).await.unwrap());
    let other = Actor::start(in_another_time(), &stage.path, "hold", "a");
    let said = other.says();
    assert!(
        said.starts_with("error") && said.contains("time namespace"),
        "{said}"
    );
    order(backend.renew(&[held]).await.unwrap()[0]);

    // A directory that was first used there is refused here.
    let stage = Stage::new();
    let other = Actor::start(in_another_time(), &stage.path, "hold", "a");
    other.expect("holds");
    let error = stage.try_connect().unwrap_err();
    assert!(error.to_string().contains("time namespace"), "{error}");
}
