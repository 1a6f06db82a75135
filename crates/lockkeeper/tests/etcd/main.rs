//! `etcd://` on real servers, with real faults and other people's clients.

mod cluster;
mod foreign;
mod leases;
mod limits;
mod network;
mod quiet;
mod roles;
mod security;
mod stage;
