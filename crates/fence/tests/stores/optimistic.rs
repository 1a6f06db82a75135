//! Optimistic changes and once-only on the three databases: who won, who lost, and to whom.

use lockkeeper_fence::mysql::MySql;
use lockkeeper_fence::postgres::Postgres;
use lockkeeper_fence::sql::{
    Change, Dialect, GUARD_COLUMNS, Once, OnceError, Outcome, Session, SqlValue, Update, Winner,
    highest, once, raise,
};
use lockkeeper_fence::sqlite::Sqlite;
use lockkeeper_fence::{FenceError, Name, Pass, Refusal, Token};
use mysql_async::TxOpts;

use crate::on;
use crate::stage::{inside, runtime};

/// The same tables everywhere.
fn tables(dialect: Dialect) -> Vec<String> {
    let [token, claim] = GUARD_COLUMNS;
    vec![
        format!(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, stock INTEGER NOT NULL, version INTEGER NOT NULL, \
             status VARCHAR(20) NOT NULL, paid_by VARCHAR(40), {token}, {claim})"
        ),
        "INSERT INTO orders (id, stock, version, status) VALUES (17, 5, 1, 'open')".to_owned(),
        dialect.side_table().to_owned(),
        dialect.once_table().to_owned(),
    ]
}

fn pass(order: u64) -> Pass {
    Pass::from(Token::new(order, 0).unwrap())
}

fn order() -> Change {
    Change::of("orders", "id", 17)
}

async fn stock<S: Session<Error: std::fmt::Debug>>(session: &mut S) -> Option<i64> {
    let row = session
        .row("SELECT stock FROM orders WHERE id = ?", &[17.into()])
        .await;
    row.unwrap().unwrap()[0].as_int()
}

/// All that the helpers promise, on any session.
async fn promises<S: Session<Error: std::fmt::Debug>>(session: &mut S) {
    conditional(session).await;
    versions(session).await;
    transitions(session).await;
    guard_columns(session).await;
    side_table(session).await;
    at_most_once(session).await;
}

async fn conditional<S: Session<Error: std::fmt::Debug>>(session: &mut S) {
    let sell = |n: i32| {
        order()
            .set("stock = stock - ?", [n])
            .only_if("stock >= ?", [n])
    };
    assert_eq!(sell(3).run(session).await.unwrap(), Outcome::Won);
    let lost = Outcome::Lost(Winner {
        now: SqlValue::Null,
        by: None,
    });
    assert_eq!(sell(3).run(session).await.unwrap(), lost);
    assert_eq!(sell(2).run(session).await.unwrap(), Outcome::Won);
    assert_eq!(stock(session).await, Some(0));
    let nowhere = Change::of("orders", "id", 18).set("stock = stock - ?", [1]);
    assert_eq!(nowhere.run(session).await.unwrap(), Outcome::NoRow);
    // A change that changes nothing has won all the same.
    assert_eq!(
        order().set("stock = ?", [0]).run(session).await.unwrap(),
        Outcome::Won
    );
}

async fn versions<S: Session<Error: std::fmt::Debug>>(session: &mut S) {
    let write = || order().set("stock = ?", [9]);
    assert_eq!(
        write().at_version(session, "version", 1).await.unwrap(),
        Outcome::Won
    );
    let lost = Outcome::Lost(Winner {
        now: SqlValue::Int(2),
        by: None,
    });
    assert_eq!(
        write().at_version(session, "version", 1).await.unwrap(),
        lost
    );
    assert_eq!(
        write().at_version(session, "version", 2).await.unwrap(),
        Outcome::Won
    );
}

async fn transitions<S: Session<Error: std::fmt::Debug>>(session: &mut S) {
    let pay = |who: &str| order().by("paid_by", who);
    let to_paid = ("open", "paid");
    assert_eq!(
        pay("anna")
            .transition(session, "status", to_paid)
            .await
            .unwrap(),
        Outcome::Won
    );
    let winner = Winner {
        now: "paid".into(),
        by: Some("anna".into()),
    };
    let lost = pay("ben")
        .transition(session, "status", to_paid)
        .await
        .unwrap();
    assert_eq!(lost, Outcome::Lost(winner));
    // Whoever did not hear the answer asks again, and has still won.
    assert_eq!(
        pay("anna")
            .transition(session, "status", to_paid)
            .await
            .unwrap(),
        Outcome::Won
    );
}

async fn guard_columns<S: Session<Error: std::fmt::Debug>>(session: &mut S) {
    let write = |value: i32| order().set("stock = ?", [value]);
    assert_eq!(
        write(1).fenced(session, &pass(8)).await.unwrap(),
        Update::Written
    );
    assert_eq!(
        write(1).fenced(session, &pass(8)).await.unwrap(),
        Update::Written,
        "the same again"
    );
    let late = write(2).fenced(session, &pass(7)).await.unwrap_err();
    let both = Refusal::Stale {
        offered: pass(7).token(),
        highest: pass(8).token(),
    };
    assert_eq!(late.refusal(), Some(both));
    let impostor = Pass::new(
        pass(8).token(),
        lockkeeper_fence::ClaimMark::from_bytes([1; 16]),
    );
    let taken = write(2).fenced(session, &impostor).await.unwrap_err();
    assert_eq!(
        taken.refusal(),
        Some(Refusal::Taken {
            token: pass(8).token()
        })
    );
    let never = write(2).only_if("stock > ?", [100]);
    assert_eq!(
        never.fenced(session, &pass(9)).await.unwrap(),
        Update::NotMet
    );
    let nowhere = Change::of("orders", "id", 18).set("stock = ?", [1]);
    assert_eq!(
        nowhere.fenced(session, &pass(9)).await.unwrap(),
        Update::NoRow
    );
    assert_eq!(stock(session).await, Some(1));
}

async fn side_table<S: Session<Error: std::fmt::Debug>>(session: &mut S) {
    let name = Name::new("orders/\u{1f512}\0'").unwrap();
    assert_eq!(highest(session, &name).await.unwrap(), None);
    raise(session, &name, &pass(8)).await.unwrap();
    raise(session, &name, &pass(8)).await.unwrap();
    let late = raise(session, &name, &pass(7)).await.unwrap_err();
    assert_eq!(
        late.refusal().map(|refusal| refusal.highest()),
        Some(pass(8).token())
    );
    let impostor = Pass::new(
        pass(8).token(),
        lockkeeper_fence::ClaimMark::from_bytes([1; 16]),
    );
    assert!(raise(session, &name, &impostor).await.is_err());
    assert_eq!(highest(session, &name).await.unwrap(), Some(pass(8)));
    let text = "UPDATE lockkeeper_fence SET claim = ?";
    session.change(text, &["mine".into()]).await.unwrap();
    let unreadable = raise(session, &name, &pass(8)).await;
    assert!(
        matches!(unreadable, Err(FenceError::Unreadable { .. })),
        "{unreadable:?}"
    );
}

async fn at_most_once<S: Session<Error: std::fmt::Debug>>(session: &mut S) {
    let key = "bonus/order-17";
    let pay = async |session: &mut S| {
        order()
            .set("stock = stock + ?", [1])
            .run(session)
            .await
            .map(|_| "paid 1".to_owned())
    };
    let before = stock(session).await.unwrap();
    assert_eq!(
        once(session, key, pay).await.unwrap(),
        Once::First("paid 1".into())
    );
    assert_eq!(
        once(session, key, pay).await.unwrap(),
        Once::Remembered("paid 1".into())
    );
    assert_eq!(stock(session).await, Some(before + 1));
    // Without a transaction, a body that fails may have done its work.
    let failing = async |_: &mut S| Err::<String, _>("no");
    assert!(matches!(
        once(session, "other", failing).await,
        Err(OnceError::Body("no"))
    ));
    assert_eq!(once(session, "other", pay).await.unwrap(), Once::Unfinished);
    assert!(matches!(
        once(session, "", pay).await,
        Err(OnceError::Key { bytes: 0 })
    ));
}

// proves: S3, F3
#[test]
fn sqlite() {
    let directory = tempfile::tempdir().unwrap();
    let connection = on::sqlite::connect(&inside(directory.path(), "database")).unwrap();
    connection
        .execute_batch(&tables(Dialect::Sqlite).join(";"))
        .unwrap();
    runtime().block_on(promises(&mut Sqlite::on(&connection)));
}

// proves: S3, F3
#[test]
fn postgres() {
    let server = lockkeeper_testbed::Postgres::start().unwrap();
    tables(Dialect::Postgres)
        .iter()
        .for_each(|table| drop(server.sql(table).unwrap()));
    runtime().block_on(async {
        let client = on::postgres::connect(&server.url()).await.unwrap();
        promises(&mut Postgres::on(&client)).await;
        race_for_once(&server.url()).await;
    });
}

/// Thirty transactions at once, some of which fail after the body: one bonus.
async fn race_for_once(url: &str) {
    let tasks = (0..30).map(|number| {
        let url = url.to_owned();
        tokio::spawn(async move {
            let mut client = on::postgres::connect(&url).await.unwrap();
            let transaction = client.transaction().await.unwrap();
            let bonus = order().set("stock = stock + ?", [1000]);
            let body = async |session: &mut Postgres<'_, tokio_postgres::Transaction<'_>>| {
                bonus.run(session).await.map(|_| format!("by {number}"))
            };
            let outcome = once(&mut Postgres::on(&transaction), "bonus/18", body)
                .await
                .unwrap();
            // Every third one breaks down before its commit.
            if number % 3 != 0 {
                transaction.commit().await.unwrap();
                return Some(outcome);
            }
            None
        })
    });
    let mut first = Vec::new();
    let mut remembered = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        match task.await.unwrap() {
            Some(Once::First(who)) => first.push(who),
            Some(Once::Remembered(who)) => remembered.push(who),
            other => assert_eq!(other, None),
        }
    }
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(
        remembered.iter().all(|who| *who == first[0]),
        "{remembered:?}"
    );
    let client = on::postgres::connect(url).await.unwrap();
    let stock = stock(&mut Postgres::on(&client)).await.unwrap();
    assert_eq!(stock / 1000, 1, "the bonus was paid {} times", stock / 1000);
}

// proves: S3, F3
#[test]
fn mysql() {
    let server = lockkeeper_testbed::MariaDb::start().unwrap();
    let database = on::mysql::DATABASE;
    server.sql(&format!("CREATE DATABASE {database}")).unwrap();
    for table in tables(Dialect::MySql) {
        server.sql(&format!("USE {database}; {table}")).unwrap();
    }
    runtime().block_on(async {
        let mut connection = on::mysql::connect(&server.url()).await.unwrap();
        promises(&mut MySql::on(&mut connection)).await;
        // Inside a transaction that is rolled back, nothing was ever done.
        let mut transaction = connection
            .start_transaction(TxOpts::default())
            .await
            .unwrap();
        let body =
            async |_: &mut MySql<'_, mysql_async::Transaction<'_>>| Ok::<_, ()>("x".to_owned());
        let done = once(&mut MySql::on(&mut transaction), "rolled back", body)
            .await
            .unwrap();
        assert_eq!(done, Once::First("x".into()));
        transaction.rollback().await.unwrap();
        let body = async |_: &mut MySql<'_, mysql_async::Conn>| Ok::<_, ()>("y".to_owned());
        let again = once(&mut MySql::on(&mut connection), "rolled back", body)
            .await
            .unwrap();
        assert_eq!(again, Once::First("y".into()));
    });
}
