//! The layer and the client's side, one request at a time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::{Request, Response, StatusCode};
use lockkeeper_fence::http::{
    Admitted, CLAIM, FenceLayer, FileGate, Gate, HIGHEST, MemoryGate, OFFERED, SEQUENCER,
    SendSequencerLayer, refusal,
};
use lockkeeper_fence::{ClaimMark, Mode, Name, Refusal, Sequencer, Token};
use tower_layer::Layer;
use tower_service::Service;

use crate::stage::runtime;

/// Answers with the token that it was shown, and counts how many are inside at once.
#[derive(Clone, Default)]
struct Handler {
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Service<Request<()>> for Handler {
    type Response = Response<String>;
    type Error = Infallible;
    type Future =
        std::pin::Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let me = self.clone();
        Box::pin(async move {
            me.most.fetch_max(
                me.inside.fetch_add(1, Ordering::SeqCst) + 1,
                Ordering::SeqCst,
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
            me.inside.fetch_sub(1, Ordering::SeqCst);
            let shown = request.extensions().get::<Admitted>();
            Ok(Response::new(shown.map_or("nothing".into(), |shown| {
                shown.pass.token().to_string()
            })))
        })
    }
}

fn token(order: u64) -> Token {
    Token::new(order, 0).unwrap()
}

fn sequencer(order: u64) -> Sequencer {
    Sequencer::new(Name::new("/a").unwrap(), Mode::Exclusive, token(order))
}

fn fenced<G: Gate>(
    gate: G,
) -> impl Service<Request<()>, Response = Response<String>, Error = Infallible> + Clone {
    FenceLayer::new(gate, |uri| Name::new(uri.path()).ok()).layer(Handler::default())
}

/// Asks with these headers.
async fn ask<S>(service: &S, headers: &[(&str, &str)]) -> Response<String>
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible> + Clone,
{
    let mut request = Request::put("/a");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    service
        .clone()
        .call(request.body(()).unwrap())
        .await
        .unwrap()
}

// proves: F3, F5
#[test]
fn a_stale_request_is_refused_with_both_numbers() {
    let service = fenced(MemoryGate::default());
    runtime().block_on(async {
        let put = |order, claim| {
            let mut client = SendSequencerLayer::new(&sequencer(order))
                .claim(claim)
                .layer(service.clone());
            async move {
                client
                    .call(Request::put("/a").body(()).unwrap())
                    .await
                    .unwrap()
            }
        };
        let mine = ClaimMark::from_bytes([7; 16]);
        let first = put(8, mine).await;
        assert_eq!(
            (first.status(), first.body().as_str()),
            (StatusCode::OK, "2048")
        );
        assert_eq!(refusal(&first), None);
        assert_eq!(
            put(8, mine).await.status(),
            StatusCode::OK,
            "the same claim goes on"
        );
        let late = put(7, mine).await;
        assert_eq!(late.status(), StatusCode::PRECONDITION_FAILED);
        assert_eq!(
            (&late.headers()[OFFERED], &late.headers()[HIGHEST]),
            (&"1792".parse().unwrap(), &"2048".parse().unwrap())
        );
        assert!(
            late.body().contains("1792") && late.body().contains("2048"),
            "{}",
            late.body()
        );
        let both = Refusal::Stale {
            offered: token(7),
            highest: token(8),
        };
        assert_eq!(refusal(&late), Some(both));
        let impostor = put(8, ClaimMark::from_bytes([8; 16])).await;
        assert_eq!(impostor.status(), StatusCode::CONFLICT);
        assert_eq!(refusal(&impostor), Some(Refusal::Taken { token: token(8) }));
    });
}

// proves: F5
#[test]
fn hostile_requests_get_an_error_and_reach_nobody() {
    let service = fenced(MemoryGate::default());
    let good = sequencer(8).to_string();
    let long = "x".repeat(5000);
    runtime().block_on(async {
        let cases: &[(&[(&str, &str)], StatusCode)] = &[
            (&[], StatusCode::PRECONDITION_REQUIRED),
            (&[(SEQUENCER, "")], StatusCode::BAD_REQUEST),
            (&[(SEQUENCER, &long)], StatusCode::BAD_REQUEST),
            (&[(SEQUENCER, "lk1:x:2048:%2Fa")], StatusCode::BAD_REQUEST),
            (
                &[(SEQUENCER, "lk1:x:99999999999999999999:/a")],
                StatusCode::BAD_REQUEST,
            ),
            (
                &[(SEQUENCER, &good), (SEQUENCER, &good)],
                StatusCode::BAD_REQUEST,
            ),
            (
                &[(SEQUENCER, &good), (CLAIM, "zz")],
                StatusCode::BAD_REQUEST,
            ),
            (&[(SEQUENCER, "lk1:x:2048:/b")], StatusCode::FORBIDDEN),
            (&[(SEQUENCER, "lk1:s:2048:/a")], StatusCode::FORBIDDEN),
            (&[(SEQUENCER, "lk1:p1.2:2048:/a")], StatusCode::FORBIDDEN),
        ];
        for (headers, status) in cases {
            assert_eq!(
                ask(&service, headers).await.status(),
                *status,
                "{headers:?}"
            );
        }
        // None of them has raised anything.
        let low = sequencer(1).to_string();
        assert_eq!(
            ask(&service, &[(SEQUENCER, &low)]).await.status(),
            StatusCode::OK
        );
        let read = Request::get("/a").body(()).unwrap();
        assert_eq!(service.clone().call(read).await.unwrap().body(), "nothing");
    });
}

// proves: F3
#[test]
fn one_request_at_a_time_under_a_name() {
    let handler = Handler::default();
    let layer = FenceLayer::new(MemoryGate::default(), |uri| Name::new(uri.path()).ok());
    let service = layer.layer(handler.clone());
    runtime().block_on(async {
        let tasks = (0..20).map(|_| {
            let service = service.clone();
            tokio::spawn(async move {
                ask(&service, &[(SEQUENCER, "lk1:x:2048:/a")])
                    .await
                    .status()
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert_eq!(task.await.unwrap(), StatusCode::OK);
        }
    });
    assert_eq!(handler.most.load(Ordering::SeqCst), 1);
}

// proves: F3
#[test]
fn a_gate_on_disk_outlives_its_server_and_a_full_one_forgets_nobody() {
    let directory = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let new = sequencer(8).to_string();
        let old = sequencer(7).to_string();
        let before = fenced(FileGate::new(directory.path()));
        assert_eq!(
            ask(&before, &[(SEQUENCER, &new)]).await.status(),
            StatusCode::OK
        );
        let after = fenced(FileGate::new(directory.path()));
        let late = ask(&after, &[(SEQUENCER, &old)]).await;
        assert_eq!(late.status(), StatusCode::PRECONDITION_FAILED);
        let full = fenced(MemoryGate::for_at_most(0));
        let away = ask(&full, &[(SEQUENCER, &new)]).await;
        assert_eq!(away.status(), StatusCode::SERVICE_UNAVAILABLE);
    });
}
