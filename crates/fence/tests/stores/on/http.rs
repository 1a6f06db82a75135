//! An HTTP service behind the layer, in a process of its own that is killed too; what it writes is a file.

use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lockkeeper_fence::http::{
    Admitted, FenceLayer, FileGate, OpenGate, SendSequencerLayer, refusal,
};
use lockkeeper_fence::{Mode, Name, Pass, Sequencer};
use tokio::net::{TcpListener, TcpStream};
use tower_layer::Layer;
use tower_service::Service;

use super::{Seen, Store, text, writer_of};
use crate::history::Verdict;
use crate::stage::runtime;
use crate::writer::now;

const LOCK: &str = "resource";

/// Serves a file in the directory: at `/fenced` through a gate on disk, at `/two-steps` with the bug.
pub(crate) fn serve(directory: &Path) {
    let runtime = runtime();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let draft = directory.join("port.draft");
        fs::write(&draft, port.to_string()).unwrap();
        fs::rename(draft, directory.join("port")).unwrap();
        let of = |_: &hyper::Uri| Name::new(LOCK).ok();
        let resource = Resource(directory.to_owned());
        let fenced = FenceLayer::new(FileGate::new(directory), of).layer(resource.clone());
        let two_steps = FenceLayer::new(OpenGate, of).layer(resource);
        let service = Router { fenced, two_steps };
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = hyper::server::conn::http1::Builder::new();
                let _broken_off = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
}

type Answer = Response<Full<Bytes>>;
type Answering = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

/// Sends a request to one of two services by its path.
#[derive(Clone)]
struct Router<A, B> {
    fenced: A,
    two_steps: B,
}

impl<A, B> Service<Request<Incoming>> for Router<A, B>
where
    A: Service<Request<Incoming>, Response = Answer, Error = Infallible, Future = Answering>,
    B: Service<Request<Incoming>, Response = Answer, Error = Infallible, Future = Answering>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Answering {
        match request.uri().path() {
            "/fenced" => self.fenced.call(request),
            _ => self.two_steps.call(request),
        }
    }
}

/// A file. `PUT` replaces it; at `/two-steps` it first looks at the value that stands.
#[derive(Clone)]
struct Resource(PathBuf);

impl Service<Request<Incoming>> for Resource {
    type Response = Answer;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Answering {
        let path = self.0.join("value");
        Box::pin(async move {
            if request.method() == hyper::Method::GET {
                return Ok(Response::new(fs::read(path).unwrap_or_default().into()));
            }
            let admitted = request.extensions().get::<Admitted>().unwrap().clone();
            if request.uri().path() == "/two-steps" {
                let seen = writer_of(&fs::read_to_string(&path).unwrap_or_default());
                if let Err(refusal) = admitted.pass.after(seen.as_ref()) {
                    return Ok(refusal.response());
                }
                tokio::time::sleep(Duration::from_micros(now() % 4_000)).await;
            }
            let Ok(content) = request.into_body().collect().await else {
                return Ok(Response::builder()
                    .status(400)
                    .body(Full::default())
                    .unwrap());
            };
            // Between the comparison and the write: others must not get in here.
            tokio::time::sleep(Duration::from_micros(now() % 4_000)).await;
            let draft = path.with_extension(now().to_string());
            fs::write(&draft, content.to_bytes()).unwrap();
            fs::rename(draft, path).unwrap();
            Ok(Response::new(Full::default()))
        })
    }
}

pub(crate) struct Client {
    directory: PathBuf,
    sender: http1::SendRequest<Full<Bytes>>,
}

impl Client {
    async fn send(&mut self, pass: &Pass, value: &str, path: &str) -> Result<Verdict, String> {
        let name = Name::new(LOCK).unwrap();
        let sequencer = Sequencer::new(name, Mode::Exclusive, pass.token());
        let stamp = SendSequencerLayer::new(&sequencer).claim(pass.claim());
        let request = Request::put(path).header("host", "localhost");
        let mut request = request.body(Full::from(value.to_owned())).unwrap();
        stamp.stamp(request.headers_mut());
        self.sender.ready().await.map_err(text)?;
        let response = self.sender.send_request(request).await.map_err(text)?;
        let refusal = refusal(&response);
        let status = response.status();
        response.into_body().collect().await.map_err(text)?;
        match (refusal, status) {
            (Some(refusal), _) => Ok(Verdict::Refused(refusal.highest())),
            (None, StatusCode::OK) => Ok(Verdict::Accepted),
            (None, status) => Err(status.to_string()),
        }
    }
}

impl Store for Client {
    async fn open(target: &str) -> Result<Self, String> {
        let directory = PathBuf::from(target);
        let port = fs::read_to_string(directory.join("port")).map_err(text)?;
        let stream = TcpStream::connect(format!("127.0.0.1:{port}"))
            .await
            .map_err(text)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(text)?;
        tokio::spawn(connection);
        Ok(Self { directory, sender })
    }

    async fn write(&mut self, pass: &Pass, value: &str) -> Verdict {
        self.send(pass, value, "/fenced")
            .await
            .unwrap_or(Verdict::Unknown)
    }

    async fn write_in_two_steps(&mut self, pass: &Pass, value: &str, _: Duration) -> Verdict {
        self.send(pass, value, "/two-steps")
            .await
            .unwrap_or(Verdict::Unknown)
    }

    /// The value is its own record.
    async fn read(&mut self) -> Result<Seen, String> {
        let value = fs::read_to_string(self.directory.join("value")).unwrap_or_default();
        let value = writer_of(&value);
        Ok((value, value))
    }
}
