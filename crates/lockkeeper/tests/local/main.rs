//! `local:` with real processes, real files and real kills.
//!
//! Other processes are this same program, started again with a role: see [`bench`] for the stage and
//! [`roles`] for what they play.

mod files;
mod full;
mod lists;
mod processes;
mod roles;
mod signs;
mod stage;
mod tokens;
