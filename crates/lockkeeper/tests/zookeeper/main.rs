//! `zookeeper://` with real servers, real processes, real faults, and other people's clients.
//!
//! Other processes are this same program, started again with a role: see [`stage`] for the stage and
//! [`roles`] for what they play.

mod access;
mod ensemble;
mod faults;
mod interop;
mod limits;
mod line;
#[path = "../papers/mod.rs"]
mod papers;
#[path = "../roles/mod.rs"]
mod roles;
mod stage;
mod stalls;
mod tls;
mod waiting;
mod wrap;
