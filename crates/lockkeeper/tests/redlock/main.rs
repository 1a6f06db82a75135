//! The Redlock backend against five real servers with real faults.

mod clocks;
mod marker;
mod members;
mod network;
mod nodes;
mod processes;
mod refusals;
#[path = "../roles/mod.rs"]
mod roles;
mod scripts;
mod stage;
mod unnumbered;
mod votes;
