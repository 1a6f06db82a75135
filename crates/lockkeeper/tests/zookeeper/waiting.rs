//! What waiting and holding cost the server.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use lockkeeper::Mode;
use lockkeeper::backend::{Backend, Entry, Query, Released, Standing, Wake};
use lockkeeper_testbed::{Proxy, ZooKeeper};

use crate::stage::{Corner, SOON, ahead, exclusive, hears, insists, lines_up, server, takes};

/// One of the server's own counters.
fn counter(server: &ZooKeeper, name: &str) -> i64 {
    let all = server.ask("mntr").unwrap();
    let line = all
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
    let number = line.unwrap_or_else(|| panic!("no {name} in {all}"));
    number.trim().parse::<f64>().unwrap() as i64
}

// proves: W5, W6
// bug 42, bug 43
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiters_cost_nothing_and_a_release_wakes_one() {
    const WAITERS: usize = 200;
    let server = ZooKeeper::start().unwrap();
    let corner = Corner::on(&[server.address()]);
    // The longest session that the server allows: few pings of the sessions' own.
    let settings = "session=60s";
    let holder = corner.connect(settings).await;
    let held = exclusive("a");
    takes(&holder, &held).await;
    let mut line: Vec<(Arc<dyn Backend>, _)> = Vec::new();
    for place in 1..=WAITERS {
        let backend = corner.connect(settings).await;
        let claim = exclusive("a");
        assert_eq!(lines_up(&backend, &claim).await, place);
        line.push((backend, claim));
    }
    // Watches are set behind the answers' backs.
    let watches = || server.ask("wchs").unwrap();
    // Each watches the one ahead of it and its own node, the holder its own only.
    while !watches().contains(&format!("Total watches:{}", 2 * WAITERS + 1)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let before = counter(&server, "zk_packets_received");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let packets = counter(&server, "zk_packets_received") - before;
    println!("{packets} packets in 2 s from {WAITERS} waiters, their sessions' pings included");
    assert!(packets <= WAITERS as i64, "{packets} packets");

    let mut wakes: Vec<_> = line.iter().map(|(backend, _)| backend.wakes()).collect();
    let before = counter(&server, "zk_sum_node_deleted_watch_count");
    assert_eq!(holder.release(&held).await.unwrap(), Released::Freed);
    let first = tokio::time::timeout(SOON, wakes[0].next())
        .await
        .expect("a push");
    assert!(matches!(first, Some(Wake::Holds { claim, .. }) if claim == line[0].1.id));
    let others = join_all(
        wakes[1..]
            .iter_mut()
            .map(|wakes| tokio::time::timeout(Duration::from_millis(300), wakes.next())),
    );
    assert!(others.await.iter().all(Result::is_err), "a herd");
    let notified = counter(&server, "zk_sum_node_deleted_watch_count") - before;
    // That of the next in line, and the holder's own if it was not taken back by then.
    assert!((1..=2).contains(&notified), "{notified} watches fired");
}

/// Whoever waits behind a claim that has waited itself is told that it holds now, while it does. When that one leaves, the
/// next one knows without a question, which would take long here.
// proves: W5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_hold_that_lasts_nothing_has_to_be_looked_at() {
    let server = ZooKeeper::start().unwrap();
    let corner = Corner::on(&[server.address()]);
    let proxy = Proxy::to(server.address()).unwrap();
    let settings = "session=60s";
    let (one, two, three) = (
        corner.connect(settings).await,
        corner.connect(settings).await,
        corner.through(&[proxy.address()]).connect(settings).await,
    );
    let (first, held, next) = (exclusive("a"), exclusive("a"), exclusive("a"));
    let (mut helds, mut nexts) = (two.wakes(), three.wakes());
    takes(&one, &first).await;
    assert_eq!(lines_up(&two, &held).await, 1);
    assert_eq!(lines_up(&three, &next).await, 2);
    one.release(&first).await.unwrap();
    hears(&mut helds, &held).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    proxy.delay_requests(Duration::from_secs(4)).unwrap();
    let start = std::time::Instant::now();
    two.release(&held).await.unwrap();
    hears(&mut nexts, &next).await;
    let took = start.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}: it had to ask");
    proxy.heal().unwrap();
    assert_eq!(three.release(&next).await.unwrap(), Released::Freed);
}

/// A claim tells the next one that it holds by writing its node anew. If it becomes a reader meanwhile, it stays one.
// proves: L12
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_tell_the_next_one_takes_no_downgrade_back() {
    let server = ZooKeeper::start().unwrap();
    let corner = Corner::on(&[server.address()]);
    let proxy = Proxy::to(server.address()).unwrap();
    let settings = "session=60s";
    let (one, two) = (
        corner.connect(settings).await,
        corner.through(&[proxy.address()]).connect(settings).await,
    );
    let (first, held, next) = (exclusive("a"), exclusive("a"), exclusive("a"));
    let mut helds = two.wakes();
    takes(&one, &first).await;
    assert_eq!(lines_up(&two, &held).await, 1);
    assert_eq!(lines_up(&one, &next).await, 2);
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Whatever is asked within this time is asked before the first answer comes.
    proxy.delay_requests(Duration::from_millis(100)).unwrap();
    one.release(&first).await.unwrap();
    hears(&mut helds, &held).await;
    two.downgrade(&held).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let view = one.inspect(&Query::All).await.unwrap();
    assert_eq!(view[0].holders[0].mode, Mode::Shared);
    proxy.heal().unwrap();
    assert_eq!(two.release(&held).await.unwrap(), Released::Freed);
    assert_eq!(one.release(&next).await.unwrap(), Released::Freed);
}

// proves: W3
// bug 11
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_claims_cost_one_keep_alive() {
    const CLAIMS: usize = 10_000;
    let server = ZooKeeper::start().unwrap();
    let corner = Corner::on(&[server.address()]);
    let ours = corner.connect("session=60s").await;
    let claims: Vec<_> = (0..CLAIMS).map(|n| exclusive(&n.to_string())).collect();
    for some in claims.chunks(100) {
        join_all(some.iter().map(|claim| takes(&ours, claim))).await;
    }
    // They are listened to once they last, many by one request.
    let begun = std::time::Instant::now();
    let all = format!("Total watches:{CLAIMS}");
    while !server.ask("wchs").unwrap().contains(&all) {
        assert!(begun.elapsed() < SOON, "{}", server.ask("wchs").unwrap());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = counter(&server, "zk_packets_received");
    // As the watchdog does: in batches, all at once.
    let batches = claims.chunks(500).map(|batch| ours.renew(batch));
    for standings in join_all(batches).await {
        let holds = |standing: &Standing| matches!(standing, Standing::Holds { .. });
        assert!(standings.unwrap().iter().all(holds));
    }
    let packets = counter(&server, "zk_packets_received") - before;
    println!("{packets} packets renew {CLAIMS} claims");
    // One ping; perhaps one more of the session's own.
    assert!(packets <= 2, "{packets} packets");
}

// A name that was ours alone just now, and is again, costs one node made and one deleted; and as soon as
// somebody else comes, that is seen.
// proves: L1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_is_ours_again_costs_two_packets() {
    const CYCLES: i64 = 100;
    let server = ZooKeeper::start().unwrap();
    let corner = Corner::on(&[server.address()]);
    let (ours, other) = (
        corner.connect("session=60s").await,
        corner.connect("session=60s").await,
    );
    let mut fewest = i64::MAX;
    for _ in 0..3 {
        let before = counter(&server, "zk_packets_received");
        for _ in 0..CYCLES {
            let claim = exclusive("a");
            takes(&ours, &claim).await;
            assert_eq!(ours.release(&claim).await.unwrap(), Released::Freed);
        }
        fewest = fewest.min(counter(&server, "zk_packets_received") - before);
        if fewest <= CYCLES * 9 / 4 {
            break;
        }
    }
    println!("{fewest} packets for {CYCLES} cycles");
    assert!(fewest <= CYCLES * 9 / 4, "{fewest} packets");
    // Somebody else takes it in between: the next number is not ours.
    for _ in 0..20 {
        let (first, held, late) = (exclusive("a"), exclusive("a"), exclusive("a"));
        takes(&ours, &first).await;
        assert_eq!(ours.release(&first).await.unwrap(), Released::Freed);
        takes(&other, &held).await;
        assert_eq!(lines_up(&ours, &late).await, 1, "two holders");
        assert_eq!(ours.release(&late).await.unwrap(), Released::Freed);
        assert_eq!(other.release(&held).await.unwrap(), Released::Freed);
    }
}

/// Uses a name so often, and leaves it.
async fn uses(backend: &Arc<dyn Backend>, times: usize) {
    for _ in 0..times {
        let claim = exclusive("a");
        takes(backend, &claim).await;
        assert_eq!(backend.release(&claim).await.unwrap(), Released::Freed);
    }
}

// A name's own node may be removed, as the server does with empty ones, and made anew: then the numbers begin anew, and the
// next of ours says nothing. Whether that happens while we are connected or not.
// proves: L1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_was_made_anew_is_looked_at() {
    let proxy = Proxy::to(server().address()).unwrap();
    let corner = Corner::on(&[proxy.address()]);
    let direct = corner.through(&[server().address()]);
    let (ours, other) = (
        corner.connect("session=30s").await,
        direct.connect("session=30s").await,
    );
    let stranger = direct.stranger().await;
    for cut_off in [false, true, false, true] {
        uses(&ours, 3).await;
        if cut_off {
            proxy.cut().unwrap();
        }
        let parent = format!("{}/a", corner.path);
        stranger.delete(&parent, None).await.unwrap();
        // The numbers 0, 1, 2 again, so that the next is the one after our last.
        uses(&other, 2).await;
        let (held, late) = (exclusive("a"), exclusive("a"));
        takes(&other, &held).await;
        proxy.heal().unwrap();
        let told = insists(|| ours.enter(&late, Entry::Queue)).await;
        assert_eq!(ahead(told), 1, "two holders, cut off: {cut_off}");
        insists(|| ours.release(&late)).await;
        assert_eq!(other.release(&held).await.unwrap(), Released::Freed);
        stranger.delete(&parent, None).await.unwrap();
    }
}
