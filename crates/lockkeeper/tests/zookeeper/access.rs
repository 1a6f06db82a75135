//! Who may do what: digest users and their nodes, TLS, and secrets that are never shown.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Released};
use lockkeeper::{Error, Keeper, LostReason};
use lockkeeper_testbed::ZooKeeper;
use zookeeper_client::{Acls, Client, CreateMode, Error as Zk};

use crate::stage::{Corner, SOON, exclusive, server, takes};

/// What the testbed's servers agree to.
const LONGEST_SESSION: Duration = Duration::from_secs(60);

fn as_user(corner: &Corner, user: &str) -> String {
    corner
        .url("session=10s")
        .replacen("//", &format!("//{user}@"), 1)
}

async fn keeper(corner: &Corner, user: &str) -> Keeper {
    Keeper::connect(&as_user(corner, user)).await.unwrap()
}

// S3: every node is its user's alone; to delete one takes a right on its parent.
// proves: L4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_can_neither_see_nor_delete_nor_enter() {
    let corner = Corner::shared();
    let guard = keeper(&corner, "me:hunter2")
        .await
        .lock("a")
        .acquire()
        .await
        .unwrap();
    let other = Client::connector().with_auth("digest", b"other:secret");
    let other = other
        .connect(&server().address().to_string())
        .await
        .unwrap();
    let parent = format!("{}/a", corner.path);
    for stranger in [corner.stranger().await, other] {
        let listed = stranger.list_children(&parent).await;
        assert_eq!(listed.unwrap_err(), Zk::NoAuth);
        let ephemeral = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let made = stranger
            .create(&format!("{parent}/lock-"), &[], &ephemeral)
            .await;
        assert_eq!(made.unwrap_err(), Zk::NoAuth);
    }
    // Whoever knows the node's whole name can still not delete it.
    let friend = Client::connector().with_auth("digest", b"me:hunter2");
    let friend = friend
        .connect(&server().address().to_string())
        .await
        .unwrap();
    let child = friend.list_children(&parent).await.unwrap().remove(0);
    let path = format!("{parent}/{child}");
    let stranger = corner.stranger().await;
    assert_eq!(stranger.delete(&path, None).await.unwrap_err(), Zk::NoAuth);
    assert_eq!(stranger.get_data(&path).await.unwrap_err(), Zk::NoAuth);
    guard.check().unwrap();
    // The same through this library is a clear no, and no retry.
    for user in ["other:secret", ""] {
        let url = match user {
            "" => corner.url(""),
            user => as_user(&corner, user),
        };
        let told = Keeper::connect(&url)
            .await
            .unwrap()
            .lock("a")
            .try_acquire()
            .await;
        assert!(matches!(told, Err(Error::Denied { .. })), "{told:?}");
    }
    // The same user gets in, and has to wait.
    let same = keeper(&corner, "me:hunter2").await;
    assert!(same.lock("a").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    same.lock("a")
        .try_acquire()
        .await
        .unwrap()
        .expect("free")
        .release()
        .await
        .unwrap();
}

// S2: a sentinel password on every path that prints.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_never_shown() {
    let corner = Corner::shared();
    let url = as_user(&corner, "me:hunter2");
    let keeper = Keeper::connect(&url).await.unwrap();
    let guard = keeper.lock("a").acquire().await.unwrap();
    let mut shown = format!(
        "{keeper:?} {guard:?} {} {:?}",
        keeper.place(),
        keeper.guarantees()
    );
    let nowhere = Corner::at(&["127.0.0.1:1"], "/a");
    let error = Keeper::connect(&as_user(&nowhere, "me:hunter2"))
        .await
        .err()
        .unwrap();
    assert!(error.is_unknown(), "{error}");
    shown += &format!("{error} {error:?}");
    let error = Keeper::connect(&(url + "&timeout=3")).await.err().unwrap();
    shown += &format!("{error} {error:?}");
    let wrong = keeper.lock("a").owner(&keeper.owner());
    let error = wrong.acquire_within(Duration::from_millis(50)).await.err();
    shown += &format!("{error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

// proves: U3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_operator_breaks_is_on_record() {
    let corner = Corner::shared();
    let ours = corner.connect("").await;
    let held = exclusive("a");
    let order = takes(&ours, &held).await;
    assert_eq!(
        ours.evict(&held.name, order, "it\nhangs").await.unwrap(),
        Released::Freed
    );
    assert_eq!(
        ours.evict(&held.name, order, "again").await.unwrap(),
        Released::Gone
    );
    let record = format!("{}/%broken", corner.path);
    let (data, _) = corner.stranger().await.get_data(&record).await.unwrap();
    let text = String::from_utf8(data).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(
        text.contains(&format!("order {order}")) && text.contains(r"it\nhangs"),
        "{text}"
    );
    ours.enter(&exclusive("a"), Entry::Try).await.unwrap();
}

/// Renewals are twenty seconds apart: it is the watch that tells.
// proves: W2, U3
// bug 47
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_broken_by_an_operator_learns_it_at_once() {
    let server = ZooKeeper::start().unwrap();
    let corner = Corner::on(&[server.address()]);
    let keeper = async || {
        let builder = Keeper::builder().label("test").lease(LONGEST_SESSION);
        builder.connect(&corner.url("session=60s")).await.unwrap()
    };
    let (one, two, operator) = (keeper().await, keeper().await, keeper().await);
    let watches = async |count: usize| {
        let begun = Instant::now();
        let expected = format!("Total watches:{count}");
        while !server.ask("wchs").unwrap().contains(&expected) {
            assert!(begun.elapsed() < SOON, "{}", server.ask("wchs").unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let first = one.lock("a").acquire_within(SOON).await.unwrap();
    let waiting = tokio::spawn(two.lock("a").acquire_within(SOON));
    // Its own of the holder; its own and that of the one ahead of the waiter.
    watches(3).await;
    let broken = Instant::now();
    operator
        .evict(first.name(), first.token(), "stuck")
        .await
        .unwrap();
    let reason = tokio::time::timeout(SOON, first.lost()).await;
    assert_eq!(reason.expect("told"), LostReason::Gone);
    let second = waiting.await.unwrap().unwrap();
    assert!(second.token() > first.token());
    // One that had to wait hears it as well.
    watches(1).await;
    operator
        .evict(second.name(), second.token(), "stuck")
        .await
        .unwrap();
    let reason = tokio::time::timeout(SOON, second.lost()).await;
    assert_eq!(reason.expect("told"), LostReason::Gone);
    assert!(broken.elapsed() < LONGEST_SESSION / 4, "told by a renewal");
    assert!(second.release().await.is_err() && first.release().await.is_err());
    watches(0).await;
}
