//! gRPC as etcd speaks it, on HTTP/2 itself. A question leaves in one piece, and its answer is read by whoever
//! asked: the usual client would send it in two or three, each of which wakes the server up, and hand it from task to
//! task.

use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use prost::Message;

use super::keys::decoded;
use super::socket::Member;

/// Before each message: whether it is compressed, and its length.
const PREFIX: usize = 1 + size_of::<u32>();
/// Enough for ten thousand claims in one answer.
const LARGEST_ANSWER: usize = 64 << 20;

/// Why a call failed.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: Code,
    pub(super) said: String,
}

/// The kinds of failure that mean something here, by their numbers in gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Unimplemented,
    Unauthenticated,
    /// Any other, and whatever the connection had.
    Other,
}

impl Failure {
    pub(super) fn other(said: impl Into<String>) -> Self {
        Self {
            code: Code::Other,
            said: said.into(),
        }
    }

    /// What headers say about the end of a call; `None` if they do not say it.
    fn told_by(headers: &HeaderMap) -> Option<Result<(), Self>> {
        let code = match headers.get("grpc-status")?.as_bytes() {
            b"0" => return Some(Ok(())),
            b"3" => Code::InvalidArgument,
            b"5" => Code::NotFound,
            b"7" => Code::PermissionDenied,
            b"8" => Code::ResourceExhausted,
            b"9" => Code::FailedPrecondition,
            b"12" => Code::Unimplemented,
            b"16" => Code::Unauthenticated,
            _ => Code::Other,
        };
        let said = headers.get("grpc-message").map(HeaderValue::as_bytes);
        let said = String::from_utf8_lossy(said.unwrap_or_default());
        let said = decoded(&said).unwrap_or_else(|| said.into_owned());
        Some(Err(Self { code, said }))
    }
}

impl From<h2::Error> for Failure {
    fn from(error: h2::Error) -> Self {
        Self::other(error.to_string())
    }
}

/// A way to one member: connected by the first question, and again by the first one after a break.
#[derive(Debug, Clone)]
pub(super) struct Channel(Arc<Way>);

#[derive(Debug)]
struct Way {
    member: Member,
    connection: Mutex<Option<SendRequest<Bytes>>>,
    /// One connects at a time.
    connecting: tokio::sync::Mutex<()>,
}

impl Channel {
    pub(super) fn to(member: Member) -> Self {
        Self(Arc::new(Way {
            member,
            connection: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }))
    }

    /// Connects, if that has not been done yet.
    pub(super) async fn ready(&self) -> Result<SendRequest<Bytes>, Failure> {
        if let Some(connection) = self.open().await {
            return Ok(connection);
        }
        Box::pin(self.connect()).await
    }

    /// The present connection, unless it has ended.
    async fn open(&self) -> Option<SendRequest<Bytes>> {
        let connection = self.0.connection.lock();
        let connection = connection.unwrap_or_else(PoisonError::into_inner).clone();
        connection?.ready().await.ok()
    }

    async fn connect(&self) -> Result<SendRequest<Bytes>, Failure> {
        let _one_connects = self.0.connecting.lock().await;
        if let Some(connection) = self.open().await {
            return Ok(connection);
        }
        let connection = self.0.member.connect().await?;
        let known = self.0.connection.lock();
        *known.unwrap_or_else(PoisonError::into_inner) = Some(connection.clone());
        Ok(connection.ready().await?)
    }

    fn request(
        &self,
        method: &'static str,
        mut headers: HeaderMap,
    ) -> Result<Request<()>, Failure> {
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let member = &self.0.member;
        let uri = Uri::builder()
            .scheme(member.scheme())
            .authority(member.authority.clone())
            .path_and_query(PathAndQuery::from_static(method))
            .build();
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = uri.map_err(|error| Failure::other(error.to_string()))?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    /// Asks; an answer is one only once the server has said that all went well.
    pub(super) async fn ask<A: Message + Default>(
        &self,
        method: &'static str,
        headers: HeaderMap,
        question: &impl Message,
    ) -> Result<A, Failure> {
        let request = self.request(method, headers)?;
        let question = framed(question);
        let mut connection = self.ready().await?;
        let (answer, mut outgoing) = connection.send_request(request, false)?;
        outgoing.send_data(question, true)?;
        let mut inbox = Inbox::of(answer.await?)?;
        let message = poll_fn(|cx| inbox.poll(cx)).await?;
        let message = message.ok_or_else(|| Failure::other("the answer is empty"))?;
        match poll_fn(|cx| inbox.poll::<A>(cx)).await? {
            None => Ok(message),
            Some(_) => Err(Failure::other("there is more than one answer")),
        }
    }

    /// Opens a stream in both directions; it does so when it is first listened to.
    pub(super) fn stream<Q, A>(&self, method: &'static str, headers: HeaderMap) -> Stream<Q, A> {
        let channel = self.clone();
        let opening = async move {
            let request = channel.request(method, headers)?;
            let mut connection = channel.ready().await?;
            Ok(connection.send_request(request, false)?)
        };
        Stream {
            state: State::Opening(Box::pin(opening)),
            outgoing: Err(Vec::new()),
            messages: PhantomData,
        }
    }
}

fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = Vec::with_capacity(PREFIX + length);
    frame.put_u8(0);
    // The server takes no more than a few megabytes.
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    let _a_vector_has_room = message.encode(&mut frame);
    frame.into()
}

/// What comes in answer to a question or on a stream.
struct Inbox {
    body: RecvStream,
    /// What has come and is not a whole message yet.
    unread: BytesMut,
}

impl Inbox {
    fn of(answer: Response<RecvStream>) -> Result<Self, Failure> {
        if let Some(Err(failure)) = Failure::told_by(answer.headers()) {
            return Err(failure);
        }
        match answer.status() {
            StatusCode::OK => Ok(Self {
                body: answer.into_body(),
                unread: BytesMut::new(),
            }),
            // Something between us and the server.
            status => Err(Failure::other(format!("answered by HTTP status {status}"))),
        }
    }

    /// The next message; `None` when the server has said that all went well.
    fn poll<A: Message + Default>(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<A>, Failure>> {
        loop {
            if let Some(message) = self.first()? {
                return Poll::Ready(Ok(Some(message)));
            }
            match ready!(self.body.poll_data(cx)) {
                Some(piece) => {
                    let piece = piece?;
                    self.body.flow_control().release_capacity(piece.len())?;
                    self.unread.extend_from_slice(&piece);
                }
                None => {
                    let trailers = ready!(self.body.poll_trailers(cx))?;
                    let end = trailers.as_ref().and_then(Failure::told_by);
                    let cut = || Err(Failure::other("the answer has no end"));
                    return Poll::Ready(end.unwrap_or_else(cut).map(|()| None));
                }
            }
        }
    }

    /// The first of the messages that have come.
    fn first<A: Message + Default>(&mut self) -> Result<Option<A>, Failure> {
        let Some((prefix, rest)) = self.unread.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let [compressed, length @ ..] = *prefix;
        let length = u32::from_be_bytes(length) as usize;
        if compressed != 0 || length > LARGEST_ANSWER {
            return Err(Failure::other("the answer makes no sense"));
        }
        let Some(message) = rest.get(..length) else {
            return Ok(None);
        };
        let message = A::decode(message).map_err(|error| Failure::other(error.to_string()))?;
        self.unread.advance(PREFIX + length);
        Ok(Some(message))
    }
}

/// Messages in both directions, for as long as it lives.
pub(super) struct Stream<Q, A> {
    state: State,
    /// Or what will be sent when it is open.
    outgoing: Result<SendStream<Bytes>, Vec<Bytes>>,
    messages: PhantomData<fn(Q) -> A>,
}

enum State {
    Opening(Pin<Box<dyn Future<Output = Result<Begun, Failure>> + Send>>),
    /// The server begins its half when it has something to say.
    Open(ResponseFuture),
    Answered(Inbox),
}

type Begun = (ResponseFuture, SendStream<Bytes>);

impl<Q: Message, A: Message + Default> Stream<Q, A> {
    /// Sends. That this cannot be done any more is told by [`Self::next`].
    pub(super) fn send(&mut self, message: &Q) {
        let message = framed(message);
        match &mut self.outgoing {
            Ok(outgoing) => {
                let _told_by_next = outgoing.send_data(message, false);
            }
            Err(unsent) => unsent.push(message),
        }
    }

    /// The next message, or why there is none. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<A, Failure> {
        let message = poll_fn(|cx| self.poll(cx)).await?;
        message.ok_or_else(|| Failure::other("the server has ended the stream"))
    }

    /// It is open: what has to be sent is sent by this.
    fn send_by(&mut self, mut outgoing: SendStream<Bytes>) -> Result<(), h2::Error> {
        if let Err(unsent) = &mut self.outgoing {
            let mut unsent = unsent.drain(..);
            unsent.try_for_each(|message| outgoing.send_data(message, false))?;
        }
        self.outgoing = Ok(outgoing);
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<A>, Failure>> {
        loop {
            self.state = match &mut self.state {
                State::Opening(opening) => {
                    let (answer, outgoing) = ready!(opening.as_mut().poll(cx))?;
                    self.send_by(outgoing)?;
                    State::Open(answer)
                }
                State::Open(answer) => {
                    State::Answered(Inbox::of(ready!(Pin::new(answer).poll(cx))?)?)
                }
                State::Answered(inbox) => return inbox.poll(cx),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::backends::etcd::proto::LeaseId;

    const METHOD: &str = "/a.Service/Method";

    /// How a server answers one question.
    struct Answer {
        status: u16,
        /// Each in a frame of its own.
        pieces: Vec<Vec<u8>>,
        trailers: &'static [(&'static str, &'static str)],
    }

    const FINE: &[(&str, &str)] = &[("grpc-status", "0")];

    fn answer(pieces: &[&[u8]]) -> Answer {
        Answer {
            status: 200,
            pieces: pieces.iter().map(|piece| piece.to_vec()).collect(),
            trailers: FINE,
        }
    }

    /// A server that answers each connection's one question in the next of these ways, and hangs up.
    async fn server(answers: Vec<Answer>) -> Channel {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let member = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            for answer in answers {
                let (socket, _) = listener.accept().await.unwrap();
                let mut connection = h2::server::handshake(socket).await.unwrap();
                let (_question, mut reply) = connection.accept().await.unwrap().unwrap();
                let head = Response::builder().status(answer.status);
                let mut body = reply.send_response(head.body(()).unwrap(), false).unwrap();
                for piece in answer.pieces {
                    body.send_data(piece.into(), false).unwrap();
                }
                let named = |(name, value): &(&'static str, &'static str)| {
                    let value = HeaderValue::from_static(value);
                    (http::HeaderName::from_static(name), value)
                };
                let trailers = answer.trailers.iter().map(named).collect();
                body.send_trailers(trailers).unwrap();
                connection.graceful_shutdown();
                while connection.accept().await.is_some() {}
            }
        });
        Channel::to(Member::new(&member, None).unwrap())
    }

    async fn asked(channel: &Channel) -> Result<LeaseId, Failure> {
        let question = LeaseId { id: 1 };
        channel.ask(METHOD, HeaderMap::new(), &question).await
    }

    #[tokio::test]
    async fn an_answer_may_come_in_pieces_and_every_connection_is_made_anew() {
        let whole = framed(&LeaseId { id: 300 });
        let pieces: Vec<&[u8]> = whole.chunks(1).collect();
        let channel = server(vec![answer(&[&whole]), answer(&pieces), answer(&[&whole])]).await;
        for _ in 0..3 {
            assert_eq!(asked(&channel).await.unwrap().id, 300);
            // The server's farewell is on its way.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    #[tokio::test]
    async fn what_is_no_answer_is_a_failure() {
        let whole = framed(&LeaseId { id: 300 });
        let said = |status, trailers| Answer {
            status,
            trailers,
            ..answer(&[&whole])
        };
        let cases = [
            (answer(&[]), "empty"),
            (answer(&[&whole, &whole]), "more than one"),
            (answer(&[&[1, 0, 0, 0, 0]]), "no sense"),
            (answer(&[&[0, 255, 255, 255, 255]]), "no sense"),
            (answer(&[&[0, 0, 0, 0, 1, 8]]), "varint"),
            (said(502, FINE), "502"),
            (said(200, &[]), "no end"),
            (said(200, &[("grpc-status", "nonsense")]), ""),
        ];
        for (answer, words) in cases {
            let channel = server(vec![answer]).await;
            let failure = asked(&channel).await.unwrap_err();
            assert_eq!(failure.code, Code::Other, "{words}");
            assert!(failure.said.contains(words), "{words}: {failure:?}");
        }
        // What is said at the end counts, whatever came before.
        let refused = &[("grpc-status", "5"), ("grpc-message", "a%20b%")];
        let channel = server(vec![said(200, refused)]).await;
        let failure = asked(&channel).await.unwrap_err();
        assert_eq!((failure.code, &*failure.said), (Code::NotFound, "a%20b%"));
    }

    #[tokio::test]
    async fn a_server_that_hangs_up_is_no_answer() {
        let channel = server(Vec::new()).await;
        let failure = asked(&channel).await.unwrap_err();
        assert_eq!(failure.code, Code::Other);
    }
}
