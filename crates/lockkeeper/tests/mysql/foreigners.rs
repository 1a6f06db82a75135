//! Transactions of others that lock the same rows: in the other order, or for too long.

use lockkeeper::backend::{Entry, Released, Standing};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::stage::{Corner, claim, insist, order, server, soon, until};

/// How often a situation is made that needs two to meet, on a machine that may be busy.
const TRIES: usize = 10;
/// How long it has its rows before it goes on.
const PAUSE_S: u32 = 2;

/// One who does not know the rules: locks the first row, and after a pause, seen by others, runs the rest.
async fn foreigner(corner: &Corner, first: &str, rest: &str) -> JoinHandle<()> {
    let prefix = &corner.prefix;
    // The server ends whoever of two has written less.
    let heavy = format!(
        "CREATE TABLE IF NOT EXISTS mysql.{prefix}_heavy (n INT) ENGINE=InnoDB; BEGIN; \
         INSERT INTO mysql.{prefix}_heavy SELECT seq FROM mysql.seq_1_to_500"
    );
    let pause = format!("DO SLEEP({PAUSE_S}), 'of {prefix}'");
    let sql = format!("{heavy}; {first}; {pause}; {rest} ROLLBACK");
    let running = spawn_blocking(move || drop(server().sql(&sql).unwrap()));
    let seen = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep' AND INFO LIKE '%of {prefix}%'"
    );
    until("the rows are locked", || {
        server().sql(&seen).unwrap() != "0"
    })
    .await;
    running
}

/// Whether the last deadlock of the server was about these tables.
fn was_a_deadlock(corner: &Corner) -> bool {
    let status = server().sql("SHOW ENGINE INNODB STATUS").unwrap();
    let told = status.split("LATEST DETECTED DEADLOCK").nth(1);
    let told = told.and_then(|told| told.split("\\nTRANSACTIONS\\n").next());
    told.is_some_and(|told| told.contains(&format!("`{}_names`", corner.prefix)))
}

/// Entering locks the name, then the claims; somebody else the other way round. The server ends the keeper's transaction; it
/// is carried out again, and nobody holds beside the one who did.
// proves: L1, L4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_with_somebody_elses_transaction_is_tried_again() {
    let corner = Corner::lease(server().address());
    let one = corner.backend().await;
    let held = claim("a");
    let number = order(one.enter(&held, Entry::Queue).await.unwrap());
    let rows = |table| {
        format!(
            "SELECT name FROM mysql.{}_{table} WHERE name = 'a' FOR UPDATE",
            corner.prefix
        )
    };
    let mut met = false;
    for _ in 0..TRIES {
        let rest = format!("{};", rows("names"));
        let other = foreigner(&corner, &rows("claims"), &rest).await;
        let next = claim("a");
        let told = insist(|| one.enter(&next, Entry::Try)).await;
        assert_eq!(told, Standing::Gone, "granted twice");
        soon(other).await.unwrap();
        met = was_a_deadlock(&corner);
        if met {
            break;
        }
    }
    assert!(met, "they never met");
    let standings = insist(|| one.renew(std::slice::from_ref(&held))).await;
    assert_eq!(order(standings[0]), number);
    assert_eq!(insist(|| one.release(&held)).await, Released::Freed);
}

/// Whoever waits too long for the row is told that nothing is known, asks again, and has the lock once.
// proves: L1, L5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_stays_locked_is_told_and_granted_once() {
    let corner = Corner::lease(server().address());
    let one = corner.backend().await;
    let first = claim("a");
    order(one.enter(&first, Entry::Queue).await.unwrap());
    assert_eq!(one.release(&first).await.unwrap(), Released::Freed);
    let prefix = &corner.prefix;
    let name = format!("SELECT name FROM mysql.{prefix}_names WHERE name = 'a' FOR UPDATE");
    // Longer than lockkeeper lets a statement wait.
    let other = foreigner(&corner, &name, "DO SLEEP(6);").await;
    let (held, next) = (claim("a"), claim("a"));
    let told = soon(one.enter(&held, Entry::Queue)).await;
    let error = told.expect_err("the row is somebody else's");
    assert!(error.is_unknown(), "{error}");
    soon(other).await.unwrap();
    let number = order(insist(|| one.enter(&held, Entry::Queue)).await);
    let told = insist(|| one.enter(&next, Entry::Try)).await;
    assert_eq!(told, Standing::Gone);
    let row = format!("SELECT order_no FROM mysql.{prefix}_names WHERE state = 'alone'");
    assert_eq!(server().sql(&row).unwrap(), number.to_string());
    let others = format!("SELECT COUNT(*) FROM mysql.{prefix}_claims");
    assert_eq!(server().sql(&others).unwrap(), "0");
    assert_eq!(insist(|| one.release(&held)).await, Released::Freed);
}
