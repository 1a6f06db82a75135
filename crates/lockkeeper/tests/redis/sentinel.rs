//! A master that dies, and a replica that follows it.

use std::time::{Duration, Instant};

use lockkeeper::backend::Entry;
use lockkeeper::guarantees::Class;
use lockkeeper::{Guard, HoldState, Keeper};
use lockkeeper_testbed::{Proxy, Sentinels};

use crate::stage::{backend, exclusive, keeper, keys_left, soon};

const LEASE: Duration = Duration::from_secs(3);
/// A fail-over takes about two seconds, on a loaded machine longer.
const FAIL_OVER: Duration = Duration::from_secs(25);

fn url(sentinels: &Sentinels) -> String {
    let hosts = sentinels.addresses();
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    format!(
        "redis+sentinel://{}/{}",
        hosts.join(","),
        Sentinels::SERVICE
    )
}

async fn keepers(sentinels: &Sentinels) -> [Keeper; 2] {
    let url = url(sentinels);
    [keeper(&url, LEASE).await, keeper(&url, LEASE).await]
}

/// Asks again while nobody is master, which is told after a lease.
async fn obtained(keeper: &Keeper, name: &str) -> Guard {
    let limit = Instant::now() + FAIL_OVER;
    loop {
        match keeper.lock(name).acquire_within(FAIL_OVER).await {
            Ok(guard) => return guard,
            Err(error) if error.is_unknown() && Instant::now() < limit => {}
            Err(error) => panic!("{error}"),
        }
    }
}

// proves: F1, W2, C1
// bug 67, bug 72
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_is_found_and_tokens_still_rise() {
    let sentinels = Sentinels::start().unwrap();
    let [one, other] = keepers(&sentinels).await;
    assert_eq!(one.guarantees().class, Class::BestEffort);
    assert!(one.guarantees().class_reason.contains("replica"));
    let guard = one.lock("n").acquire().await.unwrap();
    let old = other.lock("other").acquire().await.unwrap().token();
    sentinels.master().server().kill().unwrap();
    let killed = Instant::now();
    // The holder is told by its own deadline at the latest that it can no longer be sure.
    let told = soon(guard.changed_from(&HoldState::Held)).await;
    assert_ne!(told, HoldState::Held);
    assert!(
        killed.elapsed() <= LEASE + Duration::from_millis(500),
        "{:?}",
        killed.elapsed()
    );
    let next = obtained(&other, "fresh").await;
    assert!(next.token() > old && next.token() > guard.token());
    println!("fail-over found {:.1?} after the kill", killed.elapsed());
}

// What replication lost is granted again; the token tells the two apart, and the first is told.
// proves: F1
// bug 67
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_the_replica_missed_is_fenced() {
    let sentinels = Sentinels::start().unwrap();
    let [one, other] = keepers(&sentinels).await;
    sentinels.replica().server().pause().unwrap();
    sentinels
        .master()
        .ask(&["CLIENT", "KILL", "TYPE", "replica"])
        .unwrap();
    let guard = one.lock("n").acquire().await.unwrap();
    sentinels.master().server().kill().unwrap();
    sentinels.replica().server().resume().unwrap();
    let next = obtained(&other, "n").await;
    assert!(next.token() > guard.token());
    soon(guard.lost()).await;
    next.check().unwrap();
}

/// The word of the fail-over is lost, and the old master does not know of it: a sentinel that is back is asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fail_over_that_was_not_heard_of_is_found_when_a_sentinel_is_back() {
    let sentinels = Sentinels::start().unwrap();
    let proxies = sentinels.addresses();
    let proxies: Vec<Proxy> = proxies.iter().map(|at| Proxy::to(*at).unwrap()).collect();
    let hosts: Vec<String> = proxies.iter().map(|at| at.address().to_string()).collect();
    let service = Sentinels::SERVICE;
    let url = format!("redis+sentinel://{}/{service}", hosts.join(","));
    let one = backend(&url).await;
    // Cut off from the sentinels, so to say: it goes on as a master.
    let deaf = ["ACL", "SETUSER", "default", "-replicaof", "-slaveof"];
    sentinels.master().ask(&deaf).unwrap();
    for proxy in &proxies {
        proxy.cut().unwrap();
    }
    let mut asked = std::net::TcpStream::connect(sentinels.addresses()[0]).unwrap();
    let fail_over = format!("SENTINEL FAILOVER {service}\r\n");
    std::io::Write::write_all(&mut asked, fail_over.as_bytes()).unwrap();
    let new = sentinels.replica();
    let limit = Instant::now() + FAIL_OVER;
    while sentinels.current_master().unwrap() != new.address() {
        assert!(Instant::now() < limit, "no fail-over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for proxy in &proxies {
        proxy.heal().unwrap();
    }
    let limit = Instant::now() + FAIL_OVER;
    while keys_left(new).is_empty() {
        assert!(Instant::now() < limit, "still at the old master");
        let _moving = one.enter(&exclusive("n"), Entry::Queue).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
