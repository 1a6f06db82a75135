//! The resource's side of a distributed lock.
//!
//! A lock alone cannot stop a holder that was paused, cut off or simply slow: only the resource can,
//! by refusing what comes with an older [`Token`] than it has already seen. This crate holds the
//! nouns that lock and resource share, and fences for the usual stores; it knows no lock engine at all.
//!
//! ```
//! use lockkeeper_fence::{Mode, Name, Sequencer, Token};
//!
//! let sequencer = Sequencer::new(Name::new("orders/42")?, Mode::Exclusive, Token::new(33, 0)?);
//! let text = sequencer.to_string();
//! assert_eq!(text, "lk1:x:8448:orders/42");
//! assert_eq!(text.parse::<Sequencer>()?, sequencer);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The law of every fence
//!
//! Compare and write happen in **one atomic step**. A lower token is refused with an error that shows both
//! numbers ([`Refusal`]); an equal one passes for the same claim only. [`Pass::after`] is the law as a pure
//! function, [`Fence`] the trait for stores that are not here.
//!
//! | store | feature | module |
//! |---|---|---|
//! | a value in this process | – | [`MemoryFence`] |
//! | SQL: plain statements, guard columns, side table, optimistic updates, `once` | – | [`sql`] |
//! | PostgreSQL, MySQL or MariaDB, SQLite: the usual clients | `postgres`, `mysql`, `sqlite` | `postgres`, `mysql`, `sqlite` |
//! | Redis | `redis` | `redis` |
//! | a file | `file` | `file` |
//! | an object with conditional put | `object` | `object` |
//! | an HTTP service and its clients | `http` | `http` |
//! | many copies | `epoch` | `epoch` |
//! | a resource that can only compare for equality | – | [`equality`] |

#[cfg(feature = "epoch")]
pub mod epoch;
pub mod equality;
mod fence;
#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "http")]
pub mod http;
mod mode;
#[cfg(feature = "mysql")]
pub mod mysql;
mod name;
#[cfg(feature = "object")]
pub mod object;
mod pass;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
mod sequencer;
pub mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod token;

pub use fence::{Fence, FenceError, MemoryFence};
pub use mode::{Mode, ModeError};
pub use name::{Name, NameError};
pub use pass::{ClaimMark, Pass, PassError, Refusal};
pub use sequencer::{Sequencer, SequencerError};
pub use token::{Token, TokenError};
