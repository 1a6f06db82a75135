//! One question and its one answer. tonic would end a question with an empty frame of its own, which is one more
//! write here and one more wake-up there; here the frame that carries the question says that it is the last one.

use std::future::poll_fn;

use http_body_util::Full;
use prost::Message;
use prost::bytes::{BufMut, Bytes};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::{CONTENT_TYPE, HeaderValue, TE};
use tonic::codegen::http::{HeaderMap, Method, Request, Response, Uri, Version};
use tonic::transport::{Channel, Error};
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstDecoder;

/// Before each message: whether it is compressed, and its length.
const PREFIX: usize = 1 + size_of::<u32>();

/// Asks; an answer is one only once the server has said that all went well.
pub(super) async fn unary<A>(
    mut channel: Channel,
    question: Request<Body>,
    largest_answer: usize,
) -> Result<A, Status>
where
    A: Message + Default + 'static,
{
    poll_fn(|context| channel.poll_ready(context))
        .await
        .map_err(not_ready)?;
    let answer = channel.call(question).await;
    let answer = answer.map_err(|error| Status::from_error(error.into()))?;
    let mut answer = opened(answer, largest_answer)?;
    let message = answer.message().await?;
    let message = message.ok_or_else(|| Status::internal("the answer is empty"))?;
    answer.trailers().await?;
    Ok(message)
}

/// The question as it is sent.
pub(super) fn request(
    method: &'static str,
    question: &impl Message,
    mut headers: HeaderMap,
) -> Request<Body> {
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let mut request = Request::new(Body::new(Full::new(framed(question))));
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = Uri::from_static(method);
    *request.headers_mut() = headers;
    request
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

fn opened<A>(answer: Response<Body>, largest: usize) -> Result<Streaming<A>, Status>
where
    A: Message + Default + 'static,
{
    let decoder = ProstDecoder::<A>::default();
    match Status::from_header_map(answer.headers()) {
        Some(status) if status.code() != Code::Ok => Err(status),
        Some(_) => Ok(Streaming::new_empty(decoder, answer.into_body())),
        None => {
            let code = answer.status();
            let body = answer.into_body();
            Ok(Streaming::new_response(
                decoder,
                body,
                code,
                None,
                Some(largest),
            ))
        }
    }
}

fn not_ready(error: Error) -> Status {
    Status::unavailable(format!("{error}: {:?}", std::error::Error::source(&error)))
}
