//! The Redis backend against real servers with real faults.

mod access;
mod answers;
mod cluster;
mod loads;
mod network;
mod processes;
#[path = "../roles/mod.rs"]
mod roles;
mod sentinel;
mod sequencers;
mod server;
mod stage;
mod tampered;
mod traffic;
mod twin;
