//! `mysql://` on real MariaDB servers, with real faults: lease mode and session mode.

mod alone;
#[path = "../roles/both_modes.rs"]
mod both_modes;
mod foreigners;
mod network;
mod pooler;
#[path = "../roles/mod.rs"]
mod roles;
mod security;
mod servers;
mod session;
mod stage;
mod tables;
mod time;
mod waiting;
