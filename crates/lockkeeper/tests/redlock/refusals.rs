//! What nodes refuse: a majority that gives one reason gives the outcome, and every node is named.

use lockkeeper::Error;
use lockkeeper::backend::Entry;
use lockkeeper_testbed::RedisFive;

use crate::stage::{LONG, backend, claim, insist, new_set, order, try_backend};

// proves: E4
#[tokio::test]
async fn a_wrong_password_is_denied() {
    let five = RedisFive::start().unwrap();
    let url = new_set(&five, "60s").replace("redlock://", "redlock://nobody:wrong@");
    let denied = try_backend(&url).await.unwrap_err();
    assert!(matches!(denied, Error::Denied { .. }), "{denied:?}");
    assert!(!denied.to_string().contains("wrong@"), "{denied}");
}

// proves: E4
#[tokio::test]
async fn a_user_who_may_not_is_denied_and_a_minority_does_not_matter() {
    let five = RedisFive::start().unwrap();
    for node in five.nodes() {
        node.ask(&["ACL", "SETUSER", "locks", "on", ">p", "~*", "&*", "+@all"])
            .unwrap();
    }
    let url = new_set(&five, "60s").replace("redlock://", "redlock://locks:p@");
    let backend = backend(&url).await;
    for (place, node) in five.nodes()[..3].iter().enumerate() {
        let a = claim(LONG);
        if place > 0 {
            order(insist(|| backend.enter(&a, Entry::Try)).await);
            insist(|| backend.release(&a)).await;
        }
        node.ask(&["ACL", "SETUSER", "locks", "-evalsha"]).unwrap();
    }
    let denied = backend.enter(&claim(LONG), Entry::Try).await.unwrap_err();
    assert!(matches!(denied, Error::Denied { .. }), "{denied:?}");
    for node in &five.nodes()[..3] {
        let text = denied.to_string();
        assert!(text.contains(&node.address().to_string()), "{text}");
    }
}

// proves: E4
#[tokio::test]
async fn nodes_without_memory_refuse() {
    let five = RedisFive::start().unwrap();
    let backend = backend(&new_set(&five, "60s")).await;
    for node in &five.nodes()[..3] {
        node.ask(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    }
    let refused = backend.enter(&claim(LONG), Entry::Try).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused:?}");
    assert!(refused.to_string().contains("OOM"), "{refused}");
    for node in five.nodes() {
        node.ask(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    }
    order(insist(async || backend.enter(&claim(LONG), Entry::Try).await).await);
}

// A question that waited for a greeting could come after its own give-back.
// proves: L5
// bug 72
#[tokio::test]
async fn a_question_is_not_sent_again_behind_the_callers_back() {
    let five = RedisFive::start().unwrap();
    let backend = backend(&new_set(&five, "60s")).await;
    for node in five.nodes() {
        node.ask(&["SCRIPT", "FLUSH"]).unwrap();
    }
    let a = claim(LONG);
    let error = backend.enter(&a, Entry::Try).await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    order(insist(|| backend.enter(&a, Entry::Try)).await);
    for node in five.nodes() {
        node.ask(&["SCRIPT", "FLUSH"]).unwrap();
    }
    // What frees may come late, so it is.
    insist(|| backend.release(&a)).await;
}
