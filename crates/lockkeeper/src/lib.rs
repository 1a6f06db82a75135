//! Distributed locks for Rust: every kind of lock, on every engine.
pub mod backend;
pub mod backends;
pub mod claim;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod guarantees;
pub mod lifecycle;
pub mod rule;

pub use error::{Error, LostReason};
pub use lockkeeper_fence::{Mode, Name, Sequencer, Token};
