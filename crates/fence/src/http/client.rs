//! The client's side: sends the sequencer along, and reads a refusal.

use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use tower_layer::Layer;
use tower_service::Service;

use super::{CLAIM, HIGHEST, OFFERED, SEQUENCER};
use crate::{ClaimMark, Refusal, Sequencer, Token};

/// Sends a sequencer with every request of a client.
#[derive(Debug, Clone)]
pub struct SendSequencerLayer {
    sequencer: HeaderValue,
    claim: Option<HeaderValue>,
}

impl SendSequencerLayer {
    /// Sends this sequencer.
    pub fn new(sequencer: &Sequencer) -> Self {
        Self {
            sequencer: plain(&sequencer.to_string()),
            claim: None,
        }
    }

    /// Sends the mark of the claim too.
    #[must_use]
    pub fn claim(mut self, claim: ClaimMark) -> Self {
        self.claim = Some(plain(&claim.to_string()));
        self
    }

    /// Puts the headers on a request, for clients without layers.
    pub fn stamp(&self, headers: &mut HeaderMap) {
        headers.insert(SEQUENCER, self.sequencer.clone());
        match &self.claim {
            Some(claim) => headers.insert(CLAIM, claim.clone()),
            None => headers.remove(CLAIM),
        };
    }
}

/// Sequencers and marks are printed in ASCII without white space.
fn plain(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

impl<S> Layer<S> for SendSequencerLayer {
    type Service = SendSequencer<S>;

    fn layer(&self, inner: S) -> SendSequencer<S> {
        let stamp = self.clone();
        SendSequencer { inner, stamp }
    }
}

/// A client that sends a sequencer with every request.
#[derive(Debug, Clone)]
pub struct SendSequencer<S> {
    inner: S,
    stamp: SendSequencerLayer,
}

impl<S: Service<Request<A>>, A> Service<Request<A>> for SendSequencer<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> S::Future {
        self.stamp.stamp(request.headers_mut());
        self.inner.call(request)
    }
}

/// The refusal in a response, with both numbers; `None` if it is something else.
pub fn refusal<B>(response: &Response<B>) -> Option<Refusal> {
    let token =
        |name| -> Option<Token> { response.headers().get(name)?.to_str().ok()?.parse().ok() };
    let (offered, highest) = (token(OFFERED)?, token(HIGHEST)?);
    match response.status() {
        StatusCode::PRECONDITION_FAILED => Some(Refusal::Stale { offered, highest }),
        StatusCode::CONFLICT => Some(Refusal::Taken { token: offered }),
        _ => None,
    }
}
