//! The lab: every failure story of the distributed lock, really happening.
//!
//! A scenario starts real servers, lets real processes lock on them, and really stops, kills, cuts off or misdates
//! them. It is played with the naive lock of the story, where the harm must be seen, and with the way out, where it
//! must not. What happened is written down as a history, which the checkers judge and the pictures show.

#![forbid(unsafe_code)]

pub mod checkers;
pub mod history;
pub mod picture;
pub mod scenario;
pub mod stage;
pub mod told;

/// What can go wrong in the lab itself, as opposed to in its stories.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A result of the lab.
pub type Result<T> = std::result::Result<T, Error>;
