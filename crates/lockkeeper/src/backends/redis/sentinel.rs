//! The master that the sentinels name: found before each connection, and again when they say that it
//! has moved.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use redis::{RedisError, Value};

use super::answer;
use super::link::{Event, Find, Link};
use super::node::{Access, Node};
use super::socket::timed_out;
use super::wire;

/// A sentinel that takes longer to say who is master is not waited for.
const ANSWER_WITHIN: Duration = Duration::from_millis(1000);
/// Where sentinels tell that a master has moved.
const MOVED: &[u8] = b"+switch-master";

/// The link to whoever is master, and the links to the sentinels.
#[derive(Debug)]
pub(super) struct Sentinel {
    pub(super) master: Arc<Link>,
}

/// Asks the sentinels.
struct Sentinels {
    links: Vec<Link>,
    name: String,
    access: Access,
}

impl Sentinel {
    /// Starts to look for the master, and goes on.
    pub(super) fn start(
        sentinels: &[Node],
        (name, access): (&str, &Access),
        listener: impl Fn(Event<'_>) + Send + Sync + 'static,
    ) -> Self {
        let followed = Arc::new(OnceLock::<Weak<Link>>::new());
        let watch = |node: &Node| {
            let (followed, begins) = (followed.clone(), format!("{name} ").into_bytes());
            let link = Link::start(node.clone(), move |event| {
                let Some(master) = followed.get().and_then(Weak::upgrade) else {
                    return;
                };
                match event {
                    Event::Message { payload, .. } if payload.starts_with(&begins) => {
                        master.give_up();
                    }
                    // What it said meanwhile was not heard.
                    Event::Up => master.look_again(),
                    _ => {}
                }
            });
            link.subscribe_later(MOVED);
            link
        };
        let whereabouts = Sentinels {
            links: sentinels.iter().map(watch).collect(),
            name: name.to_owned(),
            access: access.clone(),
        };
        // Called by its name: its address changes.
        let node = Node::at(name, 0, access);
        let master = Arc::new(Link::follow(node, Box::new(whereabouts), listener));
        let _first = followed.set(Arc::downgrade(&master));
        Self { master }
    }

    /// An answer of the master's; one who is no master any more is given up.
    pub(super) fn heed(&self, told: Result<Value, RedisError>) -> Result<Value, RedisError> {
        if told.as_ref().is_err_and(answer::is_no_master) {
            self.master.give_up();
        }
        told
    }
}

#[async_trait]
impl Find for Sentinels {
    /// Whom most of the sentinels that answer call master: one that is cut off may be behind.
    async fn find(&self) -> Result<Node, RedisError> {
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let ask = &ask;
        let answers = self.links.iter().map(|link| async move {
            let answer = tokio::time::timeout(ANSWER_WITHIN, link.command(ask)).await;
            answer.unwrap_or_else(|_| Err(timed_out()))
        });
        let mut votes: HashMap<(String, u16), usize> = HashMap::new();
        let mut silent = None;
        for answer in join_all(answers).await {
            match answer.as_ref().map(address) {
                Ok(Some(address)) => *votes.entry(address).or_default() += 1,
                Ok(None) => {}
                Err(_) => silent = answer.err(),
            }
        }
        let most = votes.into_iter().max_by_key(|(_, votes)| *votes);
        let nobody = || match silent {
            Some(error) => error,
            None => io::Error::other(format!("no sentinel watches {:?}", self.name)).into(),
        };
        let ((host, port), _) = most.ok_or_else(nobody)?;
        Ok(Node::at(host, port, &self.access))
    }
}

fn address(answer: &Value) -> Option<(String, u16)> {
    match wire::items(answer)? {
        [host, port] => {
            let text = |value| std::str::from_utf8(wire::bytes(value)?).ok();
            Some((text(host)?.to_owned(), text(port)?.parse().ok()?))
        }
        _ => None,
    }
}
