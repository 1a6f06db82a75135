//! One supervised connection to one server: it is made anew whenever it breaks or falls silent, its
//! subscriptions come back with it, and whoever listens is told.
//!
//! The connection is multiplexed: a dropped call never shifts the answers of others. It is given up
//! when it breaks, and also when it is silent: a call that was dropped or timed out without an answer
//! makes the supervisor ask `PING`, and no answer to that ends the connection.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use redis::{Cmd, RedisError, Value, cmd};
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::answer;
use super::node::Node;
use super::packed::{self, Pack, Packed};
use super::pipe::Pipe;
use super::socket::timed_out;
use crate::lifecycle::deadline::Clock;
use supervisor::supervise;

mod enter;
mod supervisor;

/// No command takes longer, whoever asks.
const LONGEST_CALL: Duration = Duration::from_secs(10);

static PING: LazyLock<Packed> = LazyLock::new(|| Packed::words(&[b"PING"]));

/// When a caller gets its answer, if a script also has something to tell to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// As the server likes, which is before the others.
    InTurn,
    /// After them: they wait for something, it does not.
    AfterOthers,
}

/// A Lua script, known to servers by its hash.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    /// A call by hash, up to how many keys follow.
    by_hash: Vec<u8>,
}

impl Script {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let by_hash = beginning("EVALSHA", redis::Script::new(&text).get_hash());
        Self { text, by_hash }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The call by hash.
    pub(crate) fn by_hash<A: AsRef<[u8]>>(&self, keys: &[A], args: &[&[u8]]) -> Packed {
        self.calling(keys, args).packed()
    }

    /// The call with the whole text, after which the server knows the hash.
    pub(crate) fn by_text<A: AsRef<[u8]>>(&self, keys: &[A], args: &[&[u8]]) -> Packed {
        let call = Call {
            beginning: &beginning("EVAL", &self.text),
            keys,
            args,
        };
        call.packed()
    }

    /// The call by hash, to be written where it is asked.
    fn calling<'a, A>(&'a self, keys: &'a [A], args: &'a [&'a [u8]]) -> Call<'a, A> {
        Call {
            beginning: &self.by_hash,
            keys,
            args,
        }
    }
}

fn beginning(verb: &str, what: &str) -> Vec<u8> {
    let mut beginning = Vec::new();
    packed::part(&mut beginning, verb.as_bytes());
    packed::part(&mut beginning, what.as_bytes());
    beginning
}

/// A call of a script.
struct Call<'a, A> {
    beginning: &'a [u8],
    keys: &'a [A],
    args: &'a [&'a [u8]],
}

impl<A: AsRef<[u8]>> Call<'_, A> {
    fn packed(&self) -> Packed {
        Packed::once(self, self.length())
    }

    /// At least as long as it is.
    fn length(&self) -> usize {
        let keys = self.keys.iter().map(AsRef::as_ref);
        let parts = keys.chain(self.args.iter().copied());
        parts.fold(self.beginning.len() + 64, |all, part| all + part.len() + 16)
    }
}

impl<A: AsRef<[u8]>> Pack for Call<'_, A> {
    fn write(&self, to: &mut Vec<u8>) {
        packed::begin(to, 3 + self.keys.len() + self.args.len());
        to.extend_from_slice(self.beginning);
        packed::count(to, self.keys.len());
        self.keys
            .iter()
            .for_each(|key| packed::part(to, key.as_ref()));
        self.args.iter().for_each(|arg| packed::part(to, arg));
    }
}

/// News of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// Somebody published.
    Message {
        channel: &'a [u8],
        payload: &'a [u8],
    },
    /// The connection is up, with its subscriptions; messages since `Broken` may be lost.
    Up,
    /// The connection is gone; a new one is being made.
    Broken,
}

type Listener = Box<dyn Fn(Event<'_>) + Send + Sync>;

/// One supervised connection to one server. Dropping it ends it.
pub(crate) struct Link {
    shared: Arc<Shared>,
    clock: Clock,
    supervisor: AbortHandle,
}

/// Says where the server is now: asked before each attempt to connect.
#[async_trait]
pub(crate) trait Find: Send + Sync {
    async fn find(&self) -> Result<Node, RedisError>;
}

#[async_trait]
impl Find for Node {
    async fn find(&self) -> Result<Node, RedisError> {
        Ok(self.clone())
    }
}

struct Shared {
    node: Node,
    whereabouts: Box<dyn Find>,
    listener: Listener,
    state: watch::Sender<State>,
    channels: Mutex<BTreeSet<Vec<u8>>>,
    /// A call got no answer.
    suspicion: Notify,
    /// The server may be elsewhere by now.
    doubt: Notify,
    /// A channel was noted on a connection that may not have been told of it.
    unheard: Notify,
}

#[derive(Clone)]
enum State {
    /// The first attempt is under way; calls wait for its outcome.
    Connecting,
    Up(Connection),
    /// The last attempt failed; calls are told at once.
    Down(RedisError),
}

/// One connection of the many in the life of a link.
#[derive(Clone)]
struct Connection {
    pipe: Pipe,
    /// Where it leads to.
    place: (String, u16),
    /// Rung when it has ended or shall end.
    over: Arc<Notify>,
}

impl Link {
    /// Starts to connect and goes on trying. The listener is called by the task that reads the socket:
    /// it must be quick and must not block.
    pub(crate) fn start(node: Node, listener: impl Fn(Event<'_>) + Send + Sync + 'static) -> Self {
        let whereabouts = Box::new(node.clone());
        Self::follow(node, whereabouts, listener)
    }

    /// The same, to wherever the server is found to be; `node` is what it is called.
    pub(crate) fn follow(
        node: Node,
        whereabouts: Box<dyn Find>,
        listener: impl Fn(Event<'_>) + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            node,
            whereabouts,
            listener: Box::new(listener),
            state: watch::Sender::new(State::Connecting),
            channels: Mutex::default(),
            suspicion: Notify::new(),
            doubt: Notify::new(),
            unheard: Notify::new(),
        });
        let supervisor = tokio::spawn(supervise(shared.clone())).abort_handle();
        Self {
            shared,
            clock: Clock::system(),
            supervisor,
        }
    }

    /// What it is linked to, for people.
    // For whoever has several links.
    #[allow(dead_code)]
    pub(crate) fn node(&self) -> &Node {
        &self.shared.node
    }

    /// Waits for the outcome of the first attempt.
    pub(crate) async fn ready(&self) -> Result<(), RedisError> {
        self.connection().await.map(drop)
    }

    /// Calls a script by its hash; a server that does not know it gets the text, once.
    pub(crate) async fn call<A: AsRef<[u8]>>(
        &self,
        script: &Script,
        keys: &[A],
        args: &[&[u8]],
    ) -> Result<Value, RedisError> {
        limited(self.call_for_long(script, keys, args, Told::InTurn)).await
    }

    /// The same for as long as the caller likes: it has a limit of its own, and needs no second timer.
    pub(crate) async fn call_for_long<A: AsRef<[u8]>>(
        &self,
        script: &Script,
        keys: &[A],
        args: &[&[u8]],
        told: Told,
    ) -> Result<Value, RedisError> {
        let pipe = self.connection().await?;
        self.call_on(&pipe, (script, keys, args), told).await
    }

    /// On one connection and no other.
    async fn call_on<A: AsRef<[u8]>>(
        &self,
        pipe: &Pipe,
        (script, keys, args): (&Script, &[A], &[&[u8]]),
        told: Told,
    ) -> Result<Value, RedisError> {
        let by_hash = script.calling(keys, args);
        let answer = match told {
            Told::InTurn => pipe.ask(&by_hash),
            Told::AfterOthers => pipe.ask_behind(&*PING, &by_hash),
        };
        match self.answered(answer).await?.extract_error() {
            // Refused by its hash, so it did not run.
            Err(error) if answer::lacks_script(&error) => {
                let answer = pipe.ask(&script.by_text(keys, args));
                self.answered(answer).await?.extract_error()
            }
            told => told,
        }
    }

    /// The same on a node of a cluster that is taking the keys' slot over.
    pub(crate) async fn call_asking<A: AsRef<[u8]>>(
        &self,
        script: &Script,
        keys: &[A],
        args: &[&[u8]],
    ) -> Result<Value, RedisError> {
        let mut told = self.asking(script.by_hash(keys, args)).await;
        if told.as_ref().is_err_and(answer::lacks_script) {
            told = self.asking(script.by_text(keys, args)).await;
        }
        told
    }

    async fn asking(&self, question: Packed) -> Result<Value, RedisError> {
        let asking = Packed::words(&[b"ASKING"]);
        let mut answers = self.commands(&[asking, question]).await?;
        let told = answers.pop().ok_or_else(timed_out)?;
        told.extract_error()
    }

    /// Sends one command. An error of the server is an error here.
    pub(crate) async fn command(&self, cmd: &impl Pack) -> Result<Value, RedisError> {
        limited(self.ask(|pipe| pipe.ask(cmd)))
            .await?
            .extract_error()
    }

    /// Sends several commands at once; one answer each, errors of the server among them as
    /// [`Value::ServerError`].
    pub(crate) async fn commands(&self, cmds: &[impl Pack]) -> Result<Vec<Value>, RedisError> {
        let answers = self.ask(|pipe| try_join_all(pipe.ask_all(cmds)));
        limited(answers).await
    }

    /// Sends one command on the present connection, or fails at once. The caller may stop waiting without
    /// raising suspicion: for a question to many servers, of which the first few answers decide. It is sent at
    /// once, after everything that was sent before.
    pub(crate) fn send<Q: Pack>(
        &self,
        cmd: &Q,
    ) -> impl Future<Output = Result<Value, RedisError>> + Send + use<Q> {
        let asked = match &*self.shared.state.borrow() {
            State::Up(connection) => Ok(connection.pipe.ask_at_once(cmd)),
            State::Down(error) => Err(error.clone()),
            State::Connecting => Err(io::Error::from(io::ErrorKind::NotConnected).into()),
        };
        async move { asked?.await?.extract_error() }
    }

    /// An answer is overdue: the supervisor asks whether the server is still there.
    pub(crate) fn suspect(&self) {
        self.shared.suspicion.notify_one();
    }

    /// Listens to a channel, now and after every reconnection. With the connection down, or when the call is
    /// dropped, that is noted and done later, and told as `Up`. A channel that the server refuses is not noted.
    pub(crate) async fn subscribe(&self, channel: &[u8]) -> Result<(), RedisError> {
        // First: a connection that comes up from here on knows of it.
        self.shared.channels().insert(channel.to_vec());
        let unheard = Unanswered(&self.shared.unheard);
        let told = self.hear(cmd("SUBSCRIBE").arg(channel)).await;
        match &told {
            Ok(()) => unheard.was_answered(),
            Err(error) if is_refusal(error) => {
                unheard.was_answered();
                self.shared.channels().remove(channel);
            }
            Err(_) => {}
        }
        told
    }

    /// The same without waiting for it.
    pub(crate) fn subscribe_later(&self, channel: &[u8]) {
        self.shared.channels().insert(channel.to_vec());
        if matches!(*self.shared.state.borrow(), State::Up(_)) {
            self.shared.unheard.notify_one();
        }
    }

    /// Listens no more.
    pub(crate) async fn unsubscribe(&self, channel: &[u8]) -> Result<(), RedisError> {
        self.shared.channels().remove(channel);
        self.hear(cmd("UNSUBSCRIBE").arg(channel)).await
    }

    async fn hear(&self, cmd: &Cmd) -> Result<(), RedisError> {
        let told = self.ask(|pipe| pipe.ask_for_channels(cmd, 1));
        limited(told).await?.extract_error().map(drop)
    }

    /// Gives the connection up, as if it had broken; calls that wait for an answer fail.
    pub(crate) fn give_up(&self) {
        if let State::Up(connection) = &*self.shared.state.borrow() {
            connection.over.notify_one();
        }
    }

    /// The server may be elsewhere by now: if so, the connection is made anew.
    pub(crate) fn look_again(&self) {
        self.shared.doubt.notify_one();
    }

    async fn ask<T, F>(&self, question: impl FnOnce(&Pipe) -> F) -> Result<T, RedisError>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        let pipe = self.connection().await?;
        self.answered(question(&pipe)).await
    }

    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        let unanswered = Unanswered(&self.shared.suspicion);
        let told = answer.await;
        unanswered.was_answered();
        told
    }

    async fn connection(&self) -> Result<Pipe, RedisError> {
        if let State::Up(connection) = &*self.shared.state.borrow() {
            return Ok(connection.pipe.clone());
        }
        Box::pin(self.next_connection()).await
    }

    /// Waits for the outcome of an attempt that is under way.
    async fn next_connection(&self) -> Result<Pipe, RedisError> {
        let mut state = self.shared.state.subscribe();
        let known = state.wait_for(|state| !matches!(state, State::Connecting));
        let known = tokio::time::timeout(LONGEST_CALL, known).await;
        match known.map_err(|_| timed_out())? {
            Ok(state) => match &*state {
                State::Up(connection) => Ok(connection.pipe.clone()),
                State::Down(error) => Err(error.clone()),
                State::Connecting => Err(timed_out()),
            },
            // The sender lives in `self`.
            Err(_) => Err(timed_out()),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.supervisor.abort();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up = matches!(*self.shared.state.borrow(), State::Up(_));
        write!(f, "Link({}, up: {up})", self.shared.node)
    }
}

/// Gives up after the time that no command takes.
pub(crate) async fn limited<T>(
    call: impl Future<Output = Result<T, RedisError>>,
) -> Result<T, RedisError> {
    let told = tokio::time::timeout(LONGEST_CALL, call).await;
    told.unwrap_or_else(|_| Err(timed_out()))
}

/// Dropped before the answer, by a time-out or with its call, it tells the supervisor.
struct Unanswered<'a>(&'a Notify);

impl Unanswered<'_> {
    fn was_answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Whether the server itself said no.
fn is_refusal(error: &RedisError) -> bool {
    !answer::code(error).is_empty()
}

impl Shared {
    fn channels(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
