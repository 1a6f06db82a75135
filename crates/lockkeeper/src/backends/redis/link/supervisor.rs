//! What keeps a link's connection up: it connects, subscribes, and looks whether the connection is still good.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use redis::{RedisError, cmd};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::super::pipe::Pipe;
use super::super::socket::{self, timed_out};
use super::{Connection, Event, Shared, State, is_refusal};

/// A connection that is not up after this time is tried anew.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A server that does not answer `PING` for this long is given up.
const PROBE: Duration = Duration::from_millis(500);
/// The pause after a failed attempt to connect: from, up to.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Keeps one connection up, for ever.
pub(super) async fn supervise(shared: Arc<Shared>) {
    let mut pause = PAUSES.0;
    loop {
        match attempt(&shared).await {
            Ok((connection, driver, heard)) => {
                pause = PAUSES.0;
                shared.state.send_replace(State::Up(connection.clone()));
                // Noted while it was being made: too late for it, too early to be sent by whoever noted it.
                if *shared.channels() == heard {
                    (shared.listener)(Event::Up);
                } else {
                    shared.unheard.notify_one();
                }
                until_over(&shared, connection).await;
                drop(driver);
                shared.state.send_replace(State::Connecting);
                (shared.listener)(Event::Broken);
            }
            Err(error) => {
                shared.state.send_replace(State::Down(error));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }
}

/// Ends the task that moves the bytes of a connection, and with it the connection.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Connects and brings the subscriptions back; tells which.
async fn attempt(
    shared: &Arc<Shared>,
) -> Result<(Connection, Driver, BTreeSet<Vec<u8>>), RedisError> {
    let attempt = async {
        let listening = Arc::downgrade(shared);
        let ear = move |channel: &[u8], payload: &[u8]| {
            if let Some(shared) = listening.upgrade() {
                (shared.listener)(Event::Message { channel, payload });
            }
        };
        let node = shared.whereabouts.find().await?;
        let (pipe, mover) = socket::connect(&node, Box::new(ear)).await?;
        let over = Arc::new(Notify::new());
        let ended = over.clone();
        let moving = tokio::spawn(async move {
            mover.await;
            ended.notify_one();
        });
        let driver = Driver(moving.abort_handle());
        // What it asks for is done here.
        let _asked = shared.unheard.notified().now_or_never();
        let heard = shared.channels().clone();
        listen(&pipe, &heard).await?;
        let place = (node.host, node.port);
        Ok((Connection { pipe, place, over }, driver, heard))
    };
    let told = tokio::time::timeout(CONNECT_WITHIN, attempt).await;
    told.unwrap_or_else(|_| Err(timed_out()))
}

/// Subscribes to all of them, or at least to those that the server does not refuse: one bad channel must not cost
/// the connection, nor the others theirs.
async fn listen(pipe: &Pipe, channels: &BTreeSet<Vec<u8>>) -> Result<(), RedisError> {
    if channels.is_empty() {
        return Ok(());
    }
    match subscribe(pipe, channels).await {
        Err(error) if is_refusal(&error) => {}
        told => return told,
    }
    for channel in channels {
        match subscribe(pipe, [channel]).await {
            Err(error) if !is_refusal(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

async fn subscribe(
    pipe: &Pipe,
    channels: impl IntoIterator<Item = &Vec<u8>>,
) -> Result<(), RedisError> {
    let (mut subscribe, mut count) = (cmd("SUBSCRIBE"), 0);
    for channel in channels {
        subscribe.arg(channel);
        count += 1;
    }
    let told = pipe.ask_for_channels(&subscribe, count).await?;
    told.extract_error().map(drop)
}

/// Returns when the connection is broken, silent although asked, or leads to the wrong place.
async fn until_over(shared: &Shared, connection: Connection) {
    let over = connection.over.clone();
    loop {
        let check = async {
            tokio::select! {
                () = shared.suspicion.notified() => answers(&connection.pipe).await,
                () = shared.unheard.notified() => hears(shared, &connection.pipe).await,
                () = shared.doubt.notified() => leads_right(shared, &connection.place).await,
            }
        };
        tokio::select! {
            () = over.notified() => return,
            fine = check => if !fine { return },
        }
    }
}

async fn answers(pipe: &Pipe) -> bool {
    // A refusal is an answer too.
    let told = tokio::time::timeout(PROBE, pipe.ask(&cmd("PING"))).await;
    matches!(told, Ok(Ok(_)))
}

/// Subscribes to what the connection may not have been told of. What was said until now was not heard.
async fn hears(shared: &Shared, pipe: &Pipe) -> bool {
    let channels = shared.channels().clone();
    let told = tokio::time::timeout(CONNECT_WITHIN, listen(pipe, &channels)).await;
    let fine = matches!(told, Ok(Ok(())));
    if fine {
        (shared.listener)(Event::Up);
    }
    fine
}

/// Where nobody knows who is right, the connection stays.
async fn leads_right(shared: &Shared, place: &(String, u16)) -> bool {
    match shared.whereabouts.find().await {
        Ok(node) => (node.host, node.port) == *place,
        Err(_) => true,
    }
}
