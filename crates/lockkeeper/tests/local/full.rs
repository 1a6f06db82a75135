//! No space left: typed errors, what is held stays held, and no number comes twice.

use std::process::Command;

use lockkeeper::backend::{Entry, Standing};

use crate::stage::{Actor, Stage, exclusive, order};

// fault 14
#[tokio::test]
async fn a_full_disk_is_an_error_and_loses_nothing() {
    let stage = Stage::new();
    let before = {
        let backend = stage.connect();
        let claim = exclusive("before");
        let before = order(backend.enter(&claim, Entry::Try).await.unwrap());
        backend.release(&claim).await.unwrap();
        before
    };
    // A limit on file sizes does what a full disk does, and needs no privilege: 64 KiB, in the 512 byte
    // blocks of a POSIX shell.
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\""])
        .arg(program);
    let mut actor = Actor::start(command, &stage.path, "fill", "-");
    let filled = actor.expect("full");
    let error = actor.says();
    println!("full after {filled} claims: {error}");
    assert!(error.contains("the disk is full or failing"), "{error}");
    let renewed = actor.says();
    println!("{renewed}");

    // Others, who have room, see the claim held, and their numbers go on.
    let backend = stage.connect();
    assert_eq!(
        backend
            .enter(&exclusive("first"), Entry::Try)
            .await
            .unwrap(),
        Standing::Gone
    );
    let after = order(
        backend
            .enter(&exclusive("other"), Entry::Try)
            .await
            .unwrap(),
    );
    assert!(
        after > before + filled,
        "{after} after {before} and {filled}"
    );

    actor.tell("go on");
    let released = actor.says();
    println!("{released}");
    actor.kill();
    order(
        backend
            .enter(&exclusive("first"), Entry::Try)
            .await
            .unwrap(),
    );
}
