//! One stream of watches per keeper. Each waiter watches the keys of those in its way, from *now* on: etcd
//! serves such watches at once, while one that starts in the past waits for a loop of 100 ms. What happened
//! between the reading of the list and the watch's beginning is found by reading the list again, which is
//! needed only if the revision has moved meanwhile.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;

use super::client::{Client, Link};
use super::grpc::{self, Failure};
use super::list::says_held;
use super::proto::{
    Event, KeyValue, WatchAnswer, WatchCancel, WatchChange, WatchCreate, WatchRequest, method,
};
use crate::claim::ClaimId;

/// Whom a watch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// A waiting claim.
    Claim(ClaimId),
    /// A lease: its session key is watched.
    Lease(i64),
}

/// What the watches tell.
#[derive(Debug)]
pub(super) enum Notice {
    /// A key that the target watches has changed, at this revision.
    Changed {
        target: Target,
        key: Vec<u8>,
        revision: i64,
        how: How,
    },
    /// All watches of the target have begun, the last after this revision.
    Begun { target: Target, revision: i64 },
}

/// How a key has changed.
#[derive(Debug)]
pub(super) enum How {
    /// It was deleted, and is known to have been this before. All other watches of the target had begun by then: so what
    /// happened to their keys before was told before. The key may belong to a set of watches that is being replaced.
    Deleted { before: Option<KeyValue> },
    /// In any other way.
    Else,
}

/// What has to be told about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heed {
    /// Its end.
    End,
    /// Every change, but that its claim is held.
    Changes,
}

enum Command {
    Watch(Target, Vec<Vec<u8>>, Heed),
    Forget(Target),
}

/// Sets and takes back watches.
#[derive(Debug, Clone)]
pub(super) struct Watcher(mpsc::UnboundedSender<Command>);

impl Watcher {
    /// It ends when it is dropped; `notices` gets what the watches tell.
    pub(super) fn start(client: &Arc<Client>, notices: mpsc::UnboundedSender<Notice>) -> Self {
        let (commands, asked) = mpsc::unbounded_channel();
        let watches = Watches {
            client: Arc::downgrade(client),
            notices,
            stream: None,
            last_id: 0,
            targets: HashMap::new(),
            by_id: HashMap::new(),
        };
        tokio::spawn(watches.run(asked));
        Self(commands)
    }

    /// From now on the target watches these keys and no others.
    pub(super) fn watch(&self, target: Target, keys: Vec<Vec<u8>>, heed: Heed) {
        let _it_has_ended = self.0.send(Command::Watch(target, keys, heed));
    }

    pub(super) fn forget(&self, target: Target) {
        let _it_has_ended = self.0.send(Command::Forget(target));
    }
}

struct Watches {
    client: Weak<Client>,
    notices: mpsc::UnboundedSender<Notice>,
    stream: Option<Stream>,
    last_id: i64,
    targets: HashMap<Target, Watched>,
    by_id: HashMap<i64, Target>,
}

/// What one target watches.
struct Watched {
    keys: HashMap<Vec<u8>, i64>,
    heed: Heed,
}

struct Stream {
    link: Link,
    messages: grpc::Stream<WatchRequest, WatchAnswer>,
    /// Watches that have not begun yet.
    beginning: HashSet<i64>,
}

impl Watches {
    async fn run(mut self, mut asked: mpsc::UnboundedReceiver<Command>) {
        let mut pause = Duration::ZERO;
        loop {
            if self.stream.is_none() && !self.targets.is_empty() {
                self.open();
            }
            let came = match &mut self.stream {
                None => None,
                Some(open) => tokio::select! {
                    answer = open.messages.next() => Some(answer),
                    command = asked.recv() => {
                        let Some(command) = command else { return };
                        self.take_in(command);
                        continue;
                    }
                },
            };
            match came {
                None => match asked.recv().await {
                    Some(command) => self.take_in(command),
                    None => return,
                },
                Some(Ok(answer)) => {
                    if self.answered(answer) {
                        pause = Duration::ZERO;
                    } else {
                        pause = self.broken(pause, None).await;
                    }
                }
                Some(Err(failure)) => pause = self.broken(pause, Some(failure)).await,
            }
        }
    }

    fn take_in(&mut self, command: Command) {
        match command {
            Command::Watch(target, keys, heed) => {
                let mut kept = HashMap::new();
                for (key, id) in self.no_longer(target) {
                    if keys.contains(&key) {
                        kept.insert(key, id);
                    } else {
                        self.cancel(id);
                    }
                }
                for key in keys {
                    kept.entry(key)
                        .or_insert_with_key(|key| self.create(target, key.clone(), heed));
                }
                self.targets.insert(target, Watched { keys: kept, heed });
            }
            Command::Forget(target) => {
                for (_, id) in self.no_longer(target) {
                    self.cancel(id);
                }
            }
        }
    }

    /// The keys that the target has watched.
    fn no_longer(&mut self, target: Target) -> HashMap<Vec<u8>, i64> {
        let watched = self.targets.remove(&target);
        watched.map(|watched| watched.keys).unwrap_or_default()
    }

    /// Begins to watch a key; when there is no stream, the next one begins with it.
    fn create(&mut self, target: Target, key: Vec<u8>, heed: Heed) -> i64 {
        self.last_id += 1;
        let watch_id = self.last_id;
        self.by_id.insert(watch_id, target);
        if let Some(stream) = &mut self.stream {
            stream.beginning.insert(watch_id);
            stream.send(WatchChange::Create(WatchCreate {
                key,
                filters: match heed {
                    Heed::End => vec![0],
                    Heed::Changes => Vec::new(),
                },
                prev_kv: true,
                watch_id,
            }));
        }
        watch_id
    }

    fn cancel(&mut self, watch_id: i64) {
        self.by_id.remove(&watch_id);
        if let Some(stream) = &mut self.stream {
            stream.beginning.remove(&watch_id);
            stream.send(WatchChange::Cancel(WatchCancel { watch_id }));
        }
    }

    /// Opens a stream with all watches there are.
    fn open(&mut self) {
        let Some(client) = self.client.upgrade() else {
            return;
        };
        let (link, messages) = client.stream(method::WATCH);
        self.stream = Some(Stream {
            link,
            messages,
            beginning: HashSet::new(),
        });
        self.by_id.clear();
        for (target, Watched { keys, heed }) in std::mem::take(&mut self.targets) {
            let keys = keys.into_keys();
            let keys = keys.map(|key| (key.clone(), self.create(target, key, heed)));
            let keys = keys.collect();
            self.targets.insert(target, Watched { keys, heed });
        }
    }

    /// Takes in what the server says; false if the stream is of no use any more.
    fn answered(&mut self, answer: WatchAnswer) -> bool {
        let target = self.by_id.get(&answer.watch_id).copied();
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        if answer.canceled {
            // Taken back by us, or by the server: then all begin anew, since one that could not begin has
            // no number.
            return target.is_none() && !answer.created;
        }
        let Some(target) = target else { return true };
        if answer.created {
            self.begun(target, answer.watch_id, revision);
        }
        let all_begun = self.have_all_begun(target);
        for Event { kind, kv, prev_kv } in answer.events {
            let kv = kv.unwrap_or_default();
            if kind == 0 && says_held(&kv) {
                continue;
            }
            self.tell(Notice::Changed {
                target,
                how: match kind == 1 && all_begun {
                    true => How::Deleted { before: prev_kv },
                    false => How::Else,
                },
                key: kv.key,
                revision: kv.mod_revision,
            });
        }
        true
    }

    fn begun(&mut self, target: Target, watch_id: i64, revision: i64) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        stream.beginning.remove(&watch_id);
        if self.have_all_begun(target) {
            self.tell(Notice::Begun { target, revision });
        }
    }

    fn have_all_begun(&self, target: Target) -> bool {
        let (Some(stream), Some(watched)) = (&self.stream, self.targets.get(&target)) else {
            return false;
        };
        !watched
            .keys
            .values()
            .any(|id| stream.beginning.contains(id))
    }

    fn tell(&self, notice: Notice) {
        let _nobody_listens = self.notices.send(notice);
    }

    /// The stream ended. All watches begin anew on the next one, after a pause that grows.
    async fn broken(&mut self, pause: Duration, failure: Option<Failure>) -> Duration {
        let (Some(stream), Some(client)) = (self.stream.take(), self.client.upgrade()) else {
            return pause;
        };
        if let Some(failure) = failure {
            let recovered = client.recover(&stream.link, &failure, method::WATCH);
            let _nobody_waits_for_it = recovered.await;
        } else {
            // Called off by the server: perhaps the login has ended.
            let _told_by_the_next_call = client.log_in_again(&stream.link).await;
        }
        tokio::time::sleep(pause).await;
        (pause * 2).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}

impl Stream {
    fn send(&mut self, change: WatchChange) {
        let change = Some(change);
        self.messages.send(&WatchRequest { change });
    }
}
