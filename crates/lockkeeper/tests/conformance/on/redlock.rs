//! Redlock over five nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use lockkeeper::Clock;
use lockkeeper::backend::Backend;
use lockkeeper::backends::redlock::{Config, connect};
use lockkeeper::conformance::Engine;
use lockkeeper_testbed::{Redis, RedisFive};

/// The commands that a user of the Redlock backend needs.
const LEAST: &str = "+eval +evalsha +script|load +time +get +set +del +pexpire +pttl +hset +hget +hmget +hgetall \
     +hdel +zadd +zrem +zrange +publish +subscribe +lpush +ltrim +scan +ping +info +config|get";

/// Five Redis servers, spoken to as a user who may do no more than necessary, and a prefix of their own for each law.
pub(crate) struct RedlockEngine {
    five: &'static RedisFive,
    prefix: String,
}

impl RedlockEngine {
    /// Locks, and waiting claims whose lease has not ended, over all nodes.
    fn claims(&self) -> usize {
        const COUNT: &str = "
            local now = redis.call('TIME')[1] * 1000
            local count = #redis.call('KEYS', ARGV[1] .. ':lock:*')
            for _, waiting in ipairs(redis.call('KEYS', ARGV[1] .. ':wait:*')) do
                for _, entry in ipairs(redis.call('HVALS', waiting)) do
                    if tonumber(entry:sub(1, 16)) > now then count = count + 1 end
                end
            end
            return count";
        let count = |node: &Redis| {
            let told = node
                .ask(&["EVAL", COUNT, "0", &self.prefix])
                .expect("it answers");
            told.text().parse::<usize>().expect("a number")
        };
        self.five.nodes().iter().map(count).sum()
    }
}

fn five() -> RedisFive {
    let five = RedisFive::start().expect("five Redis servers");
    for node in five.nodes() {
        let mut user = vec!["ACL", "SETUSER", "locks", "on", ">secret"];
        user.extend(["~law*", "&law*", "-@all"]);
        user.extend(LEAST.split_whitespace());
        node.ask(&user).expect("a user");
    }
    five
}

#[async_trait]
impl Engine for RedlockEngine {
    async fn start() -> Self {
        static FIVE: OnceLock<RedisFive> = OnceLock::new();
        static CORNERS: AtomicU64 = AtomicU64::new(0);
        Self {
            five: FIVE.get_or_init(five),
            prefix: format!("law{}", CORNERS.fetch_add(1, Ordering::Relaxed)),
        }
    }

    async fn backend(&self) -> Arc<dyn Backend> {
        let nodes: Vec<String> = self
            .five
            .addresses()
            .iter()
            .map(ToString::to_string)
            .collect();
        let url = format!(
            "redlock://locks:secret@{}?prefix={}&longest-lease=5m&fresh=yes",
            nodes.join(","),
            self.prefix
        );
        let config = Config::from_url(&url).expect("a good URL");
        let connected = connect(&config, Clock::system()).await;
        connected.expect("the nodes are up")
    }

    /// A majority answers for all: what it said is on its way to the others for a moment.
    async fn residue(&self) -> usize {
        for _ in 0..20 {
            if self.claims() == 0 {
                return 0;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.claims()
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(600)
    }
}
