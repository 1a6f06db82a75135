//! `etcd://` on real servers, with real faults and other people's clients.
//!
//! Other processes are this same program, started again with a role: see [`roles`].

mod cluster;
mod foreign;
mod keys;
mod leases;
mod limits;
mod network;
#[path = "../papers/mod.rs"]
mod papers;
mod quiet;
mod reused_keys;
#[path = "../roles/mod.rs"]
mod roles;
mod security;
mod stage;
mod stalls;
mod waiting;
