//! What the fences do with records that they did not write themselves.

use std::os::unix::fs::symlink;

use lockkeeper_fence::file::FileFence;
use lockkeeper_fence::redis::RedisFence;
use lockkeeper_fence::{Fence, FenceError, Pass, Token};
use lockkeeper_testbed::Redis;
use redis::AsyncCommands as _;

use crate::on;
use crate::stage::runtime;

const CLAIM: &str = "00000000000000000000000000000000";

/// A malformed record is an error, and the value stays as it is, whatever the script or the client reads in it.
// proves: F3
#[test]
fn redis_refuses_to_write_over_a_malformed_record() {
    let server = Redis::start().unwrap();
    let malformed: [(&str, Vec<u8>); 9] = [
        ("token without leading zeros", format!("768.{CLAIM}").into()),
        ("20 digits", format!("00000000000000000768.{CLAIM}").into()),
        ("empty", Vec::new()),
        ("no digits, sorts below them", vec![b'!'; 52]),
        ("no point", format!("0000000000000000768-{CLAIM}").into()),
        (
            "upper case",
            format!("0000000000000000768.{}", "A".repeat(32)).into(),
        ),
        ("token 0", format!("{:019}.{CLAIM}", 0).into()),
        (
            "out of range",
            format!("{}.{CLAIM}", u64::MAX / 2 + 1).into(),
        ),
        ("not UTF-8", vec![0xff; 52]),
    ];
    runtime().block_on(async {
        let url = format!("redis://{}", server.address());
        let mut connection = on::redis::connect(&url).await.unwrap();
        let fence = RedisFence::new(connection.clone(), "resource");
        let pass = Pass::from(Token::new(7, 0).unwrap());
        for (what, record) in malformed {
            let pairs = [("{resource}:fence", &record[..]), ("resource", b"before")];
            let () = connection.mset(&pairs).await.unwrap();
            let written = fence.write(&pass, b"after").await;
            let is_error = matches!(written, Err(FenceError::Unreadable { .. }));
            assert!(is_error, "{what}: {written:?}");
            let highest = fence.highest().await;
            let is_error = matches!(highest, Err(FenceError::Unreadable { .. }));
            assert!(is_error, "{what}: {highest:?}");
            let value: String = connection.get("resource").await.unwrap();
            assert_eq!(value, "before", "{what}");
        }
    });
}

/// Another user of the directory cannot make a writer write to a file elsewhere.
// proves: F3
#[test]
fn the_files_beside_a_fenced_file_are_not_followed_as_links() {
    let directory = tempfile::tempdir().unwrap();
    let beside = |name: &str| directory.path().join(name);
    let pass = Pass::from(Token::new(7, 0).unwrap());

    std::fs::write(beside("victim"), "untouched").unwrap();
    symlink(beside("victim"), beside("one.draft")).unwrap();
    let one = FileFence::new(beside("one"));
    one.replace(&pass, b"content").unwrap();
    assert_eq!(std::fs::read(beside("victim")).unwrap(), b"untouched");
    assert!(std::fs::symlink_metadata(one.path()).unwrap().is_file());
    assert_eq!(std::fs::read(one.path()).unwrap(), b"content");

    symlink(beside("absent"), beside("two.fence")).unwrap();
    let two = FileFence::new(beside("two"));
    let highest = two.highest();
    assert!(matches!(highest, Err(FenceError::Store(_))), "{highest:?}");
    let written = two.replace(&pass, b"content");
    assert!(matches!(written, Err(FenceError::Store(_))), "{written:?}");
    assert!(!beside("absent").exists() && !two.path().exists());
}
