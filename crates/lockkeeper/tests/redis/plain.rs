//! Claims that come by two plain commands: `SET` under a number that is guessed, and `INCR`.

use std::sync::Arc;
use std::time::Duration;

use lockkeeper::Mode;
use lockkeeper::backend::{Backend, Entry, Query, Released, Standing, Wake};
use lockkeeper::claim::Claim;
use lockkeeper_testbed::{Proxy, Redis, ReplyLoss};

use crate::stage::{
    LONG, at, backend, calls, claim, exclusive, insist, keys_left, name, order, soon,
};

/// Takes the name and gives it back; the number.
async fn cycle(one: &dyn Backend) -> u64 {
    let claim = exclusive("n");
    let number = order(one.enter(&claim, Entry::Queue).await.unwrap());
    assert_eq!(one.release(&claim).await.unwrap(), Released::Freed);
    number
}

/// The number that others see.
async fn shown(one: &dyn Backend) -> u64 {
    let views = one.inspect(&Query::One(name("n"))).await.unwrap();
    views[0].holders[0].token.order()
}

/// What a claim that will be alone costs: one script, for its release, and none to come in.
// proves: L2, F1
#[tokio::test]
async fn a_free_name_is_taken_without_a_script() {
    let server = Redis::start().unwrap();
    let one = backend(&server.url()).await;
    cycle(&*one).await;
    let before = calls(&server, &["evalsha", "eval"]);
    let mut last = 0;
    for _ in 0..100 {
        let next = cycle(&*one).await;
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    let scripts = calls(&server, &["evalsha", "eval"]) - before;
    assert!(
        (100..150).contains(&scripts),
        "{scripts} scripts in 100 cycles"
    );
    assert_eq!(keys_left(&server), Vec::<String>::new());
}

/// Each keeper's guess is spoilt by the other: nobody holds under a number that another had, and what is told is what is
/// shown. Modes do not matter.
// proves: L1, F1
#[tokio::test]
async fn a_wrong_guess_is_nobodys_number() {
    let server = Redis::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    let mut last = 0;
    for round in 0..200 {
        let turn = if round % 2 == 0 { &one } else { &two };
        let mode = if round % 3 == 0 {
            Mode::Shared
        } else {
            Mode::Exclusive
        };
        let claim = claim("n", mode, LONG);
        let number = order(turn.enter(&claim, Entry::Queue).await.unwrap());
        assert!(number > last, "{number} after {last}");
        assert_eq!(shown(&**turn).await, number);
        // The same claim again is the same grant.
        assert_eq!(order(turn.enter(&claim, Entry::Try).await.unwrap()), number);
        last = number;
        assert_eq!(turn.release(&claim).await.unwrap(), Released::Freed);
    }
    assert_eq!(keys_left(&server), Vec::<String>::new());
}

/// One through a proxy and one past it, both with the server's counter fresh in mind.
async fn two_keepers(server: &Redis) -> (Proxy, Arc<dyn Backend>, Arc<dyn Backend>) {
    let proxy = Proxy::to(server.address()).unwrap();
    let through = backend(&at(proxy.address())).await;
    let past = backend(&server.url()).await;
    (proxy, through, past)
}

/// The claim stands there under a number that the other one had, and nobody heard the answer: asked again, it must not be
/// told that this is its number.
// proves: L5, F1
// bug 58
#[tokio::test]
async fn a_lost_answer_to_a_wrong_guess_is_not_believed() {
    let server = Redis::start().unwrap();
    let (proxy, one, two) = two_keepers(&server).await;
    for _ in 0..5 {
        cycle(&*two).await;
        // From here on it takes less than the 50 ms after which the counter is lifted anew.
        cycle(&*one).await;
        let theirs = cycle(&*two).await;
        proxy.lose(ReplyLoss::next(1).reset()).unwrap();
        let claim = exclusive("n");
        let unknown = one.enter(&claim, Entry::Queue).await.unwrap_err();
        assert!(unknown.is_unknown(), "{unknown}");
        proxy.heal().unwrap();
        let number = order(insist(|| one.enter(&claim, Entry::Queue)).await);
        assert!(number > theirs, "{number}, and another had {theirs}");
        assert_eq!(shown(&*two).await, number);
        assert_eq!(one.release(&claim).await.unwrap(), Released::Freed);
    }
    assert_eq!(keys_left(&server), Vec::<String>::new());
}

/// A question whose connection was given up can reach the server later than the next one, and puts the claim there under the
/// old guess. The next one must not be told that this is its number.
// proves: L5, F1
// bug 58
#[tokio::test]
async fn a_question_that_comes_late_is_not_believed() {
    let server = Redis::start().unwrap();
    let (proxy, one, two) = two_keepers(&server).await;
    cycle(&*two).await;
    cycle(&*one).await;
    let theirs = cycle(&*two).await;
    proxy.lose(ReplyLoss::next(1).reset()).unwrap();
    let claim = exclusive("n");
    one.enter(&claim, Entry::Queue).await.unwrap_err();
    proxy.heal().unwrap();
    assert!(shown(&*two).await <= theirs, "nobody may believe in it");
    let keep = "redis.call('COPY', redis.call('KEYS', 'lk:{*}:k:n')[1], 'sent')";
    server.ask(&["EVAL", keep, "0"]).unwrap();
    // What follows on the new connection has long gaps.
    insist(|| one.renew(&[])).await;
    proxy.delay_replies(Duration::from_millis(50)).unwrap();
    let key = keys_left(&server).remove(0);
    let late = "return redis.call('SET', KEYS[1], redis.call('GET', 'sent'), 'NX', 'PX', 60000)";
    let arrive = async {
        let arrives = || server.ask(&["EVAL", late, "1", &key]).unwrap().text() == "OK";
        while !arrives() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let enter = insist(|| one.enter(&claim, Entry::Queue));
    let ((), number) = soon(async { tokio::join!(arrive, enter) }).await;
    let number = order(number);
    assert!(number > theirs, "{number}, and another had {theirs}");
    assert_eq!(shown(&*two).await, number);
    assert_eq!(one.release(&claim).await.unwrap(), Released::Freed);
    assert_eq!(keys_left(&server), Vec::<String>::new());
}

/// The same for a call that was dropped before its answer came, and for one that somebody lines up behind meanwhile.
// proves: L5, L9
#[tokio::test]
async fn a_dropped_question_is_not_believed_and_whoever_lined_up_behind_it_is_let_in() {
    let server = Redis::start().unwrap();
    let (proxy, one, two) = two_keepers(&server).await;
    cycle(&*one).await;
    let theirs = cycle(&*two).await;
    proxy.delay_replies(Duration::from_millis(200)).unwrap();
    let dropped = exclusive("n");
    let cut = one.enter(&dropped, Entry::Queue);
    let cut = tokio::time::timeout(Duration::from_millis(20), cut).await;
    assert!(cut.is_err(), "no answer comes so soon");
    let behind = exclusive("n");
    let mut wakes = two.wakes();
    let waits = two.enter(&behind, Entry::Queue).await.unwrap();
    assert!(
        matches!(waits, Standing::Waits { ahead: 1, .. }),
        "{waits:?}"
    );
    proxy.heal().unwrap();
    // It goes out, so that the other one is let in, and lines up behind that one.
    let again = insist(|| one.enter(&dropped, Entry::Queue)).await;
    assert!(
        matches!(again, Standing::Waits { ahead: 1, .. }),
        "{again:?}"
    );
    let told = soon(async {
        loop {
            match wakes.next().await {
                Some(Wake::Holds { claim, order }) if claim == behind.id => return order,
                Some(_) => {}
                None => panic!("the backend is gone"),
            }
        }
    });
    assert!(told.await > theirs);
    for claim in [&behind, &dropped] {
        assert_eq!(two.release(claim).await.unwrap(), Released::Freed);
    }
    assert_eq!(keys_left(&server), Vec::<String>::new());
}

/// Between `SET` and `INCR` the number in a claim is ahead of the counter: whoever lines up then gets a higher one, so that
/// the order of the numbers is that of the line.
// proves: F1, L11
#[tokio::test]
async fn whoever_lines_up_behind_a_claim_gets_a_higher_number() {
    let server = Redis::start().unwrap();
    let (one, two) = (backend(&server.url()).await, backend(&server.url()).await);
    let (first, behind) = (exclusive("n"), exclusive("n"));
    let number = order(one.enter(&first, Entry::Queue).await.unwrap());
    let ahead = number + 3_600_000_000;
    let renumber = format!(
        "local key = redis.call('KEYS', 'lk:{{*}}:k:n')[1]
         local claim = string.gsub(redis.call('GET', key), '{number}', '{ahead}')
         redis.call('SET', key, claim, 'KEEPTTL')"
    );
    server.ask(&["EVAL", &renumber, "0"]).unwrap();
    assert_eq!(shown(&*two).await, ahead);
    let waits = two.enter(&behind, Entry::Queue).await.unwrap();
    assert!(
        matches!(waits, Standing::Waits { ahead: 1, .. }),
        "{waits:?}"
    );
    assert_eq!(shown(&*two).await, ahead, "the first still holds");
    assert_eq!(one.release(&first).await.unwrap(), Released::Freed);
    let both: [Claim; 1] = [behind];
    assert!(order(two.renew(&both).await.unwrap()[0]) > ahead);
}
