//! The state of a session that its users and its task share: what was asked and not answered yet, what is to be
//! written, who listens. Requests are carried out in the order in which they are sent here.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};

use super::error::Error;
use super::record::{self, Frame, Op, Reader};
use super::socket::Sink;
use super::watches::{self, Event, Watcher, Watches};
use crate::lifecycle::deadline::{Clock, Moment};

/// So long may a request be that sets watches anew.
const LONGEST_LIST: usize = 128 << 10;

/// Whether the session can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum State {
    Connected,
    /// It may live on; a connection is tried for.
    Disconnected,
    Over,
}

/// The bytes of an answer.
pub(super) type Answer = Result<Vec<u8>, Error>;

#[derive(Debug)]
enum Asker {
    One(oneshot::Sender<Answer>),
    /// Its answer sets this watch.
    Watcher(oneshot::Sender<Answer>, String, u64),
    /// Its answer sets these.
    Watchers(oneshot::Sender<Answer>, Vec<(String, u64)>),
    /// Nobody waits for it.
    Nobody,
    /// The last one of all.
    Close,
}

#[derive(Debug)]
struct Asked {
    number: i32,
    asker: Asker,
}

/// Pings have no numbers; they are answered in order.
#[derive(Debug)]
struct Pinged {
    at: Moment,
    tell: Vec<oneshot::Sender<Result<Moment, Error>>>,
}

#[derive(Debug)]
pub(super) struct Link {
    pub(super) clock: Clock,
    pub(super) state: watch::Sender<State>,
    /// There is something to write.
    pub(super) work: Notify,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    sink: Option<Sink>,
    /// Why there will be no connection any more.
    over: Option<Error>,
    closing: bool,
    pub(super) out: Vec<u8>,
    number: i32,
    asked: VecDeque<Asked>,
    /// Asked while there is no connection.
    queued: VecDeque<(Frame, Asker)>,
    pinged: VecDeque<Pinged>,
    to_ping: Vec<oneshot::Sender<Result<Moment, Error>>>,
    watches: Watches,
    pub(super) last_zxid: i64,
    pub(super) last_sent: Moment,
}

impl Link {
    pub(super) fn new(clock: Clock) -> Self {
        let last_sent = clock.now();
        Self {
            clock,
            state: watch::channel(State::Disconnected).0,
            work: Notify::new(),
            inner: Mutex::new(Inner {
                sink: None,
                over: None,
                closing: false,
                out: Vec::new(),
                number: 0,
                asked: VecDeque::new(),
                queued: VecDeque::new(),
                pinged: VecDeque::new(),
                to_ping: Vec::new(),
                watches: Watches::default(),
                last_zxid: 0,
                last_sent,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is made of steps that cannot panic half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request; its answer comes this way.
    pub(super) fn ask(&self, frame: Frame) -> oneshot::Receiver<Answer> {
        let (tell, told) = oneshot::channel();
        self.send(&mut self.lock(), frame, Asker::One(tell));
        told
    }

    /// Sends a request that sets a watch on the path.
    pub(super) fn ask_and_watch(
        self: &Arc<Self>,
        frame: Frame,
        path: &str,
    ) -> (oneshot::Receiver<Answer>, Watcher) {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        let asked = inner.watches.ask(path);
        let watcher = self.watcher(asked, path);
        let asker = Asker::Watcher(tell, path.to_owned(), watcher.id);
        self.send(&mut inner, frame, asker);
        (told, watcher)
    }

    fn watcher(self: &Arc<Self>, asked: watches::Asked, path: &str) -> Watcher {
        Watcher {
            link: Arc::downgrade(self),
            path: path.to_owned(),
            id: asked.id,
            told: asked.told,
            ear: asked.ear,
            over: false,
        }
    }

    /// Sets watches on all of these nodes by one request, as after a lost connection: whatever happened to them since the
    /// last answer is told.
    pub(super) fn watch_all(
        self: &Arc<Self>,
        paths: &[String],
    ) -> (oneshot::Receiver<Answer>, Vec<Watcher>) {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        if inner.sink.is_none() {
            let _nobody_waits = tell.send(Err(Error::ConnectionLoss));
            return (told, Vec::new());
        }
        let watchers = paths.iter().map(|path| {
            let asked = inner.watches.ask_for_news(path);
            self.watcher(asked, path)
        });
        let watchers: Vec<Watcher> = watchers.collect();
        let ids = watchers.iter().map(|one| (one.path.clone(), one.id));
        let asker = Asker::Watchers(tell, ids.collect());
        let number = record::SET_WATCHES;
        inner.asked.push_back(Asked { number, asker });
        let texts: Vec<&str> = paths.iter().map(String::as_str).collect();
        let frame = set_watches(inner.last_zxid, &texts);
        self.write(&mut inner, &frame);
        (told, watchers)
    }

    /// Asks the server for a sign of life; tells when the question was sent.
    pub(super) fn ping(&self) -> oneshot::Receiver<Result<Moment, Error>> {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        if let Some(error) = &inner.over {
            let _nobody_waits = tell.send(Err(error.clone()));
        } else {
            inner.to_ping.push(tell);
            self.send_pings(&mut inner);
        }
        told
    }

    pub(super) fn unwatch(&self, path: &str, id: u64) {
        let mut inner = self.lock();
        if inner.watches.remove(path, id) {
            self.forget_watch(&mut inner, path);
        }
    }

    /// Nobody listens to the path any more.
    fn forget_watch(&self, inner: &mut Inner, path: &str) {
        const DATA: i32 = 2;
        // What is not connected sets no watch anew that nobody wants.
        if inner.sink.is_some() {
            let frame = Frame::asking(Op::RemoveWatches).text(path).int(DATA);
            self.send(inner, frame, Asker::Nobody);
        }
    }

    /// No user is left: the session is to end, and its nodes with it.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closing = true;
        if inner.sink.is_some() {
            let frame = Frame::asking(Op::CloseSession);
            self.send(&mut inner, frame, Asker::Close);
        }
        self.work.notify_one();
    }

    fn send(&self, inner: &mut Inner, frame: Frame, asker: Asker) {
        if let Some(error) = inner.over.clone() {
            return inner.fail(asker, &error);
        }
        if inner.sink.is_none() {
            return inner.queued.push_back((frame, asker));
        }
        // Never one of those that mean something else.
        inner.number = inner.number.checked_add(1).unwrap_or(1);
        let number = inner.number;
        inner.asked.push_back(Asked { number, asker });
        self.write(inner, &frame.numbered(number));
    }

    /// Whoever is alone writes at once; of several, one after the other asks and the session's task writes for all.
    fn write(&self, inner: &mut Inner, bytes: &[u8]) {
        inner.last_sent = self.clock.now();
        let alone = inner.asked.len() + inner.pinged.len() <= 1 && inner.out.is_empty();
        let written = match &inner.sink {
            Some(sink) if alone => sink.write_now(bytes),
            _ => 0,
        };
        if written < bytes.len() {
            inner.out.extend_from_slice(&bytes[written..]);
            self.work.notify_one();
        }
    }

    fn send_pings(&self, inner: &mut Inner) {
        if inner.sink.is_none() || inner.to_ping.is_empty() {
            return;
        }
        let tell = std::mem::take(&mut inner.to_ping);
        self.send_ping(inner, tell);
    }

    fn send_ping(&self, inner: &mut Inner, tell: Vec<oneshot::Sender<Result<Moment, Error>>>) {
        let at = self.clock.now();
        inner.pinged.push_back(Pinged { at, tell });
        self.write(inner, &Frame::asking(Op::Ping).numbered(record::PING));
    }

    /// Keeps the session alive when nobody else does.
    pub(super) fn ping_if_idle(&self, since: Duration) {
        let mut inner = self.lock();
        if inner.pinged.is_empty() && self.clock.now() - inner.last_sent >= since {
            self.send_ping(&mut inner, Vec::new());
        }
    }

    /// There is a connection: watches are set anew, then everything is sent that was asked for meanwhile.
    pub(super) fn connected(&self, sink: Sink) {
        let mut inner = self.lock();
        inner.sink = Some(sink);
        inner.out.clear();
        let (zxid, paths) = (inner.last_zxid, inner.watched());
        for some in paths {
            let some: Vec<&str> = some.iter().map(String::as_str).collect();
            let (number, asker) = (record::SET_WATCHES, Asker::Nobody);
            inner.asked.push_back(Asked { number, asker });
            inner.out.extend(set_watches(zxid, &some));
        }
        for (frame, asker) in std::mem::take(&mut inner.queued) {
            self.send(&mut inner, frame, asker);
        }
        self.send_pings(&mut inner);
        if inner.closing {
            self.send(&mut inner, Frame::asking(Op::CloseSession), Asker::Close);
        }
        inner.last_sent = self.clock.now();
        drop(inner);
        self.state.send_replace(State::Connected);
        self.work.notify_one();
    }

    /// The connection is lost: what was asked may or may not have been done.
    pub(super) fn disconnected(&self, why: &Error) {
        let mut inner = self.lock();
        inner.sink = None;
        inner.out.clear();
        inner.fail_asked(why);
        inner.watches.disconnected();
        drop(inner);
        self.state.send_replace(State::Disconnected);
    }

    pub(super) fn end(&self, why: &Error) {
        let mut inner = self.lock();
        inner.sink = None;
        inner.over = Some(why.clone());
        inner.fail_asked(why);
        for (_, asker) in std::mem::take(&mut inner.queued) {
            inner.fail(asker, why);
        }
        for tell in std::mem::take(&mut inner.to_ping) {
            let _nobody_waits = tell.send(Err(why.clone()));
        }
        inner.watches.end();
        drop(inner);
        self.state.send_replace(State::Over);
    }

    /// Takes in all whole frames of what was received; tells how much that was.
    pub(super) fn take_in(&self, received: &[u8]) -> Result<usize, Error> {
        let mut inner = self.lock();
        let mut used = 0;
        while let Some((frame, length)) = record::first_frame(&received[used..])? {
            self.answered(&mut inner, frame)?;
            used += length;
        }
        Ok(used)
    }

    fn answered(&self, inner: &mut Inner, frame: &[u8]) -> Result<(), Error> {
        let mut reader = Reader(frame);
        let (number, zxid, code) = (reader.int()?, reader.long()?, reader.int()?);
        let told = Error::of_code(code);
        match (number, told) {
            (_, Err(error)) if error.is_final() => Err(error),
            (record::NOTICE, _) => {
                let (kind, _state, path) = (reader.int()?, reader.int()?, reader.text()?);
                const DELETED: i32 = 2;
                let event = match kind {
                    DELETED => Event::Deleted,
                    _ => Event::Changed,
                };
                inner.watches.fire(&path, event);
                Ok(())
            }
            (record::PING, _) => {
                let pinged = inner.pinged.pop_front().ok_or(Error::Garbled)?;
                for tell in pinged.tell {
                    let _nobody_waits = tell.send(Ok(pinged.at));
                }
                Ok(())
            }
            (record::AUTH, told) => told,
            (number, told) => {
                if number > 0 {
                    inner.last_zxid = inner.last_zxid.max(zxid);
                }
                let asked = inner.asked.pop_front().ok_or(Error::Garbled)?;
                if asked.number != number {
                    inner.fail(asked.asker, &Error::ConnectionLoss);
                    return Err(Error::Garbled);
                }
                self.tell(inner, asked.asker, told.map(|()| reader.0.to_vec()))
            }
        }
    }

    fn tell(&self, inner: &mut Inner, asker: Asker, answer: Answer) -> Result<(), Error> {
        let tell = match asker {
            Asker::One(tell) => tell,
            Asker::Nobody => return Ok(()),
            Asker::Close => return Err(Error::Closed),
            Asker::Watcher(tell, path, id) => {
                // Of a node that is not there the server would tell when it comes to be.
                let wanted = match &answer {
                    Ok(_) | Err(Error::NoNode) => inner.watches.set(&path, id),
                    Err(_) => true,
                };
                let dropped = answer.is_err() && inner.watches.remove(&path, id);
                if dropped || !wanted {
                    self.forget_watch(inner, &path);
                }
                tell
            }
            Asker::Watchers(tell, watches) => {
                for (path, id) in watches {
                    let wanted = answer.is_err() || inner.watches.set(&path, id);
                    if answer.is_err() {
                        inner.watches.remove(&path, id);
                    } else if !wanted {
                        self.forget_watch(inner, &path);
                    }
                }
                tell
            }
        };
        let _nobody_waits = tell.send(answer);
        Ok(())
    }
}

impl Inner {
    fn fail(&mut self, asker: Asker, why: &Error) {
        let tell = match asker {
            Asker::One(tell) => tell,
            Asker::Watcher(tell, path, id) => {
                self.watches.remove(&path, id);
                tell
            }
            Asker::Watchers(tell, watches) => {
                for (path, id) in watches {
                    self.watches.remove(&path, id);
                }
                tell
            }
            Asker::Nobody | Asker::Close => return,
        };
        let _nobody_waits = tell.send(Err(why.clone()));
    }

    fn fail_asked(&mut self, why: &Error) {
        for asked in std::mem::take(&mut self.asked) {
            self.fail(asked.asker, why);
        }
        for pinged in self.pinged.drain(..) {
            for tell in pinged.tell {
                let _nobody_waits = tell.send(Err(why.clone()));
            }
        }
    }

    /// All paths that are listened to, in parts that fit a request. Those that somebody has only asked to listen to
    /// since the connection was lost are among them, which does no harm: their questions follow.
    fn watched(&self) -> Vec<Vec<String>> {
        let mut parts: Vec<Vec<String>> = Vec::new();
        let mut length = 0;
        for path in self.watches.paths() {
            length += path.len() + 4;
            if parts.is_empty() || length > LONGEST_LIST {
                parts.push(Vec::new());
                length = path.len() + 4;
            }
            if let Some(part) = parts.last_mut() {
                part.push(path.to_owned());
            }
        }
        parts
    }
}

/// Sets watches on nodes that were there at this transaction.
fn set_watches(zxid: i64, paths: &[&str]) -> Vec<u8> {
    let frame = Frame::asking(Op::SetWatches).long(zxid);
    let frame = frame.texts(paths).texts(&[]).texts(&[]);
    frame.numbered(record::SET_WATCHES)
}
