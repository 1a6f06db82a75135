//! Distributed locks for Rust: every kind of lock, on every engine, with a fencing token in every guard.
//!
//! ```
//! use std::time::Duration;
//! use lockkeeper::Keeper;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lockkeeper::Error> {
//! let keeper = Keeper::connect("memory:").await?;       // or "local:" for all processes of a machine
//! let guard = keeper.lock("orders/42").lease(Duration::from_secs(10)).acquire().await?;
//! // write(order, guard.token()): the resource refuses a token that is older than one it has seen
//! guard.release().await?;
//! # Ok(()) }
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | [`Keeper`] | a program's handle on one engine |
//! | [`Lock`], [`RwLock`], [`Semaphore`], [`MultiLock`], [`Election`], [`Latch`], [`Barrier`] | what can be asked for |
//! | [`Guard`] | a hold: its [`Token`], its deadline, its loss |
//! | [`guarantees`] | what an engine promises, as data |
//! | [`backend`], [`rule`], [`claim`] | for those who write a backend |
//! | [`blocking`] | the same without async |

pub mod backend;
pub mod backends;
pub mod blocking;
pub mod claim;
#[cfg(feature = "conformance")]
pub mod conformance;
mod connect;
mod error;
pub mod guarantees;
mod guard;
mod keeper;
mod lifecycle;
mod numbering;
mod primitives;
#[cfg(doctest)]
mod readme;
pub mod rule;

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use connect::{Swept, Upkeep};
pub use error::{Error, LostReason};
pub use guarantees::Purpose;
pub use guard::{Guard, HoldState};
pub use keeper::{Builder, Closing, Keeper, Load, Unreleased, Validity};
pub use lifecycle::deadline::{Clock, Moment};
pub use lockkeeper_fence::{ClaimMark, Mode, Name, Pass, PassError, Refusal, Sequencer, Token};
pub use primitives::{
    Barrier, Election, Latch, Leader, Leadership, Lock, MultiGuard, MultiLock, Owner, RwLock,
    Semaphore,
};
