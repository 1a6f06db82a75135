//! A connection to one server: TCP, TLS if asked for, and the opening of the session on it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio_rustls::TlsConnector;

use super::Settings;
use super::error::Error;
use super::link::Link;
use super::record::{self, Frame, Op, Reader};

pub(super) type Source = Box<dyn AsyncRead + Send + Unpin>;

/// Where requests are written to.
#[derive(Debug, Clone)]
pub(super) enum Sink {
    /// By anybody, as long as it takes no waiting.
    Plain(Arc<OwnedWriteHalf>),
    /// By the session's task alone.
    Sealed,
}

/// What the session's task writes with.
pub(super) enum Writer {
    Plain(Arc<OwnedWriteHalf>),
    Sealed {
        to: Box<dyn AsyncWrite + Send + Unpin>,
        /// Taken from the link, and not written yet.
        rest: Vec<u8>,
        flushed: bool,
    },
}

/// A connection on which the session is open.
pub(super) struct Opened {
    pub(super) source: Source,
    pub(super) writer: Writer,
    pub(super) grant: Grant,
}

/// What the server agreed to.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub(super) session: i64,
    pub(super) password: Vec<u8>,
    pub(super) timeout: Duration,
}

impl Sink {
    /// Writes what can be written without waiting; tells how much that was. An error shows again when the session's
    /// task reads.
    pub(super) fn write_now(&self, bytes: &[u8]) -> usize {
        match self {
            Self::Plain(to) => to.try_write(bytes).unwrap_or(0),
            Self::Sealed => 0,
        }
    }
}

impl Writer {
    pub(super) fn sink(&self) -> Sink {
        match self {
            Self::Plain(to) => Sink::Plain(to.clone()),
            Self::Sealed { .. } => Sink::Sealed,
        }
    }

    /// Writes what there is to write, for ever. May be dropped at any time and called again.
    pub(super) async fn drain(&mut self, link: &Link) -> io::Error {
        loop {
            let told = match self {
                Self::Plain(to) => drain_plain(to, link).await,
                Self::Sealed { to, rest, flushed } => drain_sealed(to, rest, flushed, link).await,
            };
            if let Err(error) = told {
                return error;
            }
        }
    }
}

async fn drain_plain(to: &OwnedWriteHalf, link: &Link) -> io::Result<()> {
    let nothing_to_do = {
        let mut inner = link.lock();
        while !inner.out.is_empty() {
            match to.try_write(&inner.out) {
                Ok(written) => drop(inner.out.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        inner.out.is_empty()
    };
    match nothing_to_do {
        true => {
            link.work.notified().await;
            Ok(())
        }
        false => to.writable().await,
    }
}

async fn drain_sealed(
    to: &mut (dyn AsyncWrite + Send + Unpin),
    rest: &mut Vec<u8>,
    flushed: &mut bool,
    link: &Link,
) -> io::Result<()> {
    if rest.is_empty() {
        std::mem::swap(rest, &mut link.lock().out);
    }
    if !rest.is_empty() {
        *flushed = false;
        let written = to.write(rest).await?;
        rest.drain(..written);
    } else if *flushed {
        link.work.notified().await;
    } else {
        to.flush().await?;
        *flushed = true;
    }
    Ok(())
}

/// Connects to this server and opens the session there, or a new one.
pub(super) async fn open(
    settings: &Settings,
    host: &(String, u16),
    last_zxid: i64,
    session: Option<&Grant>,
) -> Result<Opened, Error> {
    let lost = |_: io::Error| Error::ConnectionLoss;
    let stream = TcpStream::connect((host.0.as_str(), host.1));
    let stream = stream.await.map_err(lost)?;
    stream.set_nodelay(true).map_err(lost)?;
    let Some(tls) = &settings.tls else {
        let (mut source, mut to) = stream.into_split();
        let grant = shake_hands((&mut source, &mut to), settings, last_zxid, session).await?;
        return Ok(Opened {
            source: Box::new(source),
            writer: Writer::Plain(Arc::new(to)),
            grant,
        });
    };
    let name = ServerName::try_from(host.0.clone()).map_err(|_| Error::NoHosts)?;
    let stream = TlsConnector::from(tls.clone()).connect(name, stream);
    let (mut source, mut to) = tokio::io::split(stream.await.map_err(lost)?);
    let grant = shake_hands((&mut source, &mut to), settings, last_zxid, session).await?;
    Ok(Opened {
        source: Box::new(source),
        writer: Writer::Sealed {
            to: Box::new(to),
            rest: Vec::new(),
            flushed: true,
        },
        grant,
    })
}

/// Opens the session and says who we are.
async fn shake_hands<R, W>(
    (source, to): (&mut R, &mut W),
    settings: &Settings,
    last_zxid: i64,
    session: Option<&Grant>,
) -> Result<Grant, Error>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    const VERSION: i32 = 0;
    const PASSWORD: [u8; 16] = [0; 16];
    let timeout = i32::try_from(settings.timeout.as_millis()).unwrap_or(i32::MAX);
    let hello = Frame::opening().int(VERSION).long(last_zxid).int(timeout);
    let hello = match session {
        Some(session) => hello.long(session.session).bytes(&session.password),
        None => hello.long(0).bytes(&PASSWORD),
    };
    // Not a server that has lost the others and only reads.
    let mut bytes = hello.flag(false).done();
    if let Some(digest) = &settings.digest {
        let who = Frame::asking(Op::Auth).int(0).text("digest");
        bytes.extend(who.bytes(digest.as_bytes()).numbered(record::AUTH));
    }
    to.write_all(&bytes)
        .await
        .map_err(|_| Error::ConnectionLoss)?;
    to.flush().await.map_err(|_| Error::ConnectionLoss)?;
    let answer = read_frame(source).await?;
    let mut reader = Reader(&answer);
    let (_version, timeout) = (reader.int()?, reader.int()?);
    let grant = Grant {
        session: reader.long()?,
        password: reader.bytes()?.to_vec(),
        timeout: Duration::from_millis(u64::try_from(timeout).unwrap_or(0)),
    };
    if grant.session == 0 || grant.timeout.is_zero() {
        return Err(Error::SessionExpired);
    }
    if settings.digest.is_some() {
        let answer = read_frame(source).await?;
        let mut reader = Reader(&answer);
        let (_number, _zxid, code) = (reader.int()?, reader.long()?, reader.int()?);
        Error::of_code(code)?;
    }
    Ok(grant)
}

/// One whole frame, and not a byte more.
async fn read_frame(source: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, Error> {
    const LONGEST: u32 = 1 << 16;
    let lost = |_: io::Error| Error::ConnectionLoss;
    let length = source.read_u32().await.map_err(lost)?;
    if length > LONGEST {
        return Err(Error::Garbled);
    }
    let mut frame = vec![0; length as usize];
    source.read_exact(&mut frame).await.map_err(lost)?;
    Ok(frame)
}
