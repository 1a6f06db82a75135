//! One folder per engine, each behind its own feature; nothing outside this folder and `connect.rs`
//! names an engine.

#[cfg(feature = "local")]
pub mod local;
pub mod memory;
