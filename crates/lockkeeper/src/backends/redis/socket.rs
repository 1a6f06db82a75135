//! One connection to one server, made from scratch: TCP, then TLS if asked for, then the handshake.

use std::io;
use std::time::Duration;

use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{Cmd, ErrorKind, RedisError, RedisResult, cmd};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::answer;
use super::node::{Access, Node};
use super::pipe::{Ear, Mover, Pipe, Writer, pipe};

/// A silent peer is asked whether it is there, and given up, within this time.
const SILENCE: Duration = Duration::from_secs(5);

/// Connects. Somebody must run the mover from the first question on, so it is run here until the server lets us in, and
/// by the caller afterwards.
pub(super) async fn connect(node: &Node, ear: Ear) -> RedisResult<(Pipe, Mover)> {
    let stream = TcpStream::connect((node.host.as_str(), node.port)).await?;
    tune(&stream)?;
    let (pipe, mut mover) = match &node.access.tls {
        None => {
            let (reader, writer) = stream.into_split();
            pipe(reader, Writer::Plain(writer), ear)
        }
        Some(tls) => {
            let name = ServerName::try_from(node.host.clone()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(tls.0.clone());
            let stream = connector.connect(name, stream).await?;
            let (reader, writer) = tokio::io::split(stream);
            pipe(reader, Writer::Wrapped(Box::new(writer)), ear)
        }
    };
    tokio::select! {
        biased;
        told = let_us_in(&pipe, &node.access) => told?,
        () = &mut mover => return Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
    }
    Ok((pipe, mover))
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(SILENCE / 5);
    socket.set_tcp_keepalive(&keepalive)?;
    // What an abandoned connection has not sent must not arrive: a late renewal could cut a longer lease, a late
    // entry would stand in the way of all. This discards what is still on this side. What a stopped or busy server
    // has in its own buffer it will still read when it goes on: that is bounded by the lease that was asked for.
    socket.set_linger(Some(Duration::ZERO))?;
    socket.set_tcp_user_timeout(Some(SILENCE))
}

/// Who we are, and which protocol and database. RESP3: pushes and answers on one connection. Nothing else is told
/// about this client: each command more is one that a careful server's access list would have to allow.
async fn let_us_in(pipe: &Pipe, access: &Access) -> RedisResult<()> {
    let mut hello = cmd("HELLO");
    hello.arg(3);
    if let Some(password) = &access.password {
        let user = access.user.as_deref().unwrap_or("default");
        hello.arg("AUTH").arg(user).arg(password);
    }
    refusal(pipe, &hello).await.map_err(|error| {
        // Older servers know no such command, or no such protocol.
        match answer::code(&error) {
            "ERR" | "NOPROTO" => (ErrorKind::RESP3NotSupported, "HELLO 3 was refused").into(),
            _ => error,
        }
    })?;
    match access.db {
        0 => Ok(()),
        db => refusal(pipe, cmd("SELECT").arg(db)).await,
    }
}

async fn refusal(pipe: &Pipe, cmd: &Cmd) -> RedisResult<()> {
    pipe.ask(cmd).await?.extract_error().map(drop)
}

/// As if nothing had come within the limit.
pub(super) fn timed_out() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}
