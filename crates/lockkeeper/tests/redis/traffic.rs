//! What waiting and handing over cost the server.

use std::time::{Duration, Instant};

use lockkeeper::backend::{Entry, Released, Standing, Wake, Wakes};
use lockkeeper::claim::Claim;
use lockkeeper_testbed::Redis;

use crate::stage::{backend, calls, client_commands, exclusive, keeper, order, soon};

// proves: W6
// bug 42, bug 43
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_waiting_keepers_ask_seldom_and_a_hand_over_costs_few_commands() {
    let server = Redis::start().unwrap();
    let lease = Duration::from_secs(30);
    let holder = keeper(&server.url(), lease).await;
    let guard = holder.lock("n").acquire().await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..200 {
        let keeper = keeper(&server.url(), lease).await;
        waiting.push(tokio::spawn(async move {
            let guard = keeper.lock("n").acquire().await.unwrap();
            guard.release().await.unwrap();
        }));
    }
    in_line(&holder, 200).await;

    let (before, start) = (client_commands(&server), Instant::now());
    tokio::time::sleep(Duration::from_secs(3)).await;
    let rate = (client_commands(&server) - before) as f64 / start.elapsed().as_secs_f64();
    assert!(rate < 50.0, "{rate} commands per second");

    let before = client_commands(&server);
    guard.release().await.unwrap();
    for task in waiting {
        soon(task).await.unwrap();
    }
    let each = (client_commands(&server) - before) as f64 / 201.0;
    println!("{rate:.1} commands/s while waiting, {each:.2} per hand-over");
    assert!(each <= 4.0, "{each} commands per hand-over");
}

async fn in_line(keeper: &lockkeeper::Keeper, count: usize) {
    let query = lockkeeper::backend::Query::One(crate::stage::name("n"));
    let all = async {
        while keeper.inspect(&query).await.unwrap()[0].waiters.len() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(all).await;
}

// Hand-overs take as long with two thousand in line as with two.
#[tokio::test]
async fn the_work_of_a_hand_over_does_not_grow_with_the_line() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let mut line = Vec::new();
    for _ in 0..2000 {
        let claim = exclusive("n");
        one.enter(&claim, Entry::Queue).await.unwrap();
        line.push(claim);
    }
    let micros = |command: &str| {
        let stats = server.ask(&["INFO", "commandstats"]).unwrap().text();
        let line = stats
            .lines()
            .find(|line| line.starts_with(command))
            .unwrap()
            .to_owned();
        let usec = line
            .split("usec=")
            .nth(1)
            .unwrap()
            .split(',')
            .next()
            .unwrap()
            .to_owned();
        usec.parse::<u64>().unwrap()
    };
    let mut took = Vec::new();
    for chunk in [0..100, 1850..1950] {
        if chunk.start > 0 {
            for claim in &line[100..1850] {
                one.release(claim).await.unwrap();
            }
        }
        // The quickest ten of a hundred: what else the machine does can only add to them.
        let mut quickest = u64::MAX;
        for ten in line[chunk].chunks(10) {
            let before = micros("cmdstat_evalsha");
            for claim in ten {
                one.release(claim).await.unwrap();
            }
            quickest = quickest.min(micros("cmdstat_evalsha") - before);
        }
        took.push(quickest);
    }
    println!(
        "ten hand-overs: {} us with 2000 in line, {} us with 150",
        took[0], took[1]
    );
    assert!(took[0] < 5 * took[1] + 200, "{took:?}");
}

// proves: W5
#[tokio::test]
async fn the_next_is_told_its_number_and_need_not_ask() {
    let server = Redis::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    let (first, next) = (exclusive("n"), exclusive("n"));
    let wakes = two.wakes();
    let old = order(one.enter(&first, Entry::Queue).await.unwrap());
    waits(two.enter(&next, Entry::Queue).await.unwrap());
    one.release(&first).await.unwrap();
    let told = pushed(wakes, &next).await;
    assert!(told > old);
    assert_eq!(
        order(two.renew(std::slice::from_ref(&next)).await.unwrap()[0]),
        told
    );
}

/// The dead are passed over by the release itself: nobody else has to come by first.
// proves: W5
#[tokio::test]
async fn the_next_who_lives_is_told() {
    let server = Redis::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    let (first, next) = (exclusive("n"), exclusive("n"));
    let dead = Claim {
        lease: Duration::from_millis(300),
        ..exclusive("n")
    };
    let wakes = two.wakes();
    order(one.enter(&first, Entry::Queue).await.unwrap());
    waits(one.enter(&dead, Entry::Queue).await.unwrap());
    waits(two.enter(&next, Entry::Queue).await.unwrap());
    tokio::time::sleep(dead.lease * 2).await;
    one.release(&first).await.unwrap();
    pushed(wakes, &next).await;
}

/// One whose lease is shorter than all others' lines up behind them, and dies: when its turn comes it is passed over, by
/// the release itself.
// proves: W5, L11
#[tokio::test]
async fn a_shorter_lease_than_all_others_is_seen_to_end() {
    let server = Redis::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    let [first, second, last] = [(); 3].map(|()| exclusive("n"));
    let dead = Claim {
        lease: Duration::from_millis(300),
        ..exclusive("n")
    };
    let wakes = two.wakes();
    order(one.enter(&first, Entry::Queue).await.unwrap());
    for behind in [&second, &dead] {
        waits(one.enter(behind, Entry::Queue).await.unwrap());
    }
    waits(two.enter(&last, Entry::Queue).await.unwrap());
    one.release(&first).await.unwrap();
    tokio::time::sleep(dead.lease * 2).await;
    one.release(&second).await.unwrap();
    pushed(wakes, &last).await;
}

/// Once the first lease of a line has ended, somebody has to see who died; those after it need not.
// proves: W6
#[tokio::test]
async fn a_line_is_quick_again_after_its_first_lease_has_ended() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    let short = Claim {
        lease: Duration::from_millis(200),
        ..exclusive("n")
    };
    let line: Vec<Claim> = (0..20).map(|_| exclusive("n")).collect();
    order(one.enter(&short, Entry::Queue).await.unwrap());
    for behind in &line {
        waits(one.enter(behind, Entry::Queue).await.unwrap());
    }
    one.release(&short).await.unwrap();
    tokio::time::sleep(short.lease * 2).await;
    // What only the long way asks.
    let before = calls(&server, &["zcard"]);
    for claim in &line[..19] {
        assert_eq!(one.release(claim).await.unwrap(), Released::Freed);
        waits(one.enter(&exclusive("n"), Entry::Queue).await.unwrap());
    }
    let long = calls(&server, &["zcard"]) - before;
    // Whoever comes first after 50 ms has its number lifted, which is a long way too.
    assert!((1..10).contains(&long), "{long} of 38 went the long way");
}

fn waits(standing: Standing) {
    assert!(matches!(standing, Standing::Waits { .. }), "{standing:?}");
}

/// The number that this claim is told to hold with.
async fn pushed(mut wakes: Wakes, wanted: &Claim) -> u64 {
    loop {
        match soon(wakes.next()).await {
            Some(Wake::Holds { claim, order }) if claim == wanted.id => return order,
            Some(Wake::LookAll) => {}
            other => panic!("{other:?}"),
        }
    }
}
