//! The list of nodes: who has another one is refused, and changing it takes a stop.

use std::future::Future;
use std::time::{Duration, Instant};

use lockkeeper::Error;
use lockkeeper::backend::Entry;
use lockkeeper_testbed::{Proxy, Redis, RedisFive};

use crate::stage::{SOON, backend, claim, insist, new_set, order, try_backend, url};

const SHORT: Duration = Duration::from_secs(1);

// proves: L1
#[tokio::test]
async fn a_keeper_with_another_list_is_refused() {
    let five = RedisFive::start().unwrap();
    backend(&new_set(&five, "60s")).await;
    let nodes = five.addresses();
    let other = Redis::start().unwrap();
    let mut replaced = nodes.clone();
    replaced[4] = other.address();
    for list in [&nodes[..3], &nodes[1..4], &replaced] {
        let refused = try_backend(&url(list, "fresh=yes")).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
        assert!(
            refused.to_string().contains("stop all keepers"),
            "{refused}"
        );
    }
}

// proves: L1
#[tokio::test]
async fn one_server_under_two_names_is_refused() {
    let five = RedisFive::start().unwrap();
    let [a, b] = [0, 1].map(|place| five.nodes()[place].address());
    let list = format!("redlock://{a},{b},localhost:{}?fresh=yes", a.port());
    let refused = try_backend(&list).await.unwrap_err();
    assert!(refused.to_string().contains("one server"), "{refused}");
}

// The former members are out of this keeper's reach, and the newcomers alone are a majority.
// proves: L1
#[tokio::test]
async fn a_new_list_does_not_begin_without_all_of_its_nodes() {
    let three = [0; 3].map(|_| Redis::start().unwrap());
    let proxies = [0, 1, 2].map(|place: usize| Proxy::to(three[place].address()).unwrap());
    let former = proxies.each_ref().map(Proxy::address);
    let old = backend(&url(&former, "longest-lease=1s&fresh=yes")).await;
    order(insist(async || old.enter(&claim(SHORT), Entry::Try).await).await);
    for proxy in &proxies {
        proxy.cut().unwrap();
    }
    let newcomers = [0; 4].map(|_| Redis::start().unwrap());
    let mut list = former.to_vec();
    list.extend(newcomers.iter().map(Redis::address));
    let new = backend(&url(&list, "longest-lease=1s")).await;
    let start = Instant::now();
    while start.elapsed() < 4 * SHORT {
        let told = new.enter(&claim(SHORT), Entry::Try).await;
        assert!(told.is_err(), "it grants beside the old list: {told:?}");
        tokio::time::sleep(SHORT / 10).await;
    }
    for proxy in &proxies {
        proxy.heal().unwrap();
    }
    until_refused(async || new.enter(&claim(SHORT), Entry::Try).await).await;
    order(insist(async || old.enter(&claim(SHORT), Entry::Try).await).await);
}

async fn until_refused<T: std::fmt::Debug, F: Future<Output = Result<T, Error>>>(
    ask: impl Fn() -> F,
) {
    let limit = Instant::now() + SOON;
    loop {
        let error = ask().await.unwrap_err();
        if matches!(error, Error::Refused { .. }) {
            return;
        }
        assert!(Instant::now() < limit, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// The documented way: no keeper runs, one longest lease passes, the markers are deleted.
// proves: L1, F1, Q6
#[tokio::test]
async fn a_list_is_changed_with_all_keepers_stopped() {
    let five = RedisFive::start().unwrap();
    let nodes = five.addresses();
    let old = backend(&new_set(&five, "1s")).await;
    let token = order(insist(async || old.enter(&claim(SHORT), Entry::Try).await).await);
    drop(old);
    tokio::time::sleep(SHORT).await;
    for node in five.nodes() {
        node.ask(&["DEL", "redlock:node"]).unwrap();
    }
    let newcomers = [Redis::start().unwrap(), Redis::start().unwrap()];
    let mut list = nodes[..3].to_vec();
    list.extend(newcomers.iter().map(Redis::address));
    let new = backend(&url(&list, "longest-lease=2s")).await;
    let next = order(insist(async || new.enter(&claim(SHORT), Entry::Try).await).await);
    assert!(next > token, "{next} after {token}");
    assert!(matches!(
        try_backend(&new_set(&five, "1s")).await,
        Err(Error::Refused { .. })
    ));
}

// A keeper that was forgotten when the list was changed finds its nodes counting for the new one.
// proves: L1
#[tokio::test]
async fn a_keeper_of_the_former_list_is_turned_away() {
    let five = RedisFive::start().unwrap();
    let old = backend(&new_set(&five, "1s")).await;
    for node in five.nodes() {
        node.ask(&["DEL", "redlock:node"]).unwrap();
    }
    let new = backend(&new_set(&five, "2s")).await;
    for _ in 0..2 {
        let a = claim(SHORT);
        order(insist(|| new.enter(&a, Entry::Try)).await);
        insist(|| new.release(&a)).await;
    }
    let told = old.enter(&claim(SHORT), Entry::Try).await;
    assert!(told.is_err(), "{told:?}");
}
