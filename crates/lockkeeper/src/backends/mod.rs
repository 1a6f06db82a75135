//! One folder per engine, each behind its own feature; nothing outside this folder and `connect.rs`
//! names an engine.

#[cfg(feature = "etcd")]
pub mod etcd;
#[cfg(feature = "local")]
pub mod local;
pub mod memory;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "redis")]
pub mod redlock;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) mod sql;
#[cfg(any(
    feature = "redis",
    feature = "etcd",
    feature = "zookeeper",
    feature = "postgres",
    feature = "mysql"
))]
pub(crate) mod tls;
#[cfg(any(feature = "redis", feature = "postgres", feature = "mysql"))]
pub(crate) mod url;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;
