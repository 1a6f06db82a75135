//! Locks shared with Curator's `InterProcessMutex` and kazoo's `Lock`: each waits for the other, in the
//! order of arrival.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Mode;
use lockkeeper::backend::{Backend, Entry, Query, Released, Standing};
use lockkeeper_testbed::foreign::{Acquired, Client, Released as Freed, present};

use crate::stage::{
    Corner, LONG, SOON, ahead, claim, exclusive, hears, lines_up, name, order, server, standing,
    takes,
};

const SHORT: Duration = Duration::from_millis(300);
/// The session of the foreign client.
const LEASE: Duration = Duration::from_secs(10);

fn curator(corner: &Corner) -> Option<Client> {
    let prefix = format!("{}/", corner.path);
    present(Client::curator(&[server().address()], &prefix)).unwrap()
}

fn kazoo(corner: &Corner) -> Option<Client> {
    let prefix = format!("{}/", corner.path);
    present(Client::kazoo(&[server().address()], &prefix)).unwrap()
}

// proves: U4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_lockkeeper_exclude_each_other() {
    let corner = Corner::shared();
    let ours = corner.connect("style=curator").await;
    if let (Some(one), Some(two)) = (curator(&corner), curator(&corner)) {
        take_turns(&corner, &ours, [one, two]).await;
    }
}

// proves: U4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_and_lockkeeper_exclude_each_other() {
    let corner = Corner::shared();
    let ours = corner.connect("style=kazoo").await;
    if let (Some(one), Some(two)) = (kazoo(&corner), kazoo(&corner)) {
        take_turns(&corner, &ours, [one, two]).await;
    }
}

/// Both directions, in the order of arrival.
async fn take_turns(corner: &Corner, ours: &Arc<dyn Backend>, [mut one, mut two]: [Client; 2]) {
    let stranger = corner.stranger().await;
    let mut wakes = ours.wakes();

    // We hold, they do not get it; they hold, we do not get it.
    let first = exclusive("orders");
    takes(ours, &first).await;
    assert_eq!(one.acquire("orders", SHORT, LEASE).unwrap(), Acquired::Busy);
    assert_eq!(ours.release(&first).await.unwrap(), Released::Freed);
    assert_eq!(one.acquire("orders", SOON, LEASE).unwrap(), Acquired::Got);
    let hasty = exclusive("orders");
    let tried = ours.enter(&hasty, Entry::Try).await.unwrap();
    assert_eq!(tried, Standing::Gone);
    let view = &ours.inspect(&Query::One(name("orders"))).await.unwrap()[0];
    assert!(view.holders[0].party.label.ends_with("client"), "{view:?}");

    // They hold, we wait, another of theirs waits behind us.
    let second = exclusive("orders");
    assert_eq!(lines_up(ours, &second).await, 1);
    two.begin_acquire("orders", LONG, LEASE).unwrap();
    corner.comes_to(&stranger, "orders", 3).await;
    let third = exclusive("orders");
    assert_eq!(lines_up(ours, &third).await, 3);

    assert_eq!(one.release().unwrap(), Freed::Freed);
    hears(&mut wakes, &second).await;
    order(standing(ours, &second).await);
    tokio::time::sleep(SHORT).await;
    assert_eq!(corner.children(&stranger, "orders").await.len(), 3);

    assert_eq!(ours.release(&second).await.unwrap(), Released::Freed);
    assert_eq!(two.finish_acquire(LONG).unwrap(), Acquired::Got);
    ahead(standing(ours, &third).await);
    assert_eq!(two.release().unwrap(), Freed::Freed);
    hears(&mut wakes, &third).await;
    assert_eq!(ours.release(&third).await.unwrap(), Released::Freed);
    corner.comes_to(&stranger, "orders", 0).await;

    // Whatever our mode, theirs is exclusive and comes after all who were there before it.
    let readers = [claim("orders", Mode::Shared), claim("orders", Mode::Shared)];
    let permit = claim("permits", Mode::permits(1, 3).unwrap());
    takes(ours, &readers[0]).await;
    takes(ours, &readers[1]).await;
    takes(ours, &permit).await;
    assert_eq!(
        one.acquire("permits", SHORT, LEASE).unwrap(),
        Acquired::Busy
    );
    assert_eq!(ours.release(&permit).await.unwrap(), Released::Freed);
    one.begin_acquire("orders", LONG, LEASE).unwrap();
    corner.comes_to(&stranger, "orders", 3).await;
    let late = claim("orders", Mode::Shared);
    assert_eq!(lines_up(ours, &late).await, 3);
    for reader in &readers {
        ahead(standing(ours, &late).await);
        assert_eq!(ours.release(reader).await.unwrap(), Released::Freed);
    }
    assert_eq!(one.finish_acquire(LONG).unwrap(), Acquired::Got);
    ahead(standing(ours, &late).await);
    assert_eq!(one.release().unwrap(), Freed::Freed);
    hears(&mut wakes, &late).await;
    assert_eq!(ours.release(&late).await.unwrap(), Released::Freed);
    corner.comes_to(&stranger, "orders", 0).await;
}

/// Curator takes a killed process's claim for what it is: gone with its session.
// proves: L3, U4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_curator_client_is_out_with_its_session() {
    let corner = Corner::shared();
    let ours = corner.connect("session=2s").await;
    let Some(mut theirs) = curator(&corner) else {
        return;
    };
    let lease = Duration::from_secs(2);
    assert_eq!(theirs.acquire("a", SOON, lease).unwrap(), Acquired::Got);
    let mut wakes = ours.wakes();
    let next = exclusive("a");
    assert_eq!(lines_up(&ours, &next).await, 1);
    theirs.kill();
    hears(&mut wakes, &next).await;
    assert_eq!(ours.release(&next).await.unwrap(), Released::Freed);
}

/// Whatever our own style, we wait for both.
// proves: U4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_styles_are_waited_for() {
    let corner = Corner::shared();
    let (Some(mut curator), Some(mut kazoo)) = (curator(&corner), kazoo(&corner)) else {
        return;
    };
    assert_eq!(curator.acquire("a", SOON, LEASE).unwrap(), Acquired::Got);
    assert_eq!(kazoo.acquire("b", SOON, LEASE).unwrap(), Acquired::Got);
    for style in ["style=curator", "style=kazoo"] {
        let ours = corner.connect(style).await;
        for busy in ["a", "b"] {
            let tried = ours.enter(&exclusive(busy), Entry::Try).await.unwrap();
            assert_eq!(tried, Standing::Gone, "{style} {busy}");
        }
    }
}
