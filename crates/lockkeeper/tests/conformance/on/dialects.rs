//! The dialects that other Redis clients understand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::Backend;
use lockkeeper::backends::redis::dialects;
use lockkeeper::conformance::Engine;
use lockkeeper_testbed::Redis;

use super::redis::Alone;

/// A prefix of its own on the same server, in one of the dialects that other clients understand.
pub(crate) struct DialectEngine<D> {
    server: &'static Redis,
    prefix: String,
    dialect: std::marker::PhantomData<fn() -> D>,
}

pub(crate) trait Dialect: Send + Sync + 'static {
    const NAME: &'static str;
}

pub(crate) struct Simple;
pub(crate) struct Redisson;

impl Dialect for Simple {
    const NAME: &'static str = "simple";
}

impl Dialect for Redisson {
    const NAME: &'static str = "redisson";
}

#[async_trait]
impl<D: Dialect> Engine for DialectEngine<D> {
    async fn start() -> Self {
        static CORNERS: AtomicU64 = AtomicU64::new(0);
        let corner = CORNERS.fetch_add(1, Ordering::Relaxed);
        Self {
            server: Alone::server(),
            prefix: format!("corner{corner}."),
            dialect: std::marker::PhantomData,
        }
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        let (url, dialect) = (self.server.url(), D::NAME);
        let url = format!("{url}?dialect={dialect}&prefix={}", self.prefix);
        let config = dialects::Config::from_url(&url).expect("a good URL");
        let connected = dialects::connect(&config, Clock::system()).await;
        connected.expect("the server is up")
    }

    /// Keys of locks and of claims, of whatever kind, and names in the list of all.
    async fn residue(&self) -> usize {
        let pattern = format!("*{}*", self.prefix);
        let keys = self.server.ask(&["KEYS", &pattern]).expect("it answers");
        let names = ["ZRANGE", "lockkeeper.dialect:names", "0", "-1"];
        let names = self.server.ask(&names).expect("it answers").text();
        let ours = names
            .lines()
            .filter(|name| name.starts_with(&self.prefix))
            .count();
        keys.text().lines().count() + ours
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(600)
    }
}
