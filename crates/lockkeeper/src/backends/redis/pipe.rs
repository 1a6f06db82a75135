//! One connection's questions and answers: whoever asks puts its question behind those of others, one task reads
//! and gives each answer to the oldest question.
//!
//! The client library has such a thing too. This one is there because it is on the way of every lock: a lone
//! question is written by whoever asks it, without another task in between; questions of many who ask at once go out in one
//! piece; and an answer is read without a stack of adapters. A dropped question keeps its place, so that no answer is
//! ever given to another one's question.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use futures_util::task::AtomicWaker;
use redis::{RedisError, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::oneshot;

use super::counters::Counters;
use super::packed::Pack;
use super::reply::{self, Frame, Said};

/// What is read at once at most.
const PIECE: usize = 16 * 1024;
/// So many answers at once may be one caller's.
const FEW: usize = 2;
/// So much is worth a system call of its own: about ten questions.
const ENOUGH_UNSENT: usize = 2048;
/// So much that a server has not taken yet is too much: it does not read.
const MOST_UNSENT: usize = 16 * 1024 * 1024;

/// The asking end of a connection.
#[derive(Clone)]
pub(super) struct Pipe(Arc<Shared>);

struct Shared {
    counters: Counters,
    traffic: Mutex<Traffic>,
    /// Rung when there is something to write that nobody has written.
    mover: AtomicWaker,
}

struct Traffic {
    /// Gone when the connection is over.
    writer: Option<Writer>,
    /// What the system has not taken yet.
    unsent: Vec<u8>,
    /// In the order in which they were asked.
    questions: VecDeque<Question>,
    /// Whether many answers came at once: then more than one is asking, and it is better to write together.
    crowded: bool,
}

struct Question {
    /// How many channels are still to be confirmed, which are answered by pushes.
    channels: usize,
    tell: Tell,
}

/// Who gets an answer.
enum Tell {
    Nobody,
    Caller(oneshot::Sender<Value>),
}

/// The writing end of a connection.
pub(super) enum Writer {
    /// Whoever asks may write at once.
    Plain(OwnedWriteHalf),
    /// Only the task that moves the bytes can.
    Wrapped(Box<dyn AsyncWrite + Send + Unpin>),
}

/// Hears what nobody asked for: a channel, and what was published there.
pub(super) type Ear = Box<dyn Fn(&[u8], &[u8]) + Send + Sync>;

/// The future that moves the bytes. Dropping it ends the connection.
pub(super) type Mover = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes a pipe of the two ends of a connection; somebody must run the mover.
pub(super) fn pipe(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: Writer,
    ear: Ear,
) -> (Pipe, Mover) {
    let shared = Arc::new(Shared {
        counters: Counters::default(),
        traffic: Mutex::new(Traffic {
            writer: Some(writer),
            unsent: Vec::new(),
            questions: VecDeque::new(),
            crowded: false,
        }),
        mover: AtomicWaker::new(),
    });
    let mut moving = Moving {
        shared: shared.clone(),
        reader,
        unread: Vec::with_capacity(PIECE),
        incomplete: None,
        answers: Vec::new(),
        ear,
    };
    let mover = async move {
        // Why it is over does not matter: all questions get the same answer.
        let _over = poll_fn(|cx| moving.poll(cx)).await;
    };
    (Pipe(shared), Box::pin(mover))
}

impl Pipe {
    /// What is known of the server's counters by way of this connection.
    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// Asks; the question is under way before the answer is awaited. A server's refusal is a
    /// [`Value::ServerError`].
    pub(super) fn ask(&self, cmd: &impl Pack) -> Answer {
        self.put(|traffic| traffic.add(cmd, 0))
    }

    /// The same, and the question is on its way when this returns, whoever else is asking.
    pub(super) fn ask_at_once(&self, cmd: &impl Pack) -> Answer {
        let mut traffic = self.0.traffic();
        let answer = traffic.add(cmd, 0);
        let written = traffic.write_now();
        drop(traffic);
        self.0.finish(written);
        answer
    }

    /// Asks several questions in one piece.
    pub(super) fn ask_all(&self, cmds: &[impl Pack]) -> Vec<Answer> {
        self.put(|traffic| cmds.iter().map(|cmd| traffic.add(cmd, 0)).collect())
    }

    /// Asks, and has the server tell others before us: it writes to its clients in the opposite order to that in which it
    /// first had something for them, and has something for us, which nobody waits for, before it does what it is asked.
    pub(super) fn ask_behind(&self, first: &impl Pack, cmd: &impl Pack) -> Answer {
        self.put(|traffic| {
            let (tell, answer) = answer();
            traffic.put_both((first, Tell::Nobody), (cmd, Tell::Caller(tell)));
            answer
        })
    }

    /// Asks to hear so many channels, or to hear them no longer.
    pub(super) fn ask_for_channels(&self, cmd: &impl Pack, channels: usize) -> Answer {
        self.put(|traffic| traffic.add(cmd, channels))
    }

    fn put<T>(&self, add: impl FnOnce(&mut Traffic) -> T) -> T {
        let mut traffic = self.0.traffic();
        let lone = traffic.questions.is_empty() && !traffic.crowded;
        let answers = add(&mut traffic);
        // Where many ask at once, the server shall begin with the first of them while the last are still asking.
        let enough = traffic.unsent.len() >= ENOUGH_UNSENT;
        let written = (lone || enough) && traffic.write_now();
        drop(traffic);
        self.0.finish(written);
        answers
    }
}

/// The answer to a question, when it comes.
#[derive(Debug)]
pub(super) struct Answer<T = Value>(oneshot::Receiver<T>);

fn answer<T>() -> (oneshot::Sender<T>, Answer<T>) {
    let (tell, told) = oneshot::channel();
    (tell, Answer(told))
}

impl<T> Future for Answer<T> {
    type Output = Result<T, RedisError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let told = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(told.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe).into()))
    }
}

impl Shared {
    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is not written yet is the mover's.
    fn finish(&self, written: bool) {
        if !written {
            self.mover.wake();
        }
    }
}

impl Traffic {
    /// Puts a question behind the others; a connection that is over, or takes nothing any more, gives no answer.
    fn add(&mut self, cmd: &impl Pack, channels: usize) -> Answer {
        let (tell, answer) = answer();
        if self.takes_more() {
            self.put(cmd, channels, Tell::Caller(tell));
        }
        answer
    }

    /// The same for two questions: both or none.
    fn put_both(&mut self, first: (&impl Pack, Tell), second: (&impl Pack, Tell)) {
        if self.takes_more() {
            self.put(first.0, 0, first.1);
            self.put(second.0, 0, second.1);
        }
    }

    fn takes_more(&self) -> bool {
        self.writer.is_some() && self.unsent.len() < MOST_UNSENT
    }

    fn put(&mut self, cmd: &impl Pack, channels: usize, tell: Tell) {
        self.questions.push_back(Question { channels, tell });
        cmd.write(&mut self.unsent);
    }

    /// Writes what there is, if that can be done on the spot; false if something is left for the mover.
    fn write_now(&mut self) -> bool {
        let Some(Writer::Plain(socket)) = &self.writer else {
            return false;
        };
        // An error is the mover's to find.
        let written = socket.try_write(&self.unsent).unwrap_or(0);
        self.unsent.drain(..written);
        self.unsent.is_empty()
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let writer = self.writer.as_mut().ok_or_else(gone)?;
        match writer {
            Writer::Plain(socket) => poll_write_all(socket, &mut self.unsent, cx),
            Writer::Wrapped(stream) => poll_write_all(stream, &mut self.unsent, cx),
        }
    }
}

fn poll_write_all(
    writer: &mut (impl AsyncWrite + Unpin),
    unsent: &mut Vec<u8>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while !unsent.is_empty() {
        match ready!(Pin::new(&mut *writer).poll_write(cx, unsent))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            written => drop(unsent.drain(..written)),
        }
    }
    Pin::new(writer).poll_flush(cx)
}

/// What moves the bytes, from the first to the last.
struct Moving<R> {
    shared: Arc<Shared>,
    reader: R,
    /// What has come and is not a whole answer yet.
    unread: Vec<u8>,
    /// How far the reply at the start of `unread` has been scanned, if it arrives in pieces.
    incomplete: Option<Frame>,
    /// Room for answers that have come and were not given yet.
    answers: Vec<(Value, usize)>,
    ear: Ear,
}

impl<R: AsyncRead + Unpin> Moving<R> {
    /// Ready when the connection is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Before looking what there is to write: who asks from here on rings again.
        self.shared.mover.register(cx.waker());
        while let Poll::Ready(read) = self.poll_read(cx)? {
            if read == 0 {
                return Poll::Ready(Ok(()));
            }
            self.hand_out()?;
        }
        let mut traffic = self.shared.traffic();
        match traffic.poll_write(cx)? {
            Poll::Ready(()) | Poll::Pending => Poll::Pending,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.unread.reserve(PIECE);
        pin!(self.reader.read_buf(&mut self.unread)).poll(cx)
    }

    /// Gives the answers that have come to those who asked, and tells the ear what was said besides, in the order in
    /// which it came: who has just been told to wait may be let in by the next word.
    fn hand_out(&mut self) -> io::Result<()> {
        if let Some(frame) = &mut self.incomplete {
            if !frame.is_complete(&self.unread).map_err(nonsense)? {
                return Ok(());
            }
            self.incomplete = None;
        }
        let (mut count, mut at) = (0, 0);
        while let Some((said, length)) = reply::first(&self.unread[at..]).map_err(nonsense)? {
            at += length;
            count += 1;
            match said {
                Said::Answer(value) => self.answers.push((value, 0)),
                Said::Push(push) => match heard(&push) {
                    Heard::Message { channel, payload } => {
                        self.shared.traffic().give(self.answers.drain(..))?;
                        (self.ear)(channel, payload);
                    }
                    // That a channel is heard, or not any more, is an answer.
                    Heard::Confirmation => self.answers.push((Value::Okay, 1)),
                    Heard::Else => {}
                },
            }
        }
        self.unread.drain(..at);
        if !self.unread.is_empty() {
            let frame = self.incomplete.insert(Frame::default());
            frame.is_complete(&self.unread).map_err(nonsense)?;
        }
        let mut traffic = self.shared.traffic();
        traffic.crowded = count > FEW;
        traffic.give(self.answers.drain(..))
    }
}

/// What a server says without being asked.
enum Heard<'a> {
    Message {
        channel: &'a [u8],
        payload: &'a [u8],
    },
    Confirmation,
    Else,
}

fn heard(push: &[Value]) -> Heard<'_> {
    let bytes = |place: usize| match push.get(place) {
        Some(Value::BulkString(bytes)) => bytes.as_slice(),
        _ => &[],
    };
    match bytes(0) {
        b"message" => Heard::Message {
            channel: bytes(1),
            payload: bytes(2),
        },
        b"subscribe" | b"unsubscribe" => Heard::Confirmation,
        _ => Heard::Else,
    }
}

fn nonsense(_: reply::Nonsense) -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl Traffic {
    fn give(&mut self, answers: impl Iterator<Item = (Value, usize)>) -> io::Result<()> {
        for (value, channels) in answers {
            self.answer(value, channels).map_err(nonsense)?;
        }
        Ok(())
    }

    /// The next answer; `channels` of those that were asked for are confirmed by it.
    fn answer(&mut self, value: Value, channels: usize) -> Result<(), reply::Nonsense> {
        let question = self.questions.front_mut().ok_or(reply::Nonsense)?;
        // A refusal is one for all channels.
        if question.channels > channels {
            if channels > 0 {
                question.channels -= channels;
                return Ok(());
            }
        } else if question.channels < channels {
            return Err(reply::Nonsense);
        }
        match self.questions.pop_front().map(|question| question.tell) {
            Some(Tell::Caller(tell)) => {
                let _nobody_waits = tell.send(value);
            }
            Some(Tell::Nobody) | None => {}
        }
        Ok(())
    }
}

impl<R> Drop for Moving<R> {
    fn drop(&mut self) {
        let mut traffic = self.shared.traffic();
        let (writer, questions) = (
            traffic.writer.take(),
            std::mem::take(&mut traffic.questions),
        );
        traffic.unsent = Vec::new();
        drop(traffic);
        // Whoever waits is told by this.
        drop(questions);
        // No farewell: what was not sent must not arrive any more.
        if let Some(Writer::Plain(socket)) = writer {
            socket.forget();
        }
    }
}
