//! One stream on which all leases of a keeper are kept alive: as many as there are lengths of leases,
//! however many claims.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::client::{Client, Link};
use super::faults::unreachable;
use super::grpc;
use super::proto::{LeaseAnswer, LeaseId, method};
use crate::error::Error;

/// What became of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// It lives on; at this revision and in this term of the member that answered.
    Alive { revision: i64, term: u64 },
    /// It does not exist any more.
    Gone,
}

type Waiting = oneshot::Sender<Result<Kept, Error>>;

enum Command {
    Keep(i64, Waiting),
    /// The stream is not answered on: open another one.
    Reopen,
}

/// Keeps leases alive.
#[derive(Debug)]
pub(super) struct KeepAlive(mpsc::UnboundedSender<Command>);

impl KeepAlive {
    /// It ends when it is dropped.
    pub(super) fn start(client: &Arc<Client>) -> Self {
        let (commands, asked) = mpsc::unbounded_channel();
        tokio::spawn(run(Arc::downgrade(client), asked));
        Self(commands)
    }

    /// The lease starts anew.
    pub(super) async fn keep(&self, lease: i64, patience: Duration) -> Result<Kept, Error> {
        let (waiting, answer) = oneshot::channel();
        if self.0.send(Command::Keep(lease, waiting)).is_err() {
            return Err(Error::Closed);
        }
        match timeout(patience, answer).await {
            Ok(Ok(kept)) => kept,
            Ok(Err(_)) => Err(unreachable("keeping a lease alive")),
            Err(_) => {
                let _it_has_ended = self.0.send(Command::Reopen);
                let during = format!("keeping a lease alive (no answer within {patience:?})");
                Err(unreachable(during))
            }
        }
    }
}

/// An open stream and who waits for which answer on it: answers about one lease come in the order of the
/// questions.
struct Stream {
    link: Link,
    messages: grpc::Stream<LeaseId, LeaseAnswer>,
    waiting: HashMap<i64, VecDeque<Waiting>>,
}

async fn run(client: Weak<Client>, mut asked: mpsc::UnboundedReceiver<Command>) {
    let mut stream: Option<Stream> = None;
    loop {
        let came = match &mut stream {
            None => None,
            Some(open) => tokio::select! {
                answer = open.messages.next() => Some(answer),
                command = asked.recv() => {
                    let Some(command) = command else { return };
                    take_in(&client, &mut stream, command);
                    continue;
                }
            },
        };
        match came {
            None => match asked.recv().await {
                Some(command) => take_in(&client, &mut stream, command),
                None => return,
            },
            Some(Ok(answer)) => {
                if let Some(open) = &mut stream {
                    open.answered(&answer);
                }
            }
            Some(Err(failure)) => broken(&client, &mut stream, &failure).await,
        }
    }
}

fn take_in(client: &Weak<Client>, stream: &mut Option<Stream>, command: Command) {
    let Some(client) = client.upgrade() else {
        return;
    };
    match command {
        Command::Reopen => {
            if let Some(open) = stream.take() {
                client.strike(open.link.generation);
            }
        }
        Command::Keep(lease, waiting) => {
            let open = stream.get_or_insert_with(|| Stream::open(&client));
            open.messages.send(&LeaseId { id: lease });
            open.waiting.entry(lease).or_default().push_back(waiting);
        }
    }
}

/// The stream ended: those who wait ask again, on another member.
async fn broken(client: &Weak<Client>, stream: &mut Option<Stream>, failure: &grpc::Failure) {
    let (Some(open), Some(client)) = (stream.take(), client.upgrade()) else {
        return;
    };
    let recovered = client.recover(&open.link, failure, method::KEEP_ALIVE);
    let error = recovered.await;
    for waiting in open.waiting.into_values().flatten() {
        let _gave_up = waiting.send(Err(error.clone()));
    }
}

impl Stream {
    fn open(client: &Arc<Client>) -> Self {
        let (link, messages) = client.stream(method::KEEP_ALIVE);
        Self {
            link,
            messages,
            waiting: HashMap::new(),
        }
    }

    fn answered(&mut self, answer: &LeaseAnswer) {
        let Some(line) = self.waiting.get_mut(&answer.id) else {
            return;
        };
        let kept = if answer.ttl > 0 {
            let header = answer.header.clone().unwrap_or_default();
            Kept::Alive {
                revision: header.revision,
                term: header.raft_term,
            }
        } else {
            Kept::Gone
        };
        if let Some(waiting) = line.pop_front() {
            let _gave_up = waiting.send(Ok(kept));
        }
        if line.is_empty() {
            self.waiting.remove(&answer.id);
        }
    }
}
