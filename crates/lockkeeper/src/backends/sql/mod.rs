//! What the SQL servers share: the decision about a list of rows, the keys of session locks, and the settings
//! of their URLs. Pure: no client, no statement.
//!
//! # The tables
//!
//! | table | a row is | columns that decide |
//! |---|---|---|
//! | `PREFIX_names` | a name that was ever used | `state`; PostgreSQL: `version`, which changes whenever anybody enters; MySQL: `last_no` |
//! | `PREFIX_claims` | a claim, waiting or holding | `order_no`, `id`, `mode`, `ends_at`, `granted_at` |
//! | `PREFIX_broken` | what an operator broke, and why | – |
//! | `PREFIX_meta` | the one row that says what these tables are | `version`, `kind` |
//!
//! **The name's row serialises**: whoever changes a list changes the name's row in the same transaction, so of two
//! changes that rest on one reading the second finds another version, and begins anew. **The rule decides**: a
//! [`List`](list::List) is made of the rows that were read; it says which rows to delete, insert and mark as
//! holding, and whom to tell. **The server's clock dates**: a row says how much of its lease is left as of the
//! server's clock when the statement ran, never as of a transaction's beginning or of a client's clock.
//!
//! `granted_at` is set by whoever makes the claim a holder, in the step that does so. It is what an operator reads,
//! and what makes the renewal of holders cheap: what holds goes on holding, whatever comes behind it.

pub(crate) mod config;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod show;
pub(crate) mod used;

/// The longest label, host or reason that is stored, in bytes.
const LONGEST_TEXT: usize = 255;

/// As much of the text as is stored.
pub(crate) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST_TEXT)]
}
