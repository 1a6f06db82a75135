//! The link against a real server that is killed, hangs, forgets scripts and drops connections.

use lockkeeper_testbed::{Proxy, Redis};
use tokio::sync::mpsc;

use super::super::node::Access;
use super::*;

#[derive(Debug, PartialEq, Eq)]
enum News {
    Message(Vec<u8>, Vec<u8>),
    Up,
    Broken,
}

fn linked(to: std::net::SocketAddr) -> (Link, mpsc::UnboundedReceiver<News>) {
    let (tell, news) = mpsc::unbounded_channel();
    let node = Node::at("127.0.0.1", to.port(), &Access::default());
    let link = Link::start(node, move |event| {
        let _ended = tell.send(match event {
            Event::Message { channel, payload } => News::Message(channel.into(), payload.into()),
            Event::Up => News::Up,
            Event::Broken => News::Broken,
        });
    });
    (link, news)
}

async fn next(news: &mut mpsc::UnboundedReceiver<News>) -> News {
    let told = tokio::time::timeout(Duration::from_secs(10), news.recv()).await;
    told.expect("news in time").expect("the link lives")
}

async fn echo(link: &Link, text: &str) -> Result<Value, RedisError> {
    link.command(redis::cmd("ECHO").arg(text)).await
}

// bug 39, bug 72
#[tokio::test]
async fn scripts_and_subscriptions_survive_flushes_and_kills() {
    let server = Redis::start().unwrap();
    let (link, mut news) = linked(server.address());
    link.subscribe(b"c").await.unwrap();
    assert_eq!(next(&mut news).await, News::Up);
    let script = Script::new("return {KEYS[1], ARGV[1]}");
    for round in 0..20 {
        server.ask(&["SCRIPT", "FLUSH"]).unwrap();
        let told = link.call(&script, &["k"], &[b"a"]).await.unwrap();
        assert!(matches!(told, Value::Array(ref both) if both.len() == 2));
        server.ask(&["PUBLISH", "c", &round.to_string()]).unwrap();
        let message = News::Message(b"c".to_vec(), round.to_string().into_bytes());
        assert_eq!(next(&mut news).await, message);
        server
            .ask(&["CLIENT", "KILL", "TYPE", "pubsub"])
            .expect("killed");
        assert_eq!(next(&mut news).await, News::Broken);
        assert_eq!(next(&mut news).await, News::Up);
    }
}

// bug 66: cancelled calls never shift the answers of others.
#[tokio::test]
async fn dropped_calls_never_shift_answers() {
    let server = Redis::start().unwrap();
    let (link, _news) = linked(server.address());
    for number in 0..20_000_u32 {
        let text = number.to_string();
        let call = echo(&link, &text);
        if number % 3 == 0 {
            let told = call.await.unwrap();
            assert_eq!(told, Value::BulkString(text.into_bytes()));
        } else {
            let moments = number % 5;
            tokio::select! {
                biased;
                () = async { for _ in 0..moments { tokio::task::yield_now().await } } => {}
                told = call => assert_eq!(told.unwrap(), Value::BulkString(text.into_bytes())),
            }
        }
    }
}

// A peer that still acknowledges packets but never answers defeats the user time-out.
#[tokio::test]
async fn a_silent_connection_is_given_up() {
    let server = Redis::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let (link, mut news) = linked(proxy.address());
    link.ready().await.unwrap();
    assert_eq!(next(&mut news).await, News::Up);
    proxy.black_hole().unwrap();
    let call = tokio::time::timeout(Duration::from_millis(50), echo(&link, "x"));
    assert!(call.await.is_err(), "swallowed");
    assert_eq!(next(&mut news).await, News::Broken);
    // The hole stays for longer than an attempt to connect takes.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(echo(&link, "x").await.is_err(), "told at once while down");
    proxy.heal().unwrap();
    assert_eq!(next(&mut news).await, News::Up);
    assert!(echo(&link, "x").await.is_ok());
}

#[tokio::test]
async fn a_killed_server_is_found_again() {
    let server = Redis::start().unwrap();
    let (link, mut news) = linked(server.address());
    link.ready().await.unwrap();
    assert_eq!(next(&mut news).await, News::Up);
    server.server().kill().unwrap();
    assert_eq!(next(&mut news).await, News::Broken);
    assert!(echo(&link, "x").await.is_err());
    server.server().restart().unwrap();
    assert_eq!(next(&mut news).await, News::Up);
    assert!(echo(&link, "x").await.is_ok());
}

/// A channel that is asked for when the new connection has sent its list of channels, but is not up.
async fn asked_for_too_late(breaks: impl Fn(&Redis, &Proxy)) {
    let server = Redis::start().unwrap();
    let proxy = Proxy::to(server.address()).unwrap();
    let (link, mut news) = linked(proxy.address());
    link.subscribe(b"first").await.unwrap();
    assert_eq!(next(&mut news).await, News::Up);
    breaks(&server, &proxy);
    assert_eq!(next(&mut news).await, News::Broken);
    proxy.heal().unwrap();
    proxy.delay_replies(Duration::from_millis(500)).unwrap();
    let heard = || server.ask(&["PUBSUB", "CHANNELS"]).unwrap().text();
    while !heard().contains("first") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let cut_off = tokio::time::timeout(Duration::from_millis(50), link.subscribe(b"late"));
    assert!(!matches!(cut_off.await, Ok(Ok(()))));
    assert_eq!(next(&mut news).await, News::Up);
    proxy.heal().unwrap();
    let told = async {
        while !heard().contains("late") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let told = tokio::time::timeout(Duration::from_secs(5), told).await;
    assert!(told.is_ok(), "the channel is not listened to");
}

#[tokio::test]
async fn a_dropped_subscription_is_made_nevertheless() {
    asked_for_too_late(|server, proxy| {
        proxy.delay_replies(Duration::from_millis(500)).unwrap();
        let kill = ["CLIENT", "KILL", "TYPE", "pubsub"];
        server.ask(&kill).expect("killed");
    })
    .await;
}

#[tokio::test]
async fn a_subscription_that_comes_while_down_is_made_when_up() {
    asked_for_too_late(|_, proxy| {
        proxy.cut().unwrap();
        // Attempts fail meanwhile.
        std::thread::sleep(Duration::from_millis(50));
    })
    .await;
}

#[tokio::test]
async fn a_refused_channel_costs_neither_the_connection_nor_the_others() {
    let server = Redis::start().unwrap();
    let (link, mut news) = linked(server.address());
    link.subscribe(b"mine").await.unwrap();
    assert_eq!(next(&mut news).await, News::Up);
    link.subscribe_later(b"before");
    assert_eq!(next(&mut news).await, News::Up);
    // The server ends connections that listen to what they no longer may.
    let only_mine = ["ACL", "SETUSER", "default", "resetchannels", "&mine"];
    server.ask(&only_mine).unwrap();
    assert_eq!(next(&mut news).await, News::Broken);
    assert_eq!(next(&mut news).await, News::Up);
    assert!(link.subscribe(b"theirs").await.is_err());
    assert!(!link.shared.channels().contains(b"theirs".as_slice()));
    server.ask(&["PUBLISH", "mine", "x"]).unwrap();
    let heard = News::Message(b"mine".to_vec(), b"x".to_vec());
    assert_eq!(next(&mut news).await, heard);
}
