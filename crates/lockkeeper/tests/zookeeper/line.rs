//! The line of a name: what stands in it that is not ours, and in which order.

use lockkeeper::Mode;
use lockkeeper::backend::{Entry, Query, Released, Standing};
use zookeeper_client::{Acls, CreateMode};

use crate::stage::{
    Corner, ahead, claim, exclusive, hears, lines_up, name, order, standing, takes,
};

const LASTING: zookeeper_client::CreateOptions<'static> =
    CreateMode::Persistent.with_acls(Acls::anyone_all());

// proves: L1, L11
// bug 56
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn junk_beside_the_claims_is_ignored() {
    let corner = Corner::shared();
    let (stranger, ours) = (corner.stranger().await, corner.backend().await);
    let parent = format!("{}/a", corner.path);
    stranger.mkdir(&parent, &LASTING).await.unwrap();
    for junk in [
        "0",
        "0000000000",
        "config",
        "lock-",
        "lock-7",
        "-lock-x",
        "日本",
        "%",
        "__lock__",
    ] {
        let path = format!("{parent}/{junk}");
        stranger.create(&path, b"junk", &LASTING).await.unwrap();
    }
    let (one, two) = (exclusive("a"), exclusive("a"));
    takes(&ours, &one).await;
    assert_eq!(lines_up(&ours, &two).await, 1);
    let views = ours.inspect(&Query::All).await.unwrap();
    assert_eq!(views.len(), 1, "{views:?}");
    assert_eq!((views[0].holders.len(), views[0].waiters.len()), (1, 1));
    assert_eq!(ours.release(&one).await.unwrap(), Released::Freed);
    order(standing(&ours, &two).await);
    assert_eq!(ours.release(&two).await.unwrap(), Released::Freed);
    assert_eq!(corner.children(&stranger, "a").await.len(), 9);
}

// The number in a node's name is 32 bits that wrap. A node whose number is far from ours was made before
// ours all the same, and the transaction that made it says so.
// proves: L1, L11, F2
// bug 54, bug 55
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_is_that_of_the_transactions() {
    let corner = Corner::shared();
    let (stranger, ours) = (corner.stranger().await, corner.backend().await);
    let parent = format!("{}/a", corner.path);
    stranger.mkdir(&parent, &LASTING).await.unwrap();
    let mut wakes = ours.wakes();
    for number in [i32::MAX, i32::MIN, i32::MIN + 1000, (1 << 30) + 1000] {
        let old = format!("{parent}/_c_00000000-0000-4000-8000-000000000000-lock-{number:010}");
        stranger.create(&old, &[], &LASTING).await.unwrap();
        let waiting = exclusive("a");
        assert_eq!(lines_up(&ours, &waiting).await, 1, "{number}");
        // What comes later with a number that looks older does not overtake.
        let late = format!("{parent}/ffffffffffffffffffffffffffffffff__lock__{number:010}");
        stranger.create(&late, &[], &LASTING).await.unwrap();
        stranger.delete(&old, None).await.unwrap();
        hears(&mut wakes, &waiting).await;
        assert_eq!(ours.release(&waiting).await.unwrap(), Released::Freed);
        stranger.delete(&late, None).await.unwrap();
    }
}

// A claim of the same id, made by another session that may be dying, is not taken over.
// proves: L4, L5
// bug 59
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_of_another_session_is_not_adopted() {
    let corner = Corner::shared();
    let (old, new) = (corner.backend().await, corner.backend().await);
    let mut wakes = new.wakes();
    let same = exclusive("a");
    let first = takes(&old, &same).await;
    assert_eq!(
        lines_up(&new, &same).await,
        1,
        "it adopted the other's node"
    );
    // The old session ends, as a killed process's would.
    drop(old);
    let second = hears(&mut wakes, &same).await;
    assert!(second > first);
    assert_eq!(new.release(&same).await.unwrap(), Released::Freed);
    let stranger = corner.stranger().await;
    corner.comes_to(&stranger, "a", 0).await;
}

// proves: L13, W6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_behind_each_other_are_let_in_together() {
    let corner = Corner::shared();
    let of = |take| claim("a", Mode::permits(take, 3).unwrap());
    let (holder, small, other, last) = (of(3), of(1), of(1), of(2));
    let (one, two) = (corner.backend().await, corner.backend().await);
    let mut wakes = two.wakes();
    takes(&one, &holder).await;
    assert_eq!(lines_up(&one, &small).await, 1);
    // Behind one that waits: it listens to that one alone.
    assert_eq!(lines_up(&two, &other).await, 2);
    assert_eq!(lines_up(&two, &last).await, 3);
    assert_eq!(one.release(&holder).await.unwrap(), Released::Freed);
    hears(&mut wakes, &other).await;
    ahead(standing(&two, &last).await);
    assert_eq!(two.release(&other).await.unwrap(), Released::Freed);
    hears(&mut wakes, &last).await;
    for (backend, claim) in [(&one, &small), (&two, &last)] {
        assert_eq!(backend.release(claim).await.unwrap(), Released::Freed);
    }
}

// Somebody deletes the node from outside: the claim is gone, and stays gone.
// proves: W2, L8
// bug 47
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_deleted_from_outside_is_a_lost_claim() {
    let corner = Corner::shared();
    let (stranger, keeper) = (corner.stranger().await, corner.keeper().await);
    let guard = keeper.lock("a").acquire().await.unwrap();
    let waiting = tokio::spawn(keeper.clone().lock("b").acquire());
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let child = corner.children(&stranger, "a").await.remove(0);
    let path = format!("{}/a/{child}", corner.path);
    stranger.delete(&path, None).await.unwrap();
    tokio::time::timeout(crate::stage::SOON, guard.lost())
        .await
        .expect("told");
    assert!(guard.release().await.is_err());
    assert!(corner.children(&stranger, "a").await.is_empty());
}

// proves: L9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_tries_for_a_busy_name_again_and_again_writes_nothing() {
    let corner = Corner::shared();
    let (ours, other) = (corner.backend().await, corner.backend().await);
    let held = exclusive("a");
    takes(&ours, &held).await;
    let tries = || async { other.enter(&exclusive("a"), Entry::Try).await.unwrap() };
    assert_eq!(tries().await, Standing::Gone);
    let stranger = corner.stranger().await;
    let path = format!("{}/a", corner.path);
    let before = stranger.check_stat(&path).await.unwrap().unwrap().cversion;
    for _ in 0..10 {
        assert_eq!(tries().await, Standing::Gone);
    }
    let after = stranger.check_stat(&path).await.unwrap().unwrap().cversion;
    assert_eq!(before, after, "nodes were made and deleted");
    assert_eq!(ours.release(&held).await.unwrap(), Released::Freed);
    order(tries().await);
}

// S7: a name is what its bytes are, and nothing else.
// bug 80
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_below_another_is_no_claim_on_it() {
    let corner = Corner::shared();
    let ours = corner.backend().await;
    let names = [
        "a",
        "a/b",
        "a/../b",
        "a/_c_x-lock-0000000000",
        "..",
        "a%2Fb",
        "\0",
        "😀",
    ];
    let claims: Vec<_> = names.iter().map(|text| exclusive(text)).collect();
    for claim in &claims {
        takes(&ours, claim).await;
    }
    let stranger = corner.stranger().await;
    assert_eq!(corner.children(&stranger, "a").await.len(), 1);
    let views = ours.inspect(&Query::All).await.unwrap();
    let mut seen: Vec<_> = views.into_iter().map(|view| view.name).collect();
    let mut expected: Vec<_> = names.iter().map(|text| name(text)).collect();
    seen.sort();
    expected.sort();
    assert_eq!(seen, expected);
}

// The waiter is broken, then the holder leaves: the broken one must not be taken for the next holder.
// proves: L1, U3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_was_broken_is_never_told_that_it_holds() {
    let corner = Corner::shared();
    for _ in 0..20 {
        let (one, two, three) = (
            corner.backend().await,
            corner.backend().await,
            corner.backend().await,
        );
        let (held, broken, next) = (exclusive("a"), exclusive("a"), exclusive("a"));
        let (mut wakes, mut nexts) = (two.wakes(), three.wakes());
        takes(&one, &held).await;
        lines_up(&two, &broken).await;
        lines_up(&three, &next).await;
        let view = &one.inspect(&Query::One(name("a"))).await.unwrap()[0];
        let order = view.waiters[0].token.order();
        // Watches are set behind the answers' backs.
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        one.evict(&broken.name, order, "a test").await.unwrap();
        one.release(&held).await.unwrap();
        hears(&mut nexts, &next).await;
        let woken = tokio::time::timeout(crate::stage::SOON, wakes.next()).await;
        let woken = woken.expect("told that it is gone").unwrap();
        assert_eq!(woken, lockkeeper::backend::Wake::Look(broken.id));
        assert_eq!(standing(&two, &broken).await, Standing::Gone);
        three.release(&next).await.unwrap();
    }
}
