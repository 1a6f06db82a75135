//! Lists in a state that nobody means them to be in: ended in this very millisecond, or tampered with.

use std::time::{Duration, Instant};

use lockkeeper::Mode;
use lockkeeper::backend::{Backend, Entry, Standing};
use lockkeeper_testbed::Redis;

use crate::stage::{LONG, backend, claim, exclusive, immortal, keys_left, order};

fn holds(standing: &Standing) -> bool {
    matches!(standing, Standing::Holds { .. })
}

/// A reader comes when the lease of a lone reader ends, give or take a millisecond, and a writer behind it.
async fn meet_the_end(server: &dyn Backend, number: u32) -> (Standing, Standing) {
    const LEASE: Duration = Duration::from_millis(15);
    let name = format!("n{number}");
    let dying = claim(&name, Mode::Shared, LEASE);
    server.enter(&dying, Entry::Queue).await.unwrap();
    let ends = Instant::now() + LEASE;
    let aim = ends - Duration::from_millis(2) + Duration::from_micros(50) * (number % 60);
    while Instant::now() < aim {
        tokio::task::yield_now().await;
    }
    let reader = claim(&name, Mode::Shared, LONG);
    server.enter(&reader, Entry::Queue).await.unwrap();
    let writer = claim(&name, Mode::Exclusive, LONG);
    server.enter(&writer, Entry::Queue).await.unwrap();
    let told = server.renew(&[reader, writer]).await.unwrap();
    (told[0], told[1])
}

/// In its last millisecond a key is alive, and an expiry that is now deletes it: the list of such a claim lost
/// two of its three keys, and with them count of who holds.
// proves: L1, L12
#[tokio::test]
async fn the_last_millisecond_of_a_lone_claim_makes_no_second_holder() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    for number in 0..300 {
        let (reader, writer) = meet_the_end(&*one, number).await;
        let both = holds(&reader) && holds(&writer);
        assert!(!both, "both hold, try {number}: {reader:?} and {writer:?}");
    }
    assert_eq!(immortal(&server), Vec::<String>::new());
}

/// Somebody deletes a part of one list: its claims are gone, all others are renewed as ever.
// proves: W3
#[tokio::test]
async fn a_list_with_a_part_missing_costs_nobody_else_the_lease() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let (torn, behind, fine) = (exclusive("torn"), exclusive("torn"), exclusive("fine"));
    for claim in [&torn, &behind, &fine] {
        one.enter(claim, Entry::Queue).await.unwrap();
    }
    for part in ["q", "e", "r"] {
        let keys = server.ask(&["KEYS", &format!("lk:{{*}}:{part}:torn")]);
        server.ask(&["DEL", keys.unwrap().text().trim()]).unwrap();
        let all = [torn.clone(), behind.clone(), fine.clone()];
        let told = one.renew(&all).await.unwrap();
        assert_eq!(told[..2], [Standing::Gone; 2], "{part}");
        assert!(order(told[2]) > 0);
    }
}

/// Somebody deletes the head of a list, or the server drops it for want of memory: whoever comes then holds, and those of
/// the old list are gone, also once there is a new list.
// proves: L1
// bug 73
#[tokio::test]
async fn nobody_holds_by_what_is_left_of_a_list_without_its_head() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let [held, behind, new, last] = [(); 4].map(|()| exclusive("n"));
    for claim in [&held, &behind] {
        one.enter(claim, Entry::Queue).await.unwrap();
    }
    let head = server.ask(&["KEYS", "lk:{*}:k:n"]).unwrap().text();
    server.ask(&["DEL", head.trim()]).unwrap();
    order(one.enter(&new, Entry::Queue).await.unwrap());
    let told = one.enter(&last, Entry::Queue).await.unwrap();
    assert!(matches!(told, Standing::Waits { ahead: 1, .. }), "{told:?}");
    let told = one.renew(&[held, behind, new, last]).await.unwrap();
    assert_eq!(told[..2], [Standing::Gone; 2]);
    assert!(holds(&told[2]) && !holds(&told[3]), "{told:?}");
}

/// Whoever lines up where a part is missing makes no new one, which would stay for ever; and does not hold.
#[tokio::test]
async fn nobody_lines_up_behind_a_list_with_a_part_missing() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    for part in ["q", "e", "r"] {
        for claim in [exclusive(part), exclusive(part)] {
            one.enter(&claim, Entry::Queue).await.unwrap();
        }
        let keys = server.ask(&["KEYS", &format!("lk:{{*}}:{part}:{part}")]);
        server.ask(&["DEL", keys.unwrap().text().trim()]).unwrap();
        let told = one.enter(&exclusive(part), Entry::Queue).await;
        assert!(told.is_err(), "{part}: {told:?}");
        assert_eq!(immortal(&server), Vec::<String>::new(), "{part}");
    }
}

/// The keys of a list last as long as the longest lease in it, whoever came first.
// proves: L12
#[tokio::test]
async fn whoever_joins_a_list_prolongs_it_to_the_end_of_its_own_lease() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let brief = Duration::from_secs(2);
    for lease in [brief, brief, LONG, brief] {
        let claim = claim("n", Mode::Exclusive, lease);
        one.enter(&claim, Entry::Queue).await.unwrap();
    }
    let keys = keys_left(&server);
    assert_eq!(keys.len(), 4);
    for key in keys {
        let left: u64 = server.ask(&["PTTL", &key]).unwrap().text().parse().unwrap();
        assert!(Duration::from_millis(left) + brief > LONG, "{key}: {left}");
    }
}
