//! Claims that a majority has stored and no number was agreed on yet.

use lockkeeper::Name;
use lockkeeper::backend::{Backend, Entry, Query, Released};
use lockkeeper_testbed::RedisFive;

use crate::stage::{LONG, backend, claim, new_set, order};

/// What a node stores when it grants the lock but has seen a number as high as the one that was offered.
fn take_the_number_away(five: &RedisFive, name: &str) {
    let script = "local held = redis.call('GET', KEYS[1])
        return redis.call('SET', KEYS[1], held:sub(1, 16) .. string.rep('0', 16) .. held:sub(33), 'KEEPTTL')";
    let key = format!("redlock:lock:{name}");
    for node in five.nodes() {
        node.ask(&["EVAL", script, "1", &key]).unwrap();
    }
}

async fn shown(one: &dyn Backend, query: &Query) -> Vec<String> {
    let views = one.inspect(query).await.unwrap();
    let names = views.iter().filter(|view| !view.holders.is_empty());
    names.map(|view| view.name.as_str().to_owned()).collect()
}

/// A claim that is being numbered is not granted yet. It is not shown, and it does not keep others from being shown or
/// broken.
// proves: Q6, L8
#[tokio::test]
async fn a_claim_without_a_number_does_not_fail_a_view_of_all() {
    let five = RedisFive::start().unwrap();
    let one = backend(&new_set(&five, "60s")).await;
    let (unnumbered, mut other) = (claim(LONG), claim(LONG));
    other.name = Name::new("other").unwrap();
    order(one.enter(&unnumbered, Entry::Try).await.unwrap());
    let number = order(one.enter(&other, Entry::Try).await.unwrap());
    take_the_number_away(&five, "n");
    assert_eq!(shown(&*one, &Query::All).await, ["other"]);
    let none = shown(&*one, &Query::One(unnumbered.name.clone())).await;
    assert_eq!(none, Vec::<String>::new());
    let absent = one.evict(&unnumbered.name, number, "test").await.unwrap();
    assert_eq!(absent, Released::Gone);
    let broken = one.evict(&other.name, number, "test").await.unwrap();
    assert_eq!(broken, Released::Freed);
}
