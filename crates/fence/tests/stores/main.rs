//! The fences on real stores: under torture, and one by one.

mod epoch;
mod equality;
mod history;
mod http;
mod on;
mod optimistic;
mod records;
mod roles;
mod stage;
mod torture;
mod writer;
