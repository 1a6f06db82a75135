//! The engines that the laws are tried on: each starts with the first law that needs it.

pub(crate) mod dialects;
pub(crate) mod etcd;
pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod redlock;
pub(crate) mod wrapped;
pub(crate) mod zookeeper;
