//! The server's side: reads the sequencer, stands at the gate, lets through or refuses.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use tower_layer::Layer;
use tower_service::Service;

use super::gate::{Gate, GateError};
use super::{CLAIM, HIGHEST, OFFERED, SEQUENCER};
use crate::{ClaimMark, Name, Pass, Refusal, Sequencer};

/// In the extensions of a request that was let through: for the fence of the handler's own store.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The lock.
    pub name: Name,
    /// What its holder has shown.
    pub pass: Pass,
}

/// Which lock guards a path; `None`: none does, and nothing may be written there.
type Guards = dyn Fn(&Uri) -> Option<Name> + Send + Sync;

/// Puts a fence before a service.
///
/// ```
/// use lockkeeper_fence::Name;
/// use lockkeeper_fence::http::{FenceLayer, MemoryGate};
///
/// // A sequencer of another lock opens nothing: the path says which one is wanted.
/// let layer = FenceLayer::new(MemoryGate::default(), |uri| Name::new(uri.path()).ok());
/// ```
pub struct FenceLayer<G> {
    gate: Arc<G>,
    guards: Arc<Guards>,
}

impl<G: Gate> FenceLayer<G> {
    /// A fence with this gate; `guards` says which lock a request must hold, by its address.
    pub fn new(gate: G, guards: impl Fn(&Uri) -> Option<Name> + Send + Sync + 'static) -> Self {
        Self {
            gate: Arc::new(gate),
            guards: Arc::new(guards),
        }
    }
}

impl<G> Clone for FenceLayer<G> {
    fn clone(&self) -> Self {
        Self {
            gate: Arc::clone(&self.gate),
            guards: Arc::clone(&self.guards),
        }
    }
}

impl<G> fmt::Debug for FenceLayer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceLayer").finish_non_exhaustive()
    }
}

impl<S, G> Layer<S> for FenceLayer<G> {
    type Service = Fenced<S, G>;

    fn layer(&self, inner: S) -> Fenced<S, G> {
        let fence = self.clone();
        Fenced { inner, fence }
    }
}

/// A service behind a fence.
#[derive(Debug)]
pub struct Fenced<S, G> {
    inner: S,
    fence: FenceLayer<G>,
}

/// All clones stand at the same gate.
impl<S: Clone, G> Clone for Fenced<S, G> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            fence: self.fence.clone(),
        }
    }
}

impl<S, G, A, B> Service<Request<A>> for Fenced<S, G>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    G: Gate,
    A: Send + 'static,
    B: From<String>,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        // The one that was polled ready is the one to be called.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        if is_safe(request.method()) {
            return Box::pin(inner.call(request));
        }
        let gate = Arc::clone(&self.fence.gate);
        let shown = shown(request.headers(), (self.fence.guards)(request.uri()));
        Box::pin(async move {
            let admitted = match shown {
                Ok(admitted) => admitted,
                Err(turned_away) => return Ok(turned_away.response()),
            };
            let entered = match gate.enter(&admitted.name, &admitted.pass).await {
                Ok(entered) => entered,
                Err(error) => return Ok(TurnedAway::from(error).response()),
            };
            request.extensions_mut().insert(admitted);
            let response = inner.call(request).await;
            // Until here nobody else was let in under this name.
            drop(entered);
            response
        })
    }
}

/// Methods that write nothing.
fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE].contains(method)
}

/// A status, and what is wrong.
#[derive(Debug)]
struct TurnedAway {
    status: StatusCode,
    why: String,
    refusal: Option<Refusal>,
}

impl TurnedAway {
    fn new(status: StatusCode, why: impl ToString) -> Self {
        let (why, refusal) = (why.to_string(), None);
        Self {
            status,
            why,
            refusal,
        }
    }

    fn response<B: From<String>>(self) -> Response<B> {
        let mut response = Response::new(B::from(format!("{}\n", self.why)));
        *response.status_mut() = self.status;
        if let Some(refusal) = self.refusal {
            let number = |token: crate::Token| HeaderValue::from(token.get());
            response
                .headers_mut()
                .insert(OFFERED, number(refusal.offered()));
            response
                .headers_mut()
                .insert(HIGHEST, number(refusal.highest()));
        }
        response
    }
}

impl From<Refusal> for TurnedAway {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal {
            Refusal::Taken { .. } => StatusCode::CONFLICT,
            _ => StatusCode::PRECONDITION_FAILED,
        };
        Self {
            status,
            why: refusal.to_string(),
            refusal: Some(refusal),
        }
    }
}

impl From<GateError> for TurnedAway {
    fn from(error: GateError) -> Self {
        match error {
            GateError::Refused(refusal) => refusal.into(),
            other => Self::new(StatusCode::SERVICE_UNAVAILABLE, other),
        }
    }
}

impl Refusal {
    /// The answer to a request that a fence has refused, for handlers with a fence of their own.
    pub fn response<B: From<String>>(self) -> Response<B> {
        TurnedAway::from(self).response()
    }
}

/// What a request shows, if it is for the lock that is wanted.
fn shown(headers: &HeaderMap, wanted: Option<Name>) -> Result<Admitted, TurnedAway> {
    let bad = |why: &dyn ToString| TurnedAway::new(StatusCode::BAD_REQUEST, why.to_string());
    let Some(text) = only(headers, SEQUENCER)? else {
        let why = format!("this resource is behind a fence: send {SEQUENCER}");
        return Err(TurnedAway::new(StatusCode::PRECONDITION_REQUIRED, why));
    };
    let sequencer: Sequencer = text.parse().map_err(|error| bad(&error))?;
    let claim = match only(headers, CLAIM)? {
        Some(text) => text
            .parse()
            .map_err(|error: crate::PassError| bad(&error))?,
        None => ClaimMark::BY_TOKEN,
    };
    let forbidden = |why: &dyn ToString| TurnedAway::new(StatusCode::FORBIDDEN, why.to_string());
    if wanted.as_ref() != Some(sequencer.name()) {
        return Err(forbidden(
            &"the sequencer is for another lock than the one that guards this",
        ));
    }
    let pass = sequencer.pass(claim).map_err(|error| forbidden(&error))?;
    let name = sequencer.name().clone();
    Ok(Admitted { name, pass })
}

/// The only value of a header: two that differ would be read differently by two readers.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, TurnedAway> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let text = first.map(HeaderValue::to_str).transpose();
    match (text, second) {
        (Ok(text), None) => Ok(text),
        _ => {
            let why = format!("{name} must be sent once, in plain ASCII");
            Err(TurnedAway::new(StatusCode::BAD_REQUEST, why))
        }
    }
}
