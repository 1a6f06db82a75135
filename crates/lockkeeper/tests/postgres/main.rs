//! `postgres://` on real servers, with real faults.

mod alone;
#[path = "../roles/both_modes.rs"]
mod both_modes;
mod faults;
mod foreigners;
mod lists;
mod renewals;
#[path = "../roles/mod.rs"]
mod roles;
mod server;
mod session;
mod session_upkeep;
mod stage;
mod tables;
mod tls;
