//! The task of a session: keeps a connection, on one server after the other, for as long as the session may live.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;

use super::Settings;
use super::error::Error;
use super::link::Link;
use super::socket::{self, Grant, Opened, Source, Writer};
use crate::lifecycle::deadline::Moment;

/// After trying all servers in vain, and twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_millis(500);

/// The times of a session, as parts of its timeout: two servers can be tried before it ends.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// How often it is looked after.
    tick: Duration,
    /// Whoever was not asked for so long is pinged.
    ping: Duration,
    /// Whoever did not answer for so long is given up.
    patience: Duration,
    /// After so long without an answer the session is over, surely.
    end: Duration,
}

impl Pace {
    fn of(timeout: Duration) -> Self {
        Self {
            tick: (timeout / 20).max(Duration::from_millis(1)),
            ping: (timeout * 3 / 20).min(Duration::from_secs(10)),
            patience: timeout * 2 / 5,
            end: timeout * 7 / 5,
        }
    }
}

struct Task {
    settings: Settings,
    link: Arc<Link>,
    grant: Grant,
    pace: Pace,
    /// Which server is tried next.
    next: usize,
    heard: Moment,
}

/// Opens a session and looks after it from now on.
pub(super) async fn start(mut settings: Settings, link: Arc<Link>) -> Result<Grant, Error> {
    // So that not all keepers come to the first of the servers.
    let count = settings.hosts.len().max(1);
    let turn = usize::try_from(link.clock.now().nanos() / 1000).unwrap_or(0) % count;
    settings.hosts.rotate_left(turn);
    let patience = Pace::of(settings.timeout).patience;
    for place in 0..settings.hosts.len() {
        let opening = socket::open(&settings, &settings.hosts[place], 0, None);
        let opened = match tokio::time::timeout(patience, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(Error::AuthFailed)) => return Err(Error::AuthFailed),
            Ok(Err(_)) | Err(_) => continue,
        };
        let grant = opened.grant.clone();
        settings.timeout = grant.timeout;
        let task = Task {
            pace: Pace::of(grant.timeout),
            heard: link.clock.now(),
            grant: grant.clone(),
            next: place + 1,
            settings,
            link: link.clone(),
        };
        link.connected(opened.writer.sink());
        tokio::spawn(task.run(opened));
        return Ok(grant);
    }
    Err(Error::NoHosts)
}

impl Task {
    async fn run(mut self, opened: Opened) {
        let mut opened = Some(opened);
        let why = loop {
            let connection = match opened.take() {
                Some(connection) => connection,
                None => match self.reconnect().await {
                    Ok(connection) => {
                        self.link.connected(connection.writer.sink());
                        connection
                    }
                    Err(error) => break error,
                },
            };
            let error = self.serve(connection.source, connection.writer).await;
            if error.is_final() {
                break error;
            }
            self.link.disconnected(&Error::ConnectionLoss);
        };
        self.link.end(&why);
    }

    /// Moves what is to be moved, until the connection is of no more use; tells why.
    async fn serve(&mut self, mut source: Source, mut writer: Writer) -> Error {
        let clock = self.link.clock.clone();
        let link = self.link.clone();
        let mut received = Vec::with_capacity(16 << 10);
        let mut look = std::pin::pin!(clock.sleep_until(clock.now() + self.pace.tick));
        loop {
            tokio::select! {
                read = source.read_buf(&mut received) => {
                    if !matches!(read, Ok(1..)) {
                        return Error::ConnectionLoss;
                    }
                    self.heard = clock.now();
                    match link.take_in(&received) {
                        Ok(used) => drop(received.drain(..used)),
                        Err(error) => return error,
                    }
                }
                _error = writer.drain(&link) => return Error::ConnectionLoss,
                () = &mut look => {
                    let now = clock.now();
                    if now - self.heard >= self.pace.patience {
                        return Error::ConnectionLoss;
                    }
                    link.ping_if_idle(self.pace.ping);
                    look.set(clock.sleep_until(now + self.pace.tick));
                }
            }
        }
    }

    /// Whether it is the same session, and as long: holds are believed in by what was agreed to at first.
    fn is_as_good(&self, grant: &Grant) -> bool {
        grant.session == self.grant.session && grant.timeout >= self.grant.timeout
    }

    /// A new connection for the session, or the news that it is over.
    async fn reconnect(&mut self) -> Result<Opened, Error> {
        let clock = self.link.clock.clone();
        let end = self.heard + self.pace.end;
        let mut pause = FIRST_PAUSE;
        loop {
            for _ in 0..self.settings.hosts.len() {
                let left = end - clock.now();
                if left.is_zero() {
                    return Err(Error::SessionExpired);
                }
                let host = self.next % self.settings.hosts.len();
                self.next = host + 1;
                let zxid = self.link.lock().last_zxid;
                let host = &self.settings.hosts[host];
                let opening = socket::open(&self.settings, host, zxid, Some(&self.grant));
                match tokio::time::timeout(left.min(self.pace.patience), opening).await {
                    Ok(Ok(opened)) if self.is_as_good(&opened.grant) => {
                        self.heard = clock.now();
                        self.grant.password.clone_from(&opened.grant.password);
                        return Ok(opened);
                    }
                    Ok(Ok(_)) => return Err(Error::SessionExpired),
                    Ok(Err(error)) if error.is_final() => return Err(error),
                    Ok(Err(_)) | Err(_) => {}
                }
            }
            clock.sleep_until((clock.now() + pause).min(end)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}
