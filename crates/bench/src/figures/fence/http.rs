//! HTTP: a service behind the layer, beside the same service without it. What is written stays in memory, so that the
//! layer is all that differs, and all that weighs beside the request itself.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::server::conn::http1::Builder;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lockkeeper_fence::http::{FenceLayer, MemoryGate, SEQUENCER};
use lockkeeper_fence::{Mode, Name, Sequencer, Token};
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer;
use tower_service::Service;

use super::{Pair, value};
use crate::Result;
use crate::figures::local::runtime;
use crate::place::Place;
use crate::report::Figure;

const LOCK: &str = "report";

pub(super) fn measure(_: &Place) -> Result<Vec<Figure>> {
    runtime()?.block_on(async {
        let of = |_: &Uri| Name::new(LOCK).ok();
        let fenced = FenceLayer::new(MemoryGate::default(), of).layer(Resource);
        let mut plain = connect(Resource).await?;
        let mut fenced = connect(fenced).await?;
        let pair = Pair::new("http: a request behind the layer", 200).measure(
            async |n| put(&mut plain, n).await,
            async |n| put(&mut fenced, n).await,
        );
        Ok(vec![pair.await?])
    })
}

/// Both ways send the same bytes; only one side reads the sequencer.
async fn put(client: &mut SendRequest<Full<Bytes>>, number: u64) -> Result<()> {
    let token = Token::new(number, 0)?;
    let sequencer = Sequencer::new(Name::new(LOCK)?, Mode::Exclusive, token);
    let request = Request::put("/")
        .header(SEQUENCER, sequencer.to_string())
        .body(Full::from(value(number)))?;
    client.ready().await?;
    let answer = client.send_request(request).await?;
    match answer.status() {
        StatusCode::OK => Ok(()),
        other => Err(format!("the service answered {other}").into()),
    }
}

/// A server on a port of its own, and a lasting connection to it.
async fn connect<S>(service: S) -> Result<SendRequest<Full<Bytes>>>
where
    S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service);
        let served = Builder::new().serve_connection(TokioIo::new(stream), service);
        // The client has gone: the measurement is over.
        let _broken_off = served.await;
        std::io::Result::Ok(())
    });
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (client, driver) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(driver);
    Ok(client)
}

/// Takes what comes.
#[derive(Debug, Clone)]
struct Resource;

impl Service<Request<Incoming>> for Resource {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<std::result::Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Incoming>) -> Self::Future {
        ready(Ok(Response::default()))
    }
}
