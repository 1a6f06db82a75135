//! The stores under torture: each with its fence, and with the comparison and the write as two steps.

pub(crate) mod file;
pub(crate) mod http;
pub(crate) mod mysql;
pub(crate) mod object;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;

use std::time::Duration;

use lockkeeper_fence::Pass;

use crate::history::Verdict;

/// The pass that the fence keeps, and the pass of whoever wrote the value that stands.
pub(crate) type Seen = (Option<Pass>, Option<Pass>);

/// One writer's way to one resource.
pub(crate) trait Store: Sized {
    async fn open(target: &str) -> Result<Self, String>;

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict;

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, pause: Duration) -> Verdict;

    async fn read(&mut self) -> Result<Seen, String>;
}

/// A value begins with the pass of its writer.
pub(crate) fn writer_of(value: &str) -> Option<Pass> {
    value.split(' ').next()?.parse().ok()
}

/// A pass as two columns.
pub(crate) fn columns(token: i64, claim: &str) -> Option<Pass> {
    let token = u64::try_from(token).ok().filter(|token| *token > 0)?;
    format!("{token}.{claim}").parse().ok()
}

/// Errors as text: the torture only asks whether there was one.
pub(crate) fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

/// The table that all SQL databases have: one row, behind guard columns.
pub(crate) fn tables(dialect: lockkeeper_fence::sql::Dialect) -> [String; 3] {
    let [token, claim] = lockkeeper_fence::sql::GUARD_COLUMNS;
    [
        format!(
            "CREATE TABLE resource (id INTEGER PRIMARY KEY, value VARCHAR(100) NOT NULL, {token}, {claim})"
        ),
        "INSERT INTO resource (id, value) VALUES (1, '')".to_owned(),
        dialect.side_table().to_owned(),
    ]
}

pub(crate) const LOOK: &str = "SELECT fence_token, fence_claim, value FROM resource WHERE id = 1";
pub(crate) const LOOK_BESIDE: &str = "SELECT f.token, f.claim, r.value FROM resource r \
     LEFT JOIN lockkeeper_fence f ON 1 = 1 WHERE r.id = 1";
pub(crate) const FORGET: [&str; 2] = [
    "UPDATE resource SET value = '', fence_token = 0, fence_claim = ''",
    "DELETE FROM lockkeeper_fence",
];
