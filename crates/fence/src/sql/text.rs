//! All statements as plain text, for whoever uses another client. `?` stands for the next argument; in
//! PostgreSQL write `$1`, `$2` and so on, or let [`super::numbered`] do it.

/// Two columns that put a fence into a table of your own:
/// `ALTER TABLE accounts ADD COLUMN …`, once for each.
pub const GUARD_COLUMNS: [&str; 2] = [
    "fence_token BIGINT NOT NULL DEFAULT 0",
    "fence_claim VARCHAR(32) NOT NULL DEFAULT ''",
];

/// For the `SET` part of an `UPDATE` of such a table. Arguments: token, claim.
pub const GUARD_SET: &str = "fence_token = ?, fence_claim = ?";

/// For its `WHERE` part. Arguments: token, token, claim. No row changed: refused, or no such row.
pub const GUARD_CONDITION: &str = "(fence_token < ? OR (fence_token = ? AND fence_claim = ?))";

/// Compares with the side table and raises it, in PostgreSQL and SQLite.
pub const RAISE: &str = include_str!("text/raise.sql");

/// Compares with the side table and raises it, in MySQL and MariaDB; read [`SEEN`] afterwards.
pub const RAISE_MYSQL: &str = include_str!("text/raise.mysql.sql");

/// The highest pass in the side table; in MySQL append `FOR UPDATE`. Argument: name.
pub const SEEN: &str = "SELECT token, claim FROM lockkeeper_fence WHERE name = ?";

/// For a resource that can only compare for equality: first the mark, then read, then the write that stands
/// only if the mark is still there. The column `mark` and the table are yours. Arguments: claim, key;
/// value, key, claim. What it lacks is said in [`crate::equality`].
pub const MARK_AND_COMPARE: [&str; 2] = [
    "UPDATE resource SET mark = ? WHERE id = ?",
    "UPDATE resource SET value = ? WHERE id = ? AND mark = ?",
];
