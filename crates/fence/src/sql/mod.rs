//! Fences and optimistic updates in SQL databases, written once for three dialects.
//!
//! There are two places for the highest token:
//!
//! - **in the row itself**: two columns, [`GUARD_COLUMNS`]. [`Change::fenced`] compares and writes in
//!   one statement, at nearly no cost;
//! - **in a side table**, one row per lock name ([`Dialect::side_table`]). [`raise`] compares, locks that
//!   row and raises it; everything that the same transaction writes afterwards stands or falls with it.
//!
//! Both work on any [`Session`]: the clients' own connections and transactions, wrapped by the features
//! `postgres`, `mysql` and `sqlite`. For another client, all statements are public as text.
//!
//! Where one statement can decide, no lock is needed at all: [`Change::run`] (a condition),
//! [`Change::at_version`] (a version column), [`Change::transition`] (a status), [`once`] (a unique key).
//! Each says who won.

mod change;
mod once;
mod session;
mod side;
mod text;

pub use change::{Change, Outcome, Update, Winner};
pub use once::{Once, OnceError, once};
pub use session::{Dialect, Session, SqlValue, numbered};
pub use side::{highest, raise};
pub use text::{
    GUARD_COLUMNS, GUARD_CONDITION, GUARD_SET, MARK_AND_COMPARE, RAISE, RAISE_MYSQL, SEEN,
};
