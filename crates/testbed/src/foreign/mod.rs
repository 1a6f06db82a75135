//! Other people's lock clients, installed by package name and run as real processes: what shares
//! locks with lockkeeper, and what its speed is measured against.
//!
//! | client | package | needs |
//! |---|---|---|
//! | [`Client::redis_py`] | `redis` (Python) | `python3` |
//! | [`Client::npm_redlock`] | `redlock`, `ioredis` (npm) | `node`, `npm` |
//! | [`Client::redisson`] | `org.redisson:redisson` (Maven) | `javac`, `mvn` |
//! | [`Client::kazoo`] | `kazoo` (Python) | `python3` |
//! | [`Client::curator`] | `org.apache.curator:curator-recipes` (Maven) | `javac`, `mvn` |
//! | [`Client::go_etcd`] | `go.etcd.io/etcd/client/v3` (Go) | `go` |
//! | [`Client::etcdctl_lock`] | none: the server's own tool | `etcdctl`, `python3` |
//!
//! Each is a small program in `crates/testbed/foreign/` that has the same conversation, one line
//! each way, names without spaces, times in milliseconds:
//!
//! | said | answered |
//! |---|---|
//! | | `ready`, once, when it has started |
//! | `acquire NAME WAIT LEASE` | `got` or `busy` |
//! | `release` (what was got last) | `released` or `not-mine` |
//! | `cycles LENGTH NAME` | `cycles` and the nanoseconds of each acquire and release |
//! | `exit` | |
//!
//! and to any of them `error` with what the client threw. The packages have pinned versions and are
//! installed once below `target/foreign`, with what each language's own tool is set up to use.

mod conversation;
mod install;

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

pub use conversation::{Acquired, Client, Released};
use install::source;

use crate::error::{Error, Result};
use crate::program;

impl Client {
    /// redis-py's `Lock` on one Redis.
    ///
    /// # Errors
    /// When it cannot be installed or does not start.
    pub fn redis_py(address: impl Display) -> Result<Client> {
        python("redis-py", "redis_py.py", &[&address.to_string()])
    }

    /// The npm package `redlock` on one Redis or several.
    ///
    /// # Errors
    /// When it cannot be installed or does not start.
    pub fn npm_redlock<A: Display>(addresses: &[A]) -> Result<Client> {
        let node = install::runtime("node", "nodejs")?;
        let modules = install::node_modules()?;
        let arguments = [text(&source("node/redlock.js")), list(addresses)];
        Client::start("npm redlock", &node, &arguments, &[("NODE_PATH", &modules)])
    }

    /// Redisson's `RLock` on one Redis. A lease of zero asks for Redisson's own watchdog.
    ///
    /// # Errors
    /// When it cannot be installed or does not start.
    pub fn redisson(address: impl Display) -> Result<Client> {
        java("redisson", "RedissonLocks", &[&address.to_string()])
    }

    /// kazoo's `Lock`, whose node is `prefix` followed by the name. The lease of the first acquire is
    /// the session's timeout.
    ///
    /// # Errors
    /// When it cannot be installed or does not start.
    pub fn kazoo<A: Display>(addresses: &[A], prefix: &str) -> Result<Client> {
        python("kazoo", "kazoo_lock.py", &[&list(addresses), prefix])
    }

    /// Curator's `InterProcessMutex`, whose node is `prefix` followed by the name. The lease of the
    /// first acquire is the session's timeout.
    ///
    /// # Errors
    /// When it cannot be installed or does not start.
    pub fn curator<A: Display>(addresses: &[A], prefix: &str) -> Result<Client> {
        java("curator", "CuratorLocks", &[&list(addresses), prefix])
    }

    /// The `concurrency.Mutex` of etcd's Go client, at `prefix` followed by the name. The lease of
    /// the first acquire, in whole seconds, is the session's.
    ///
    /// # Errors
    /// When it cannot be installed or does not start.
    pub fn go_etcd<A: Display>(addresses: &[A], prefix: &str) -> Result<Client> {
        let program = install::go_program()?;
        let arguments = [list(addresses), prefix.to_owned()];
        Client::start("go etcd", &program, &arguments, &[])
    }

    /// `etcdctl lock`, at `prefix` followed by the name; a process of its own for each acquire, with
    /// the lease in whole seconds.
    ///
    /// # Errors
    /// When it is not there or does not start.
    pub fn etcdctl_lock<A: Display>(addresses: &[A], prefix: &str) -> Result<Client> {
        let python = install::runtime("python3", "python3")?;
        let etcdctl = program::find("etcdctl", "etcd-client")?;
        let program = text(&source("python/etcdctl_lock.py"));
        let arguments = [program, text(&etcdctl), list(addresses), prefix.to_owned()];
        Client::start("etcdctl lock", &python, &arguments, &[])
    }
}

/// The client, or nothing where the machine lacks the runtime that it needs: then the test has not
/// been run, which is said loudly, past the capture of output that passing tests have.
///
/// # Errors
/// Everything else that went wrong; also a missing runtime when the variable
/// `LOCKKEEPER_FOREIGN=required` says that this machine has them all.
pub fn present(client: Result<Client>) -> Result<Option<Client>> {
    let required = std::env::var_os("LOCKKEEPER_FOREIGN").is_some_and(|value| value == "required");
    match client {
        Ok(client) => Ok(Some(client)),
        Err(Error::Missing { program, package }) if !required => {
            let test = std::thread::current().name().unwrap_or("?").to_owned();
            let notice = format!(
                "\n!!! NOT RUN: {test}: THIS MACHINE HAS NO {program} \
                 (DEBIAN PACKAGE {package}) !!!\n"
            );
            // Not `eprintln`: the test harness would keep it to itself.
            let _ = std::io::stderr().write_all(notice.to_uppercase().as_bytes());
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

fn python(name: &'static str, program: &str, arguments: &[&str]) -> Result<Client> {
    let python = install::python()?;
    let program = text(&source(&format!("python/{program}")));
    let arguments: Vec<String> = [program.as_str()]
        .iter()
        .chain(arguments)
        .map(|argument| (*argument).to_owned())
        .collect();
    Client::start(name, &python, &arguments, &[])
}

fn java(name: &'static str, main_class: &str, arguments: &[&str]) -> Result<Client> {
    let java = install::runtime("java", "default-jre-headless")?;
    let class_path = install::java_classes(name, main_class)?;
    // Few threads and little memory: several of these share the machine with servers.
    let head = [
        "-XX:+UseSerialGC",
        "-Xmx128m",
        "-cp",
        &class_path,
        main_class,
    ];
    let arguments: Vec<String> = head
        .iter()
        .chain(arguments)
        .map(|argument| (*argument).to_owned())
        .collect();
    Client::start(name, &java, &arguments, &[])
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn list<A: Display>(addresses: &[A]) -> String {
    let each: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    each.join(",")
}
