//! The lab: every failure story of the distributed lock, really happening.
//!
//! A scenario starts real servers, lets real processes lock on them, and really stops, kills, cuts off or misdates
//! them. It is played with the naive lock of the story, where the harm must be seen, and with the way out, where it
//! must not. What happened is written down as a history, which the checkers judge and the pictures show.

#![forbid(unsafe_code)]

pub mod actor;
pub mod checkers;
mod error;
pub mod history;
pub mod pages;
pub mod picture;
pub mod run;
pub mod scenario;
pub mod scenarios;
pub mod stage;
pub mod told;

pub use error::{Error, Result};
