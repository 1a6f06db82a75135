//! The tables: missing ones, those of others, rows that are locked, and what an operator reads in them.

use std::time::Duration;

use lockkeeper::backend::{Entry, Query};
use lockkeeper::backends::mysql::{Config, gc, init, script};
use lockkeeper::{Error, Keeper};

use crate::stage::{Corner, LEASE, both, claim, insist, order, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_tables_are_made_where_that_is_allowed_and_told_where_not() {
    let corner = Corner::lease(server().address());
    let refused = Keeper::connect(&format!("{}&create=no", corner.url()))
        .await
        .unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("lockkeeper init"), "{refused}");
    let config = Config::from_url(&corner.url()).unwrap();
    init(&config).await.unwrap();
    init(&config).await.expect("and again without harm");
    let keeper = corner.keeper().await;
    let guard = keeper.lock("n").acquire().await.unwrap();
    // Gone while they are used.
    server()
        .sql(&format!("DROP TABLE mysql.{}_names", corner.prefix))
        .unwrap();
    let told = keeper.lock("m").try_acquire().await.unwrap_err();
    assert!(told.to_string().contains("lockkeeper init"), "{told}");
    drop(guard);
}

/// Of several services that start together on an empty database each may see the tables while another has only half made them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_somebody_is_just_making_are_waited_for() {
    for corner in both() {
        let services = (0..8).map(|_| corner.connect());
        for service in futures_util::future::join_all(services).await {
            service.unwrap();
        }
        // Between a table and its row.
        let forget = format!("DELETE FROM mysql.{}_meta", corner.prefix);
        server().sql(&forget).unwrap();
        let refused = Keeper::connect(&format!("{}&create=no", corner.url())).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("lockkeeper init"), "{refused}");
        corner.connect().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_another_version_or_mode_are_refused() {
    let corner = Corner::lease(server().address());
    drop(corner.backend().await);
    let session = corner.url().replace("mode=lease", "mode=session");
    let refused = Keeper::connect(&session).await.unwrap_err();
    assert!(refused.to_string().contains("mode=lease"), "{refused}");
    server()
        .sql(&format!(
            "UPDATE mysql.{}_meta SET version = 3",
            corner.prefix
        ))
        .unwrap();
    let refused = corner.connect().await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert!(refused.to_string().contains("version 3"), "{refused}");
}

/// Tables of version 1 are refused, and what the decision tells operators to do carries their numbers over.
async fn carried_over(corner: &Corner, old: &str, decision: &str) {
    let prefix = &corner.prefix;
    let run = |sql: &str| server().sql(&format!("USE mysql; {sql}")).unwrap();
    run(&format!(
        "CREATE TABLE {prefix}_names ({old}); CREATE TABLE {prefix}_claims (name VARBINARY(256) PRIMARY KEY); \
         CREATE TABLE {prefix}_meta (only_row TINYINT PRIMARY KEY, version INT, kind VARBINARY(16)); \
         INSERT INTO {prefix}_names (name, last_no) VALUES ('n', 41); INSERT INTO {prefix}_meta VALUES (1, 1, '{}')",
        corner.mode
    ));
    let refused = corner.connect().await.unwrap_err();
    assert!(refused.to_string().contains("version 1"), "{refused}");
    let told = decision.split("```").find_map(|it| it.strip_prefix("sql"));
    let told = told
        .expect("the statements")
        .replace("old_", &format!("{prefix}_old_"));
    let told = told.replace("lockkeeper_", &format!("{prefix}_"));
    let (before, after) = told.split_once("-- now: lockkeeper init --on URL").unwrap();
    run(before);
    init(&Config::from_url(&corner.url()).unwrap())
        .await
        .unwrap();
    run(after);
    let backend = corner.backend().await;
    let next = claim("n");
    let number = order(backend.enter(&next, Entry::Try).await.unwrap());
    assert_eq!(number, 42);
    backend.release(&next).await.unwrap();
}

// proves: F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_of_version_1_are_carried_over_as_is_told() {
    let old = "name VARBINARY(256) PRIMARY KEY, last_no BIGINT UNSIGNED NOT NULL";
    let decision =
        include_str!("../../../../docs/decisions/0025-mysql-numbers-and-the-lone-claim.md");
    carried_over(&Corner::lease(server().address()), old, decision).await;
}

// proves: F1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_session_mode_too_the_numbers_of_version_1_are_carried_over() {
    let old = "lock_name VARBINARY(64) NOT NULL DEFAULT 'old' PRIMARY KEY, name VARBINARY(256), last_no BIGINT UNSIGNED NOT NULL";
    let decision = include_str!(
        "../../../../docs/decisions/0046-mysql-session-numbers-are-those-of-new-rows.md"
    );
    carried_over(&Corner::session(server().address()), old, decision).await;
}

/// Somebody else's transaction keeps the rows for longer than the server lets us wait: an outcome, not a hang.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_locked_for_long_end_no_call_late() {
    let corner = Corner::lease(server().address());
    let backend = corner.backend().await;
    let held = claim("n");
    order(backend.enter(&held, Entry::Queue).await.unwrap());
    let waits = claim("n");
    backend.enter(&waits, Entry::Queue).await.unwrap();
    // Found again, in the list.
    order(backend.renew(std::slice::from_ref(&held)).await.unwrap()[0]);
    let names = format!("mysql.{}_names", corner.prefix);
    let blocker = tokio::task::spawn_blocking(move || {
        let sql = format!("BEGIN; SELECT * FROM {names} FOR UPDATE; SELECT SLEEP(7); COMMIT");
        server().sql(&sql).unwrap()
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let told = backend.enter(&claim("n"), Entry::Try).await;
    assert!(told.as_ref().is_err_and(Error::is_unknown), "{told:?}");
    // Renewing in a list touches no name's row.
    order(backend.renew(std::slice::from_ref(&held)).await.unwrap()[0]);
    blocker.await.unwrap();
    let again = claim("n");
    insist(|| backend.enter(&again, Entry::Try)).await;
    backend.release(&held).await.unwrap();
}

/// An operator sees with plain SQL who holds, since when and until when, and what was broken and why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_are_for_people_too() {
    let corner = Corner::lease(server().address());
    let keeper = corner.keeper().await;
    let guard = keeper.lock("orders/42").acquire().await.unwrap();
    let prefix = &corner.prefix;
    let sql = format!(
        "SELECT CONVERT(name USING utf8mb4), label, pid, granted_at < ends_at FROM mysql.{prefix}_names \
         WHERE state = 'alone'"
    );
    let row = server().sql(&sql).unwrap();
    assert_eq!(row, format!("orders/42\ttest\t{}\t1", std::process::id()));
    keeper
        .evict(guard.name(), guard.token(), "stuck since noon")
        .await
        .unwrap();
    let sql = format!("SELECT CONVERT(name USING utf8mb4), label, why FROM mysql.{prefix}_broken");
    assert_eq!(
        server().sql(&sql).unwrap(),
        "orders/42\ttest\tstuck since noon"
    );
}

/// Rows of the dead go when somebody passes by, and by sweeping; the number stays.
// proves: F1, S1
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dead_are_swept_and_the_number_stays() {
    let corner = Corner::lease(server().address());
    let config = Config::from_url(&corner.url()).unwrap();
    let backend = corner.backend().await;
    let mut dead = claim("n");
    dead.lease = LEASE;
    let old = order(backend.enter(&dead, Entry::Queue).await.unwrap());
    assert_eq!(gc(&config).await.unwrap(), 0, "it lives");
    tokio::time::sleep(LEASE + Duration::from_millis(100)).await;
    assert_eq!(gc(&config).await.unwrap(), 1);
    assert!(backend.inspect(&Query::All).await.unwrap().is_empty());
    let next = claim("n");
    assert!(order(backend.enter(&next, Entry::Queue).await.unwrap()) > old);
    backend.release(&next).await.unwrap();
}

// security S3
#[test]
fn the_script_names_the_rights_and_no_secret() {
    let config = Config::from_url("mysql://me:hush@127.0.0.1/db?prefix=team").unwrap();
    let script = script(&config);
    assert!(
        script.contains("CREATE TABLE IF NOT EXISTS team_claims"),
        "{script}"
    );
    assert!(script.contains("ON team_claims TO THE_USER"), "{script}");
    assert!(
        !script.contains("hush") && !script.contains('@'),
        "{script}"
    );
}
