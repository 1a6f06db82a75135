//! Who is alone in a list stands in the name's row, and moves to the claims when somebody else comes.

use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper::backend::{Entry, Released, Standing};

use crate::stage::{Corner, LEASE, LONG, claim, insist, order, server};

/// State, last number and how many claims are in the list.
fn row(corner: &Corner) -> String {
    let prefix = &corner.prefix;
    let sql = format!(
        "SELECT state, last_no, (SELECT COUNT(*) FROM mysql.{prefix}_claims) FROM mysql.{prefix}_names"
    );
    server().sql(&sql).unwrap()
}

// proves: L1, L4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_is_alone_moves_when_somebody_comes_and_keeps_number_and_lease() {
    for renews in [false, true] {
        let corner = Corner::lease(server().address());
        let (one, two) = (corner.backend().await, corner.backend().await);
        let (held, next, third) = (claim("n"), claim("n"), claim("n"));
        assert_eq!(order(one.enter(&held, Entry::Queue).await.unwrap()), 1);
        assert_eq!(row(&corner), "alone\t1\t0");
        let tried = two.enter(&next, Entry::Try).await.unwrap();
        assert_eq!(tried, Standing::Gone);
        assert_eq!(row(&corner), "alone\t1\t0", "a try changes nothing");
        let waits = two.enter(&next, Entry::Queue).await.unwrap();
        assert!(
            matches!(waits, Standing::Waits { ahead: 1, .. }),
            "{waits:?}"
        );
        assert_eq!(row(&corner), "list\t2\t2");
        if renews {
            let told = one.renew(std::slice::from_ref(&held)).await.unwrap();
            assert_eq!(order(told[0]), 1, "found where it was moved to");
        }
        assert_eq!(one.release(&held).await.unwrap(), Released::Freed);
        let told = two.renew(std::slice::from_ref(&next)).await.unwrap();
        assert_eq!(order(told[0]), 2);
        assert_eq!(two.release(&next).await.unwrap(), Released::Freed);
        assert_eq!(order(one.enter(&third, Entry::Try).await.unwrap()), 3);
        assert_eq!(row(&corner), "alone\t3\t0", "alone again");
        assert_eq!(one.release(&third).await.unwrap(), Released::Freed);
        assert_eq!(row(&corner), "free\t3\t0");
    }
}

// proves: L5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_is_alone_and_dead_is_followed_and_told() {
    let corner = Corner::lease(server().address());
    let (one, two) = (corner.backend().await, corner.backend().await);
    let (mut dead, mut unasked) = (claim("n"), claim("m"));
    (dead.lease, unasked.lease) = (LEASE, LEASE);
    let old = order(one.enter(&dead, Entry::Queue).await.unwrap());
    order(one.enter(&unasked, Entry::Queue).await.unwrap());
    tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
    let (next, other) = (claim("n"), claim("m"));
    order(two.enter(&other, Entry::Try).await.unwrap());
    assert_eq!(one.release(&unasked).await.unwrap(), Released::Gone);
    let told = two.renew(std::slice::from_ref(&other)).await.unwrap();
    assert_eq!(order(told[0]), 2, "it is nobody else's to release");
    assert!(order(two.enter(&next, Entry::Try).await.unwrap()) > old);
    let told = one.renew(std::slice::from_ref(&dead)).await.unwrap();
    assert_eq!(told, [Standing::Gone]);
    assert_eq!(one.release(&dead).await.unwrap(), Released::Gone);
    let told = two.renew(std::slice::from_ref(&next)).await.unwrap();
    assert!(matches!(told[0], Standing::Holds { .. }), "{told:?}");
}

/// One statement renews all who are alone, and tells only how many it has reached.
// proves: L5, W3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_are_renewed_together_each_is_told_its_own() {
    let corner = Corner::lease(server().address());
    let (one, two) = (corner.backend().await, corner.backend().await);
    let mut claims = ["stays", "leaves", "is-joined", "is-followed"].map(claim);
    // By another statement of the same packet.
    claims[0].lease = LONG * 2;
    for claim in &claims {
        assert_eq!(order(one.enter(claim, Entry::Try).await.unwrap()), 1);
    }
    let told = one.renew(&claims).await.unwrap();
    assert_eq!(told.iter().map(|told| order(*told)).sum::<u64>(), 4);
    let twice = [claims[0].clone(), claims[0].clone()];
    let told = one.renew(&twice).await.unwrap();
    assert_eq!(told.iter().map(|told| order(*told)).sum::<u64>(), 2);
    let prefix = &corner.prefix;
    let end = format!(
        "UPDATE mysql.{prefix}_names SET ends_at = '2000-01-01' WHERE name IN ('leaves', 'is-followed')"
    );
    server().sql(&end).unwrap();
    let (behind, after) = (claim("is-joined"), claim("is-followed"));
    two.enter(&behind, Entry::Queue).await.unwrap();
    assert_eq!(order(two.enter(&after, Entry::Try).await.unwrap()), 2);
    let told = one.renew(&claims).await.unwrap();
    assert_eq!((order(told[0]), order(told[2])), (1, 1));
    assert_eq!((told[1], told[3]), (Standing::Gone, Standing::Gone));
    for (claim, freed) in claims.iter().zip([true, false, true, false]) {
        let released = one.release(claim).await.unwrap() == Released::Freed;
        assert_eq!(released, freed, "{}", claim.name);
    }
    assert_eq!(two.release(&after).await.unwrap(), Released::Freed);
}

/// For names that were never used and for those that were.
// proves: L1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_several_who_come_at_once_one_holds() {
    let corner = Corner::lease(server().address());
    let backends = join_all((0..4).map(|_| corner.backend())).await;
    for round in 0..60_u64 {
        let name = format!("n{}", round / 2);
        let claims: Vec<_> = backends.iter().map(|_| claim(&name)).collect();
        let all = backends.iter().zip(&claims);
        let all = all.map(|(one, claim)| insist(move || one.enter(claim, Entry::Try)));
        let told = join_all(all).await;
        let holds: Vec<usize> = (0..told.len())
            .filter(|place| told[*place] != Standing::Gone)
            .collect();
        assert_eq!(holds.len(), 1, "round {round}: {told:?}");
        let holder = holds[0];
        assert_eq!(order(told[holder]), round % 2 + 1, "the next number");
        let released = backends[holder].release(&claims[holder]).await.unwrap();
        assert_eq!(released, Released::Freed);
    }
}
