//! The tables: made by whom, of which version, with which rights.

use lockkeeper::backend::Entry;
use lockkeeper::{Error, Upkeep};
use lockkeeper_testbed::Postgres;

use crate::stage::{backend, claim, order, try_backend};

fn refused(error: &Error) -> &str {
    match error {
        Error::Refused { why, .. } => why,
        other => panic!("not refused: {other}"),
    }
}

// proves: S1
#[tokio::test]
async fn missing_tables_are_made_or_the_cure_is_named() {
    let server = Postgres::start().unwrap();
    let url = format!("{}?create=no", server.url());
    let error = try_backend(&url).await.unwrap_err();
    assert!(refused(&error).contains("lockkeeper init"), "{error}");
    // Several at once, as when a service starts.
    let url = server.url();
    let all = (0..4).map(|_| try_backend(&url));
    for connected in futures_util::future::join_all(all).await {
        connected.unwrap();
    }
    let upkeep = Upkeep::of(&url).unwrap();
    upkeep.init().await.unwrap();
    let rows = server
        .sql("SELECT version, kind FROM lockkeeper_meta")
        .unwrap();
    assert_eq!(rows, "2|lease");
}

#[tokio::test]
async fn tables_of_another_version_or_mode_are_refused() {
    let server = Postgres::start().unwrap();
    backend(&server.url()).await;
    let session = format!("{}?mode=session&prefix=lockkeeper", server.url());
    let error = try_backend(&session).await.unwrap_err();
    assert!(refused(&error).contains("mode=lease"), "{error}");
    server
        .sql("UPDATE lockkeeper_meta SET version = 3")
        .unwrap();
    let error = try_backend(&server.url()).await.unwrap_err();
    assert!(refused(&error).contains("version 3"), "{error}");
}

#[tokio::test]
async fn a_table_that_vanishes_is_no_lock() {
    let server = Postgres::start().unwrap();
    let one = backend(&server.url()).await;
    let held = claim("a");
    one.enter(&held, Entry::Queue).await.unwrap();
    server.sql("DROP TABLE lockkeeper_names CASCADE").unwrap();
    let error = one.renew(std::slice::from_ref(&held)).await.unwrap_err();
    assert!(refused(&error).contains("lockkeeper init"), "{error}");
    let error = one.enter(&claim("b"), Entry::Try).await.unwrap_err();
    assert!(refused(&error).contains("lockkeeper init"), "{error}");
}

// security S3
#[tokio::test]
async fn a_user_without_rights_is_denied_and_told_which() {
    let server = Postgres::start().unwrap();
    backend(&server.url()).await;
    server.sql("CREATE ROLE poor LOGIN").unwrap();
    let url = server.url().replace("postgres@", "poor@");
    let error = try_backend(&url).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    server
        .sql("GRANT SELECT ON lockkeeper_meta, lockkeeper_names, lockkeeper_claims, lockkeeper_locks TO poor")
        .unwrap();
    let poor = backend(&url).await;
    let error = poor.enter(&claim("a"), Entry::Try).await.unwrap_err();
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    assert!(error.to_string().contains("--print"), "{error}");
}

// proves: S1, U3
#[tokio::test]
async fn an_operator_reads_who_holds_with_plain_sql() {
    let server = Postgres::start().unwrap();
    let one = backend(&server.url()).await;
    let (held, waits) = (claim("orders/1"), claim("orders/1"));
    let number = order(one.enter(&held, Entry::Queue).await.unwrap());
    one.enter(&waits, Entry::Queue).await.unwrap();
    let rows = server
        .sql(
            "SELECT name, order_no, label, pid, granted_at IS NOT NULL, ends_at - clock_timestamp() < '3s' \
             FROM lockkeeper_locks ORDER BY order_no",
        )
        .unwrap();
    let pid = std::process::id();
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows[0], format!("orders/1|{number}|test|{pid}|t|t"));
    assert!(rows[1].ends_with(&format!("|test|{pid}|f|t")), "{rows:?}");
    one.evict(&held.name, number, "it hangs").await.unwrap();
    let broken = server
        .sql("SELECT name, order_no, why FROM lockkeeper_broken")
        .unwrap();
    assert_eq!(broken, format!("orders/1|{number}|it hangs"));
}

// proves: S1, F1
#[tokio::test]
async fn a_sweep_takes_the_dead_and_unused_names_and_no_number_comes_again() {
    let server = Postgres::start().unwrap();
    let one = backend(&server.url()).await;
    let mut dead = claim("dead");
    dead.lease = std::time::Duration::from_millis(100);
    let last = order(one.enter(&dead, Entry::Queue).await.unwrap());
    let held = claim("held");
    one.enter(&held, Entry::Queue).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    let swept = Upkeep::of(&server.url()).unwrap().gc().await.unwrap();
    assert_eq!((swept.claims, swept.names), (1, 1));
    assert_eq!(
        server.sql("SELECT name FROM lockkeeper_names").unwrap(),
        "held"
    );
    order(one.renew(&[held]).await.unwrap()[0]);
    let next = order(one.enter(&claim("dead"), Entry::Try).await.unwrap());
    assert!(next > last, "number {next} after {last}");
}

/// Each session of the server would draw its numbers from a block of its own, and they would not rise.
// proves: F1
#[tokio::test]
async fn a_sequence_that_gives_out_blocks_of_numbers_is_refused() {
    let server = Postgres::start().unwrap();
    for mode in ["lease", "session"] {
        let url = format!("{}?mode={mode}&prefix={mode}", server.url());
        backend(&url).await;
        let sequence = format!("ALTER SEQUENCE {mode}_order");
        for wrong in ["CACHE 20", "CYCLE", "INCREMENT -1"] {
            server.sql(&format!("{sequence} {wrong}")).unwrap();
            let error = try_backend(&url).await.unwrap_err();
            assert!(refused(&error).contains("CACHE 1"), "{error}");
            server
                .sql(&format!("{sequence} CACHE 1 NO CYCLE INCREMENT 1"))
                .unwrap();
        }
        backend(&url).await;
    }
}
