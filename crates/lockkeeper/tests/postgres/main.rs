//! `postgres://` on real servers, with real faults.

mod faults;
mod lists;
mod renewals;
mod server;
mod session;
mod stage;
mod tables;
mod tls;
