//! One connection to one member: TCP, TLS if asked for, HTTP/2, and pings that find out when nobody is there any more.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use http::uri::{Authority, Scheme};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::grpc::Failure;
use crate::error::Error;

/// The server ends connections whose pings come faster than every 5 s.
const PING_EVERY: Duration = Duration::from_secs(6);
const PONG_WITHIN: Duration = Duration::from_secs(3);
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How much a server may send before it is told that there is room for more.
const WINDOW: u32 = 1 << 20;

/// Whom to connect to, and how.
#[derive(Clone)]
pub(super) struct Member {
    /// Host and port.
    pub(super) authority: Authority,
    pub(super) tls: Option<Arc<rustls::ClientConfig>>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Member({})", self.authority)
    }
}

impl Member {
    pub(super) fn new(member: &str, tls: Option<Arc<rustls::ClientConfig>>) -> Result<Self, Error> {
        let authority = member.parse().map_err(|error| {
            Error::invalid(format!("etcd member {member} is no host and port: {error}"))
        })?;
        Ok(Self { authority, tls })
    }

    pub(super) fn scheme(&self) -> Scheme {
        match self.tls {
            Some(_) => Scheme::HTTPS,
            None => Scheme::HTTP,
        }
    }

    pub(super) async fn connect(&self) -> Result<SendRequest<Bytes>, Failure> {
        let member = &self.authority;
        let during = |error: String| Failure::other(format!("connecting to {member}: {error}"));
        let connected = timeout(CONNECT_WITHIN, self.handshake()).await;
        connected
            .map_err(|_| during(format!("no answer within {CONNECT_WITHIN:?}")))?
            .map_err(|error| during(error.to_string()))
    }

    async fn handshake(
        &self,
    ) -> Result<SendRequest<Bytes>, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(self.authority.as_str()).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else {
            return Ok(speak(stream).await?);
        };
        let host = self.authority.host();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned())?;
        let connector = TlsConnector::from(tls.clone());
        Ok(speak(connector.connect(name, stream).await?).await?)
    }
}

/// Begins to speak HTTP/2. The connection lives until it breaks, or until nobody uses it any more.
async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<SendRequest<Bytes>, h2::Error> {
    let (sender, mut connection) = Builder::new()
        .enable_push(false)
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake(stream)
        .await?;
    let pings = connection.ping_pong();
    tokio::spawn(async move {
        tokio::select! {
            biased;
            _over = connection => {}
            () = silence(pings) => {}
        }
    });
    Ok(sender)
}

/// Waits until the server does not answer any more.
async fn silence(pings: Option<PingPong>) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(PING_EVERY).await;
        let pong = timeout(PONG_WITHIN, pings.ping(Ping::opaque())).await;
        if !matches!(pong, Ok(Ok(_))) {
            return;
        }
    }
}
