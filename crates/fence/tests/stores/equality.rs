//! Mark-then-compare-and-set on a real table: no update is lost, and what it does not give is shown too.

use std::thread;

use lockkeeper_fence::ClaimMark;
use lockkeeper_fence::equality::{Markable, Swap, update};
use lockkeeper_fence::sql::MARK_AND_COMPARE;
use lockkeeper_fence::sqlite::now;
use rusqlite::Connection;

use crate::on::sqlite::connect;
use crate::stage::inside;

/// A row that knows its mark.
struct Row(Connection);

impl Row {
    fn open(path: &str) -> Self {
        Self(connect(path).unwrap())
    }

    fn make(path: &str) -> Self {
        let row = Self::open(path);
        let table = "CREATE TABLE resource (id INTEGER PRIMARY KEY, value INTEGER, mark TEXT);
                     INSERT INTO resource VALUES (1, 0, '')";
        row.0.execute_batch(table).unwrap();
        row
    }
}

impl Markable for Row {
    type Value = i64;
    type Error = rusqlite::Error;

    async fn mark(&self, claim: &ClaimMark) -> Result<(), Self::Error> {
        self.0
            .execute(MARK_AND_COMPARE[0], (claim.to_string(), 1))
            .map(drop)
    }

    async fn read(&self) -> Result<i64, Self::Error> {
        self.0
            .query_row("SELECT value FROM resource WHERE id = 1", [], |row| {
                row.get(0)
            })
    }

    async fn write_if_marked(&self, claim: &ClaimMark, value: i64) -> Result<Swap, Self::Error> {
        let changed = self
            .0
            .execute(MARK_AND_COMPARE[1], (value, 1, claim.to_string()))?;
        Ok(if changed == 1 {
            Swap::Written
        } else {
            Swap::MarkGone
        })
    }
}

fn claim(number: u8) -> ClaimMark {
    ClaimMark::from_bytes([number; 16])
}

/// Counts up from many threads; gives how many counted and what the row says.
fn count_up(step: impl Fn(&Row, &ClaimMark) -> Swap + Sync) -> (i64, i64) {
    let directory = tempfile::tempdir().unwrap();
    let path = inside(directory.path(), "database");
    let row = Row::make(&path);
    let written: i64 = thread::scope(|scope| {
        let (path, step) = (&path, &step);
        let threads = (1..=8).map(|number| {
            scope.spawn(move || {
                let row = Row::open(path);
                (0..40)
                    .filter(|_| step(&row, &claim(number)) == Swap::Written)
                    .count() as i64
            })
        });
        threads
            .collect::<Vec<_>>()
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    (written, now(row.read()).unwrap())
}

// proves: F7
#[test]
fn no_update_is_lost() {
    let (written, value) = count_up(|row, claim| {
        now(update(row, claim, |value| {
            thread::yield_now();
            value + 1
        }))
        .unwrap()
    });
    assert_eq!(written, value);
    assert!(written > 0, "nobody ever got through");
}

/// The same, but read before the mark: updates are lost.
// proves: F7
#[test]
fn reading_before_the_mark_loses_updates() {
    let mut lost = (0..20).map(|_| {
        count_up(|row, claim| {
            let value = now(row.read()).unwrap();
            thread::yield_now();
            now(row.mark(claim)).unwrap();
            now(row.write_if_marked(claim, value + 1)).unwrap()
        })
    });
    assert!(
        lost.any(|(written, value)| value < written),
        "this test can prove nothing"
    );
}

/// What it lacks: a holder of long ago is not told from the present one.
// proves: F7
#[test]
fn it_gives_no_order() {
    let directory = tempfile::tempdir().unwrap();
    let row = Row::make(&inside(directory.path(), "database"));
    let (old, new) = (claim(1), claim(2));
    assert_eq!(now(update(&row, &new, |_| 2)).unwrap(), Swap::Written);
    assert_eq!(
        now(update(&row, &old, |_| 1)).unwrap(),
        Swap::Written,
        "and yet it is stale"
    );
    // What it does give: whoever was marked over in between is refused.
    now(row.mark(&new)).unwrap();
    now(row.mark(&old)).unwrap();
    assert_eq!(now(row.write_if_marked(&new, 3)).unwrap(), Swap::MarkGone);
    assert_eq!(now(row.read()).unwrap(), 1);
}
