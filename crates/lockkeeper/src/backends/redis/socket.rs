//! One connection to one server, made from scratch: TCP, then TLS if asked for, then the handshake.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisError, RedisResult,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::node::Node;

/// A silent peer is asked whether it is there, and given up, within this time.
const SILENCE: Duration = Duration::from_secs(5);

/// A connection and the work of moving its bytes, which somebody must run.
pub(super) type Made = (
    MultiplexedConnection,
    Pin<Box<dyn Future<Output = ()> + Send>>,
);

/// Connects; `pushes` gets what the server says unasked, and must not block.
pub(super) async fn connect(
    node: &Node,
    pushes: impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static,
) -> RedisResult<Made> {
    let stream = TcpStream::connect((node.host.as_str(), node.port)).await?;
    tune(&stream)?;
    match &node.access.tls {
        None => handshake(node, stream, pushes).await,
        Some(tls) => {
            let name = ServerName::try_from(node.host.clone()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(tls.0.clone());
            let stream = connector.connect(name, stream).await?;
            handshake(node, stream, pushes).await
        }
    }
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

async fn handshake<S>(
    node: &Node,
    stream: S,
    pushes: impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static,
) -> RedisResult<Made>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let access = &node.access;
    // RESP3: pushes and answers on one connection. The client's own introduction is left out: it is
    // a command more, which a careful server's access list would have to allow.
    let mut info = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name()
        .set_db(access.db);
    if let Some(user) = &access.user {
        info = info.set_username(user);
    }
    if let Some(password) = &access.password {
        info = info.set_password(password);
    }
    // Whoever asks sets the limit of its question; a limit here would be one too many.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_push_sender(pushes);
    let (connection, driver) =
        MultiplexedConnection::new_with_config(&info, stream, config).await?;
    Ok((connection, Box::pin(driver)))
}

/// As if nothing had come within the limit.
pub(super) fn timed_out() -> RedisError {
    io::Error::from(io::ErrorKind::TimedOut).into()
}
