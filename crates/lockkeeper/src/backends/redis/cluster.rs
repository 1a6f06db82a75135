//! Several servers that share the slots: each call goes to the master of its slot, and follows when the
//! slot moves or its master fails.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use redis::{RedisError, Value};

use super::answer;
use super::link::{Event, Link, Script};
use super::node::{Access, Node};
use super::slots::{self, Map, Place};

/// A call that is sent on asks again so often, with this pause, while a slot is on its way.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(25);
/// A node that takes longer to describe the cluster is not waited for.
const DESCRIBE_WITHIN: Duration = Duration::from_millis(1000);
/// Pushes are heard at so many nodes: one may fail, and more would only repeat them.
const EARS: usize = 2;

type Listener = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// The links to the nodes, and who serves what.
pub(super) struct Cluster {
    seeds: Vec<Node>,
    access: Access,
    channel: Vec<u8>,
    listener: Listener,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    map: Map,
    links: HashMap<Place, Arc<Link>>,
    hears: Vec<Place>,
    /// Who described the cluster last.
    described_by: Option<Place>,
}

impl Cluster {
    pub(super) fn new(
        seeds: &[Node],
        channel: &str,
        listener: impl Fn(Event<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            seeds: seeds.to_vec(),
            access: seeds
                .first()
                .map(|seed| seed.access.clone())
                .unwrap_or_default(),
            channel: channel.as_bytes().to_vec(),
            listener: Arc::new(listener),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn link(&self, place: &Place) -> Arc<Link> {
        let mut state = self.state();
        let link = state.links.entry(place.clone()).or_insert_with(|| {
            let node = Node::at(place.0.as_str(), place.1, &self.access);
            let listener = self.listener.clone();
            Arc::new(Link::start(node, move |event| listener(event)))
        });
        link.clone()
    }

    /// The links to all masters.
    pub(super) fn masters(&self) -> Vec<Arc<Link>> {
        let masters = self.state().map.masters();
        masters.iter().map(|place| self.link(place)).collect()
    }

    /// Asks the nodes who serves what, until one answers for all slots.
    pub(super) async fn describe(&self) -> Result<(), RedisError> {
        self.describe_by(self.witnesses(None)).await
    }

    /// The nodes in the order in which they are asked. One that is cut off from its peers still answers, and is
    /// wrong: so the one that was believed last time, and the one that sent us away, come last.
    fn witnesses(&self, doubtful: Option<&Place>) -> Vec<Place> {
        let state = self.state();
        let mut places = state.map.masters();
        for seed in &self.seeds {
            let place = (seed.host.clone(), seed.port);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let last = state.described_by.as_ref();
        places.sort_by_key(|place| (Some(place) == doubtful, Some(place) == last));
        places
    }

    async fn describe_by(&self, witnesses: Vec<Place>) -> Result<(), RedisError> {
        let mut last = io::Error::other("no node of the cluster is known").into();
        let mut part = None;
        for place in witnesses {
            match self.map_of(&place).await {
                Ok(map) if map.is_whole() => {
                    self.adopt(map, place).await;
                    return Ok(());
                }
                Ok(map) if map.masters().is_empty() => {
                    last = io::Error::other("the cluster serves no slots").into();
                }
                Ok(map) => part = part.or(Some((map, place))),
                Err(error) => last = error,
            }
        }
        let (map, place) = part.ok_or(last)?;
        self.adopt(map, place).await;
        Ok(())
    }

    async fn map_of(&self, place: &Place) -> Result<Map, RedisError> {
        let link = self.link(place);
        let mut ask = redis::cmd("CLUSTER");
        ask.arg("SLOTS");
        let answer = tokio::time::timeout(DESCRIBE_WITHIN, link.command(&ask)).await;
        let answer = answer.unwrap_or_else(|_| Err(super::socket::timed_out()))?;
        let nonsense = || io::Error::other("the description of the cluster made no sense").into();
        Map::parse(&answer, &place.0).ok_or_else(nonsense)
    }

    /// Uses a new map: links to nodes that are masters no more are ended, and pushes are heard at those
    /// that are.
    async fn adopt(&self, map: Map, from: Place) {
        let masters = map.masters();
        let ears: Vec<Place> = {
            let mut state = self.state();
            state.links.retain(|place, _| masters.contains(place));
            state.hears.retain(|place| masters.contains(place));
            state.map = map;
            state.described_by = Some(from);
            let new = masters
                .into_iter()
                .filter(|place| !state.hears.contains(place));
            let wanted = EARS.saturating_sub(state.hears.len());
            let new: Vec<Place> = new.take(wanted).collect();
            state.hears.extend(new.iter().cloned());
            new
        };
        let ears: Vec<Arc<Link>> = ears.iter().map(|place| self.link(place)).collect();
        // All are told before the first is waited for: this call may be cut off.
        for ear in &ears {
            ear.subscribe_later(&self.channel);
        }
        // With a node down it is done when the node is up.
        let _later = join_all(ears.iter().map(|ear| ear.subscribe(&self.channel))).await;
    }

    /// Calls a script at the master of its keys' slot.
    pub(super) async fn call(
        &self,
        script: &Script,
        keys: &[impl AsRef<[u8]> + Sync],
        args: &[&[u8]],
    ) -> Result<Value, RedisError> {
        let slot = keys.first().map_or(0, |key| slots::slot(key.as_ref()));
        let mut asks: Option<Place> = None;
        let mut tries = 0;
        loop {
            tries += 1;
            let asked = asks.take();
            let place = match &asked {
                Some(place) => place.clone(),
                None => self.master(slot).await?,
            };
            let link = self.link(&place);
            let told = match asked {
                Some(_) => link.call_asking(script, keys, args).await,
                None => link.call(script, keys, args).await,
            };
            let Err(error) = told else { return told };
            if tries == TRIES {
                return Err(error);
            }
            match answer::code(&error) {
                // Refused before it ran: it may be sent elsewhere, or again.
                "MOVED" => self.moved(slot, &error, &place).await,
                "ASK" => asks = redirection(&error, &place.0),
                "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "READONLY" | "LOADING" => {
                    tokio::time::sleep(PAUSE).await;
                    let others_first = self.witnesses(Some(&place));
                    let _still_the_old_map = self.describe_by(others_first).await;
                }
                _ if answer::is_elsewhere(&error) => tokio::time::sleep(PAUSE).await,
                // Nobody knows whether it ran; but who serves the slot may have changed.
                "" => {
                    let others_first = self.witnesses(Some(&place));
                    let _still_the_old_map = self.describe_by(others_first).await;
                    return Err(error);
                }
                _ => return Err(error),
            }
        }
    }

    async fn master(&self, slot: u16) -> Result<Place, RedisError> {
        let known = self.state().map.master(slot).cloned();
        if let Some(place) = known {
            return Ok(place);
        }
        self.describe().await?;
        let known = self.state().map.master(slot).cloned();
        known.ok_or_else(|| io::Error::other("nobody serves the slot").into())
    }

    /// The node that is named serves the slot, so it knows better than any other who does.
    async fn moved(&self, slot: u16, error: &RedisError, asked: &Place) {
        let mut witnesses = self.witnesses(Some(asked));
        let named = redirection(error, &asked.0);
        if let Some(named) = &named {
            self.state().map.move_to(slot, named.clone());
            witnesses.retain(|place| place != named);
            witnesses.insert(0, named.clone());
        }
        let _the_redirection_serves = self.describe_by(witnesses).await;
        let mut state = self.state();
        if let Some(named) = named.filter(|_| state.map.master(slot) == Some(asked)) {
            state.map.move_to(slot, named);
        }
    }
}

fn redirection(error: &RedisError, asked: &str) -> Option<Place> {
    slots::redirection(error.detail()?, asked)
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("masters", &self.state().map.masters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_testbed::{Redis, RedisCluster};

    use super::*;

    /// A look at the cluster that is cut off, because the first ear hangs, still opens the second.
    #[tokio::test]
    async fn every_ear_is_opened_although_the_first_hangs() {
        let servers = RedisCluster::start().unwrap();
        let mut nodes: Vec<&Redis> = servers.nodes().iter().collect();
        nodes.sort_by_key(|node| node.address().port());
        let at = |node: &Redis| Node::at("127.0.0.1", node.address().port(), &Access::default());
        let cluster = Cluster::new(&[at(nodes[2])], "ear", |_| {});
        nodes[0].server().pause().unwrap();
        let described = tokio::time::timeout(Duration::from_millis(500), cluster.describe()).await;
        assert!(described.is_err(), "cut off at the first ear");
        let opened = async {
            let heard = || nodes[1].ask(&["PUBSUB", "CHANNELS"]).unwrap().text();
            while !heard().contains("ear") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let opened = tokio::time::timeout(Duration::from_secs(5), opened).await;
        nodes[0].server().resume().unwrap();
        assert!(opened.is_ok(), "nobody listens at the second");
    }
}
