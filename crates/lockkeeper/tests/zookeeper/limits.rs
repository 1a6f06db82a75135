//! What the servers have no room for.

use lockkeeper::Error;
use lockkeeper::backend::{Entry, Released};
use lockkeeper_testbed::{Setup, ZooKeeper};
use zookeeper_client::{Acls, CreateMode, CreateOptions};

use crate::stage::{Corner, exclusive, order, standing, takes};

const LASTING: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());

// Entering fails with a clear no, what is held stays held and can be released, and then there is room again.
// proves: L8
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_quota_is_a_clear_no() {
    let server = ZooKeeper::start_with(&Setup::new().setting("enforceQuota", "true")).unwrap();
    let corner = Corner::on(&[server.address()]);
    let (ours, stranger) = (corner.backend().await, corner.stranger().await);
    let (held, more) = (exclusive("a"), exclusive("a"));
    let first = takes(&ours, &held).await;
    // The path, the name's node, one claim: no more.
    let quota = format!("/zookeeper/quota{}", corner.path);
    stranger.mkdir(&quota, &LASTING).await.unwrap();
    let nodes = [
        (
            "limits",
            "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3",
        ),
        ("stats", "count=3,bytes=0"),
    ];
    for (node, text) in nodes {
        let path = format!("{quota}/zookeeper_{node}");
        stranger
            .create(&path, text.as_bytes(), &LASTING)
            .await
            .unwrap();
    }
    let told = ours.enter(&more, Entry::Queue).await;
    assert!(
        matches!(&told, Err(Error::Refused { why, .. }) if why.contains("quota")),
        "{told:?}"
    );
    assert_eq!(order(standing(&ours, &held).await), first);
    assert_eq!(ours.release(&more).await.unwrap(), Released::Gone);
    assert_eq!(ours.release(&held).await.unwrap(), Released::Freed);
    assert!(takes(&ours, &more).await > first);
    assert_eq!(ours.release(&more).await.unwrap(), Released::Freed);
}
