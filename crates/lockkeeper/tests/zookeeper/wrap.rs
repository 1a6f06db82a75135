//! The end of the numbers. A node's sequence number is the count of the nodes ever made beside it, in 32 bits. What the
//! servers do when it is used up is seen on one whose count was set near the end, in the snapshot that it starts from.

use std::path::PathBuf;

use lockkeeper::backend::{Query, Released};
use lockkeeper_testbed::{Setup, ZooKeeper};
use zookeeper_client::{Acls, CreateMode};

use crate::stage::{Corner, exclusive, hears, lines_up, takes};

/// Where the count is in what a snapshot says of a node: after its data's length, its access list, four times of
/// eight bytes and the version.
const DATA_LENGTH: usize = 4;
const COUNT: usize = 8 + 4 * 8 + 4;
/// What ends a part of a snapshot: a sum over everything before it, and this.
const SEAL: &[u8] = &[0, 0, 0, 1, b'/'];

/// The sum that seals a snapshot.
#[derive(Clone, Copy)]
struct Adler(u32, u32);

impl Adler {
    fn add(&mut self, byte: u8) {
        self.0 = (self.0 + u32::from(byte)) % 65521;
        self.1 = (self.1 + self.0) % 65521;
    }

    fn sum(self) -> [u8; 8] {
        u64::from(self.1 << 16 | self.0).to_be_bytes()
    }
}

/// The first place whose eight bytes are the sum of all before it.
fn seal(snapshot: &[u8]) -> (usize, Adler) {
    let mut sum = Adler(1, 0);
    for at in 0..snapshot.len() - 12 {
        if snapshot[at..at + 8] == sum.sum() && snapshot[at + 8..at + 13] == *SEAL {
            return (at, sum);
        }
        sum.add(snapshot[at]);
    }
    panic!("this is no snapshot of ZooKeeper");
}

/// Sets the count of nodes ever made below this one. What follows the first seal is left out, as in snapshots of
/// older servers.
fn set_count(mut snapshot: Vec<u8>, path: &str, count: i32) -> Vec<u8> {
    let (end, _) = seal(&snapshot);
    snapshot.truncate(end);
    let mut name = u32::try_from(path.len()).unwrap().to_be_bytes().to_vec();
    name.extend(path.as_bytes());
    let node = snapshot.windows(name.len()).position(|it| it == name);
    let node = node.expect("the node is in the snapshot") + name.len();
    let length: [u8; 4] = snapshot[node..node + DATA_LENGTH].try_into().unwrap();
    let data = usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
    let at = node + DATA_LENGTH + data + COUNT;
    snapshot[at..at + 4].copy_from_slice(&count.to_be_bytes());
    let mut sum = Adler(1, 0);
    snapshot.iter().for_each(|byte| sum.add(*byte));
    snapshot.extend(sum.sum());
    snapshot.extend(SEAL);
    snapshot
}

/// What the server would start from.
fn latest_snapshot(server: &ZooKeeper) -> PathBuf {
    let directory = server.server().directory().join("data/version-2");
    let files = std::fs::read_dir(directory).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let number = |file: &PathBuf| {
        let number = file.file_name()?.to_str()?.strip_prefix("snapshot.")?;
        u64::from_str_radix(number, 16).ok()
    };
    let latest = files
        .filter(|file| number(file).is_some())
        .max_by_key(number);
    latest.expect("a snapshot")
}

/// A server on which the next node below the name `a` gets this number.
async fn server_at(next: i32) -> (ZooKeeper, Corner) {
    let server = ZooKeeper::start_with(&Setup::new().durable()).unwrap();
    let corner = Corner::on(&[server.address()]);
    let path = format!("{}/a", corner.path);
    let lasting = CreateMode::Persistent.with_acls(Acls::anyone_all());
    let stranger = corner.stranger().await;
    stranger.mkdir(&path, &lasting).await.unwrap();
    drop(stranger);
    // It begins with a snapshot of all that it finds.
    server.server().restart().unwrap();
    server.server().kill().unwrap();
    let file = latest_snapshot(&server);
    let changed = set_count(std::fs::read(&file).unwrap(), &path, next);
    std::fs::write(&file, changed).unwrap();
    server.server().restart().unwrap();
    (server, corner)
}

/// The number of the only node below the name.
async fn number(corner: &Corner) -> i64 {
    let stranger = corner.stranger().await;
    let children = corner.children(&stranger, "a").await;
    let [child] = &children[..] else {
        panic!("one node: {children:?}");
    };
    let (_, number) = child.rsplit_once("lock-").unwrap();
    number.parse().unwrap()
}

/// The servers stop counting: from the last number on, all nodes get that one. Who comes first is still told by the
/// transactions, and who was alone just now does not take the next number for a proof of being so again.
// proves: L1, L11, F1
// bug 54
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_holder_when_the_numbers_are_used_up() {
    let (_server, corner) = server_at(i32::MAX - 1).await;
    let (ours, other) = (corner.backend().await, corner.backend().await);
    let first = exclusive("a");
    let mut last = takes(&ours, &first).await;
    assert_eq!(number(&corner).await, i64::from(i32::MAX) - 1);
    assert_eq!(ours.release(&first).await.unwrap(), Released::Freed);
    for round in 0..10 {
        let (held, waits, waits_too) = (exclusive("a"), exclusive("a"), exclusive("a"));
        let order = takes(&other, &held).await;
        assert!(order > last, "the token rises");
        println!("round {round}: number {}", number(&corner).await);
        let (mut wakes, mut others) = (ours.wakes(), other.wakes());
        assert_eq!(lines_up(&ours, &waits).await, 1, "two holders");
        assert_eq!(lines_up(&other, &waits_too).await, 2, "two holders");
        let view = &ours.inspect(&Query::All).await.unwrap()[0];
        assert_eq!((view.holders.len(), view.waiters.len()), (1, 2));
        assert_eq!(other.release(&held).await.unwrap(), Released::Freed);
        let order = hears(&mut wakes, &waits).await;
        assert_eq!(ours.release(&waits).await.unwrap(), Released::Freed);
        last = hears(&mut others, &waits_too).await;
        assert!(last > order, "in order of arrival");
        assert_eq!(other.release(&waits_too).await.unwrap(), Released::Freed);
        // Alone again, so that the next number could be taken for a proof.
        let alone = exclusive("a");
        last = takes(&ours, &alone).await;
        assert_eq!(ours.release(&alone).await.unwrap(), Released::Freed);
    }
}
