//! HTTP: a tower layer that lets a request through only with a pass that is not stale, and the client's side.
//!
//! The client sends its sequencer in [`SEQUENCER`] and, if it has one, the mark of its claim in [`CLAIM`]. The
//! server compares at a [`Gate`], serves the request while it stands there, and answers a stale one with
//! **412**, one of another claim with the same token with **409**, both numbers in [`OFFERED`] and [`HIGHEST`].
//!
//! | status | meaning |
//! |---|---|
//! | 412 | the token is lower than the highest seen: stop the critical section |
//! | 409 | the token is the highest seen, but belongs to another claim: the engine has lost data |
//! | 428 | no sequencer was sent |
//! | 400 | what was sent is no sequencer, or no mark |
//! | 403 | the sequencer is for another lock, or gives no right to write |
//! | 503 | the gate cannot tell; nothing was written |
//!
//! `GET`, `HEAD`, `OPTIONS` and `TRACE` pass without a sequencer.

mod client;
mod gate;
mod layer;

pub use client::{SendSequencer, SendSequencerLayer, refusal};
#[cfg(feature = "file")]
pub use gate::FileGate;
pub use gate::{Gate, GateError, MemoryGate, OpenGate};
pub use layer::{Admitted, FenceLayer, Fenced};

/// Request header: the sequencer of the hold.
pub const SEQUENCER: &str = "lockkeeper-sequencer";
/// Request header: the mark of the claim, if the engine may repeat tokens.
pub const CLAIM: &str = "lockkeeper-claim";
/// Response header of a refusal: the token that was refused.
pub const OFFERED: &str = "lockkeeper-offered";
/// Response header of a refusal: the highest token seen.
pub const HIGHEST: &str = "lockkeeper-highest";
