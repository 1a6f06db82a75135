//! Each fault of the proxy, shown on a real Redis: what the client sees, and what the server did.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lockkeeper_testbed::{Proxy, Redis, ReplyLoss};

/// How long a client waits for an answer that must come, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a client waits for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(150);

struct Client(TcpStream);

impl Client {
    fn to(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client(stream)
    }

    /// The answer's line, or how reading failed; an end of stream is an error too.
    fn ask(&mut self, command: &str) -> Result<String, ErrorKind> {
        self.send(command)?;
        self.answer()
    }

    fn send(&mut self, command: &str) -> Result<(), ErrorKind> {
        let sent = self.0.write_all(format!("{command}\r\n").as_bytes());
        sent.map_err(|error| error.kind())
    }

    fn answer(&mut self) -> Result<String, ErrorKind> {
        let mut answer = [0; 256];
        match self.0.read(&mut answer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof),
            Ok(length) => Ok(String::from_utf8_lossy(&answer[..length])
                .trim_end()
                .to_owned()),
            Err(error) => Err(error.kind()),
        }
    }

    /// Asks, and sees that neither an answer nor an error comes.
    fn ask_in_vain(&mut self, command: &str) {
        self.0.set_read_timeout(Some(SILENCE)).unwrap();
        assert_eq!(self.ask(command), Err(ErrorKind::WouldBlock));
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();
    }
}

fn redis_behind_proxy() -> (Redis, Proxy) {
    let redis = Redis::start().unwrap();
    let proxy = Proxy::to(redis.address()).unwrap();
    (redis, proxy)
}

fn stored(redis: &Redis, key: &str) -> String {
    redis.ask(&["GET", key]).unwrap().text()
}

/// What is on its way to the server arrives soon, but not before the client gives up.
fn assert_soon(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not within 20 s: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_held_back_can_be_seen() {
    let (redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    assert_eq!(client.ask("SET lock A"), Ok("+OK".into()));
    assert_soon("nothing is on its way", || proxy.on_the_way() == 0);
    proxy.delay_requests(Duration::from_secs(3600)).unwrap();
    client.send("SET lock B").unwrap();
    let whole = "SET lock B\r\n".len();
    assert_soon("the request is on its way", || proxy.on_the_way() == whole);
    assert_eq!(stored(&redis, "lock"), "A");
    proxy.heal().unwrap();
    assert_eq!(client.answer(), Ok("+OK".into()));
    assert_soon("nothing is on its way", || proxy.on_the_way() == 0);
}

#[test]
fn everything_passes_at_first() {
    let (redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    assert_eq!(client.ask("SET lock A"), Ok("+OK".into()));
    assert_eq!(stored(&redis, "lock"), "A");
    assert_eq!(proxy.clients(), [client.0.local_addr().unwrap()]);
    drop(client);
    assert_soon("the link ends with the client", || {
        proxy.clients().is_empty()
    });
}

#[test]
fn large_data_pass_whole() {
    let (redis, proxy) = redis_behind_proxy();
    let value = "x".repeat(3_000_000);
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client
        .write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3000000\r\n{value}\r\n").as_bytes())
        .unwrap();
    assert_soon("stored", || {
        redis.ask(&["STRLEN", "k"]).unwrap().text() == "3000000"
    });
    client.write_all(b"GET k\r\n").unwrap();
    let mut back = vec![0; b"+OK\r\n$3000000\r\n".len() + 3_000_000 + 2];
    client.read_exact(&mut back).unwrap();
    assert!(back.ends_with(b"xxx\r\n"));
}

/// Only what a delay forbids is asserted: a busy machine may add any time to it.
#[test]
fn delay_is_counted_each_way() {
    const DELAY: Duration = Duration::from_millis(200);
    let (redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    proxy.delay(DELAY).unwrap();
    let start = Instant::now();
    assert_eq!(client.ask("PING"), Ok("+PONG".into()));
    assert!(start.elapsed() >= 2 * DELAY);

    proxy.heal().unwrap();
    proxy.delay_requests(DELAY).unwrap();
    let start = Instant::now();
    client.send("SET requests late").unwrap();
    assert_soon("applied", || stored(&redis, "requests") == "late");
    assert!(start.elapsed() >= DELAY);
    assert_eq!(client.answer(), Ok("+OK".into()));

    proxy.heal().unwrap();
    // So long that an answer before its time would be seen, however slow the machine is.
    proxy.delay_replies(Duration::from_secs(3600)).unwrap();
    client.ask_in_vain("SET replies late");
    assert_soon("applied", || stored(&redis, "replies") == "late");
}

#[test]
fn healing_ends_a_delay() {
    let (_redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    proxy.delay(Duration::from_secs(3600)).unwrap();
    client.ask_in_vain("PING");
    proxy.heal().unwrap();
    assert_eq!(
        client.answer(),
        Ok("+PONG".into()),
        "what was held back comes at once"
    );
    assert_eq!(client.ask("ECHO now"), Ok("$3\r\nnow".into()));
}

#[test]
fn a_cut_resets_and_refuses_until_healed() {
    let (redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    assert_eq!(client.ask("PING"), Ok("+PONG".into()));
    proxy.cut().unwrap();
    assert_eq!(
        client.0.read(&mut [0; 1]).unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
    let refused = TcpStream::connect(proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(redis.ask(&["PING"]).unwrap().text(), "PONG");
    proxy.heal().unwrap();
    assert_eq!(Client::to(proxy.address()).ask("PING"), Ok("+PONG".into()));
}

#[test]
fn a_black_hole_swallows_old_and_new_connections() {
    let (redis, proxy) = redis_behind_proxy();
    let mut old = Client::to(proxy.address());
    assert_eq!(old.ask("SET lock A"), Ok("+OK".into()));
    let mut quiet = Client::to(proxy.address());
    assert_eq!(quiet.ask("PING"), Ok("+PONG".into()));
    proxy.black_hole().unwrap();
    let mut new = Client::to(proxy.address());
    for client in [&mut old, &mut new] {
        client.ask_in_vain("SET lock B");
    }
    assert_eq!(stored(&redis, "lock"), "A");

    proxy.heal().unwrap();
    for client in [&mut old, &mut new] {
        assert_eq!(client.ask("PING"), Err(ErrorKind::ConnectionReset));
    }
    assert_eq!(
        quiet.ask("PING"),
        Ok("+PONG".into()),
        "nothing of this one was lost"
    );
    assert_eq!(stored(&redis, "lock"), "A");
}

#[test]
fn the_server_does_not_see_a_client_leave_through_a_black_hole() {
    let (redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    assert_eq!(client.ask("CLIENT SETNAME swallowed"), Ok("+OK".into()));
    proxy.black_hole().unwrap();
    drop(client);
    std::thread::sleep(Duration::from_millis(50));
    let connected = || {
        redis
            .ask(&["CLIENT", "LIST"])
            .unwrap()
            .text()
            .contains("name=swallowed")
    };
    assert!(connected());
    proxy.heal().unwrap();
    assert_soon("the server learns of it", || !connected());
}

#[test]
fn a_reply_is_lost_after_the_request_was_applied() {
    let (redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    assert_eq!(client.ask("PING"), Ok("+PONG".into()));
    proxy.lose(ReplyLoss::next(1)).unwrap();
    client.ask_in_vain("SET lock A NX");
    assert_soon("applied", || stored(&redis, "lock") == "A");
    assert_soon("lost", || proxy.lost_replies() == 1);

    // Requests still pass on that connection, answers never again; another one is untouched.
    client.ask_in_vain("SET after B");
    assert_soon("applied", || stored(&redis, "after") == "B");
    assert_eq!(
        Client::to(proxy.address()).ask("GET nothing"),
        Ok("$-1".into())
    );
    proxy.heal().unwrap();
    assert_eq!(client.ask("PING"), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_lost_reply_can_be_a_reset() {
    let (redis, proxy) = redis_behind_proxy();
    proxy.lose(ReplyLoss::next(2).reset()).unwrap();
    for value in ["A", "B"] {
        let mut client = Client::to(proxy.address());
        let answer = client.ask(&format!("SET lock {value}"));
        assert_eq!(answer, Err(ErrorKind::ConnectionReset));
        assert_eq!(stored(&redis, "lock"), value);
    }
    assert_eq!(Client::to(proxy.address()).ask("PING"), Ok("+PONG".into()));
}

#[test]
fn one_client_can_be_singled_out() {
    let (redis, proxy) = redis_behind_proxy();
    let (mut one, mut other) = (Client::to(proxy.address()), Client::to(proxy.address()));
    proxy
        .lose(ReplyLoss::all().of(one.0.local_addr().unwrap()))
        .unwrap();
    assert_eq!(other.ask("SET lock A"), Ok("+OK".into()));
    one.ask_in_vain("SET lock B");
    assert_soon("applied", || stored(&redis, "lock") == "B");
    assert_eq!(other.ask("PING"), Ok("+PONG".into()));
}

#[test]
fn a_dead_server_is_seen_through_the_proxy() {
    let (redis, proxy) = redis_behind_proxy();
    let mut client = Client::to(proxy.address());
    assert_eq!(client.ask("PING"), Ok("+PONG".into()));
    redis.server().kill().unwrap();
    assert!(matches!(client.ask("PING"), Err(kind) if kind != ErrorKind::WouldBlock));
    redis.server().restart().unwrap();
    assert_eq!(Client::to(proxy.address()).ask("PING"), Ok("+PONG".into()));
}
