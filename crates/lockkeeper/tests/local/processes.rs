//! Many processes: killed, stopped, leaving in the middle of the line, and all at once.

use std::fs::File;
use std::time::{Duration, Instant};

use lockkeeper::Mode;
use lockkeeper::backend::{Entry, Query, Released, Standing};

use crate::stage::{Actor, SOON, Stage, assert_waits, claim, exclusive, name, order};

/// What the waiter says next must be that it holds, and soon after the kill.
fn holds_after(waiter: &Actor, kill: Instant, what: &str) {
    waiter.expect("holds");
    let took = kill.elapsed();
    println!("{what}: told after {took:?}");
    assert!(took < Duration::from_secs(1), "{what}: {took:?}");
}

// proves: L3, W5
#[test]
fn the_waiter_behind_a_killed_holder_is_told_at_once() {
    let stage = Stage::new();
    for _ in 0..5 {
        let mut holder = stage.play("hold", "a");
        let first = holder.expect("holds");
        let mut waiter = stage.play("hold", "a");
        waiter.expect("waits");
        let kill = holder.kill();
        let second = waiter.says();
        println!("killed holder: told after {:?}", kill.elapsed());
        assert!(kill.elapsed() < Duration::from_secs(1));
        assert!(
            second
                .strip_prefix("holds ")
                .unwrap()
                .parse::<u64>()
                .unwrap()
                > first
        );
        // Rung once, asked once: nobody polls.
        assert_eq!(waiter.says(), "asked 1");
        waiter.kill();
    }
}

// proves: L9, L11
#[test]
fn killed_waiters_delay_nobody() {
    let stage = Stage::new();
    let mut holder = stage.play("hold", "a");
    holder.expect("holds");
    let mut line: Vec<Actor> = Vec::new();
    for _ in 0..5 {
        let waiter = stage.play("hold", "a");
        waiter.expect("waits");
        line.push(waiter);
    }
    let last = line.pop().unwrap();
    for waiter in &mut line {
        waiter.kill();
    }
    let kill = holder.kill();
    holds_after(&last, kill, "killed line");
    assert_eq!(
        stage.connect().place(),
        format!("local:{}", stage.path.display())
    );
}

// proves: L3, L12
#[test]
fn a_writer_hears_of_readers_that_came_to_hold_while_it_waited() {
    let stage = Stage::new();
    let mut first = stage.play("hold", "a");
    first.expect("holds");
    let mut one = stage.play("read", "a");
    one.expect("waits");
    let mut two = stage.play("read", "a");
    two.expect("waits");
    let writer = stage.play("hold", "a");
    writer.expect("waits");
    // The writer watches the second reader only, until it is told that both hold ahead of it.
    first.tell("release");
    first.expect("released");
    one.expect("holds");
    two.expect("holds");
    two.tell("release");
    two.expect("released");
    assert_eq!(writer.says_within(Duration::from_millis(200)), None);
    let kill = one.kill();
    holds_after(&writer, kill, "killed reader");
}

// proves: L9, L11
#[test]
fn whoever_stands_behind_a_waiter_that_left_watches_the_next_one() {
    let stage = Stage::new();
    let mut holder = stage.play("hold", "a");
    holder.expect("holds");
    let mut middle = stage.play("hold", "a");
    middle.expect("waits");
    let last = stage.play("hold", "a");
    last.expect("waits");
    middle.tell("release");
    middle.expect("released");
    std::thread::sleep(Duration::from_millis(200));
    let kill = holder.kill();
    holds_after(&last, kill, "killed holder after a waiter left");
}

// proves: L13
// bug 83
#[test]
fn permits_of_killed_processes_come_back() {
    let stage = Stage::new();
    let mut holders: Vec<Actor> = (0..3).map(|_| stage.play("permit", "a")).collect();
    for holder in &holders {
        holder.expect("holds");
    }
    let waiter = stage.play("permit", "a");
    waiter.expect("waits");
    let kill = holders[1].kill();
    holds_after(&waiter, kill, "killed permit");
}

// proves: L1, L3, L9
// bug 83
#[tokio::test]
async fn nothing_is_left_of_many_processes_killed_at_any_moment() {
    let stage = Stage::new();
    let backend = stage.connect();
    for round in 0..30 {
        let mut actors: Vec<Actor> = (0..3).map(|_| stage.play("churn", "a")).collect();
        for actor in &actors {
            actor.expect("begins");
        }
        tokio::time::sleep(Duration::from_millis(1 + round % 7)).await;
        for actor in &mut actors {
            actor.kill();
        }
        assert!(backend.inspect(&Query::All).await.unwrap().is_empty());
        let all = claim("a", Mode::permits(3, 3).unwrap());
        order(backend.enter(&all, Entry::Try).await.unwrap());
        assert_eq!(backend.release(&all).await.unwrap(), Released::Freed);
    }
    drop(backend);
    // The next one buries whoever had nothing in a list when it was killed.
    stage.delete_claims();
    let backend = stage.connect();
    assert_eq!(stage.pipes(), 0);
    assert!(backend.inspect(&Query::All).await.unwrap().is_empty());
}

// proves: L1, L11, F1
#[test]
fn two_hundred_processes_take_turns() {
    let stage = Stage::new();
    let begun = Instant::now();
    let mut actors: Vec<Actor> = (0..200).map(|_| stage.play("cycle", "a")).collect();
    for actor in &mut actors {
        let said = actor.says_within(Duration::from_secs(120));
        assert_eq!(said.as_deref(), Some("done"));
        assert!(actor.wait());
    }
    println!("1000 holds of 200 processes: {:?}", begun.elapsed());
    let log = std::fs::read_to_string(stage.temp.path().join("log")).unwrap();
    let orders: Vec<u64> = log.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(orders.len(), 1000);
    assert!(
        orders.is_sorted_by(|one, next| one < next),
        "a token went back: {orders:?}"
    );
    assert_eq!(stage.pipes(), 0);
}

// proves: L3
#[tokio::test]
async fn a_stopped_holder_keeps_its_claim_until_the_lease_ends() {
    let stage = Stage::new();
    let holder = stage.play("hold", "a");
    holder.expect("holds");
    let pid = rustix::process::Pid::from_raw(holder.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let backend = stage.connect();
    assert_eq!(
        backend.enter(&exclusive("a"), Entry::Try).await.unwrap(),
        Standing::Gone
    );
    let view = &backend.inspect(&Query::One(name("a"))).await.unwrap()[0];
    assert_eq!(view.holders[0].party.pid, holder.pid());
}

/// The gate, taken as a stopped process would keep it.
fn take_gate(stage: &Stage) -> File {
    let gate = File::open(stage.path.join("gate")).unwrap();
    gate.lock().unwrap();
    gate
}

// proves: L9, W5
#[tokio::test]
async fn a_gate_that_stays_shut_is_an_error_that_names_its_holder() {
    let stage = Stage::new();
    let backend = stage.connect();
    let held = exclusive("held");
    order(backend.enter(&held, Entry::Try).await.unwrap());
    let gate = take_gate(&stage);
    let begun = Instant::now();
    let waiting = exclusive("late");
    let (first, second) = tokio::join!(
        backend.enter(&waiting, Entry::Queue),
        backend.renew(std::slice::from_ref(&held))
    );
    assert!(begun.elapsed() < SOON);
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert!(error.is_unknown(), "{error}");
        let pid = format!("process {}", std::process::id());
        assert!(error.to_string().contains(&pid), "{error}");
    }
    // Looking needs no gate.
    assert_eq!(backend.inspect(&Query::All).await.unwrap().len(), 1);
    drop(gate);
    // The enter whose owner gave up must not come after its own release.
    assert_eq!(backend.release(&waiting).await.unwrap(), Released::Gone);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(backend.renew(&[waiting]).await.unwrap(), [Standing::Gone]);
    order(backend.renew(&[held]).await.unwrap()[0]);
}

// proves: L9
#[tokio::test]
async fn a_dropped_enter_does_not_run_later() {
    let stage = Stage::new();
    let backend = stage.connect();
    let gate = take_gate(&stage);
    let late = exclusive("late");
    let enter = backend.enter(&late, Entry::Queue);
    assert!(
        tokio::time::timeout(Duration::from_millis(50), enter)
            .await
            .is_err()
    );
    drop(gate);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(backend.renew(&[late]).await.unwrap(), [Standing::Gone]);
}

// proves: W5
#[tokio::test]
async fn a_waiter_looks_again_when_the_lease_ahead_ends_and_not_sooner() {
    let stage = Stage::new();
    let (one, other) = (stage.connect(), stage.connect());
    let mut short = exclusive("a");
    short.lease = Duration::from_secs(3);
    order(one.enter(&short, Entry::Queue).await.unwrap());
    let look_again_in = |standing| match standing {
        Standing::Waits { look_again_in, .. } => look_again_in,
        standing => panic!("{standing:?}"),
    };
    let waits = look_again_in(other.enter(&exclusive("a"), Entry::Queue).await.unwrap());
    assert!(
        waits > Duration::from_secs(1) && waits <= short.lease,
        "{waits:?}"
    );
    let mut long = exclusive("b");
    long.lease = Duration::from_secs(3600);
    order(one.enter(&long, Entry::Queue).await.unwrap());
    let waits = look_again_in(other.enter(&exclusive("b"), Entry::Queue).await.unwrap());
    assert_eq!(waits, Duration::from_secs(30));
}

// proves: L3
#[tokio::test]
async fn a_keeper_that_is_dropped_leaves_nothing() {
    let stage = Stage::new();
    let (one, other) = (stage.connect(), stage.connect());
    let (held, next) = (exclusive("a"), exclusive("a"));
    let mut wakes = other.wakes();
    order(one.enter(&held, Entry::Queue).await.unwrap());
    assert_waits(other.enter(&next, Entry::Queue).await.unwrap());
    assert_eq!(stage.pipes(), 2);
    drop(one);
    let woken = tokio::time::timeout(SOON, wakes.next()).await.unwrap();
    assert_eq!(woken, Some(lockkeeper::backend::Wake::Look(next.id)));
    order(other.renew(&[next]).await.unwrap()[0]);
    assert_eq!(stage.pipes(), 1);
    drop(other);
    assert_eq!(stage.pipes(), 0);
    assert!(
        stage
            .connect()
            .inspect(&Query::All)
            .await
            .unwrap()
            .is_empty()
    );
}
