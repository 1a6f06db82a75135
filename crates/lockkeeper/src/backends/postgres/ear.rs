//! One connection per keeper that listens: whoever makes a claim of this keeper a holder says so on the keeper's
//! channel, in the transaction that does it. News said while nobody listens is lost, so after every new beginning
//! all waiters ask.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::{AsyncMessage, Client};

use super::client::{Messages, Owned, SETTINGS, open};
use super::config::Config;
use super::faults::{Fault, sort};
use super::wire::wake;
use crate::backend::{Bell, Wake};
use crate::claim::ClaimId;
use crate::error::Error;

/// How long to wait before connecting anew; doubled with every failure.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The listening connection; it ends with its owner.
#[derive(Debug)]
pub(super) struct Ear {
    /// Nobody can guess it: what is said there is believed.
    pub(super) channel: String,
    _task: Owned,
}

/// A connection that listens, and the task that moves its bytes.
pub(super) struct Attached {
    pub(super) client: Client,
    hearing: JoinHandle<()>,
}

/// A channel that nobody can guess.
pub(super) fn channel() -> Result<String, Error> {
    let random = ClaimId::random()?;
    let hex: String = random
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(format!("lockkeeper_{hex}"))
}

/// Connects and listens.
pub(super) async fn attach(config: &Config, channel: &str, bell: &Bell) -> Result<Attached, Fault> {
    let (client, messages) = open(config, SETTINGS).await?;
    let hearing = tokio::spawn(hear(messages, bell.clone()));
    let listen = format!("LISTEN {channel}");
    match client.batch_execute(&listen).await {
        Ok(()) => Ok(Attached { client, hearing }),
        Err(error) => {
            hearing.abort();
            Err(sort(error, "listening for news"))
        }
    }
}

async fn hear(mut messages: Messages, bell: Bell) {
    while let Some(Ok(message)) = messages.next().await {
        if let AsyncMessage::Notification(news) = message
            && let Some(wake) = wake(news.payload())
        {
            bell.ring(wake);
        }
    }
}

impl Ear {
    /// Goes on listening, on this connection and, when it ends, on new ones.
    pub(super) fn keep(config: &Config, channel: String, bell: Bell, first: Attached) -> Self {
        let (config, own) = (config.clone(), channel.clone());
        let task = Owned::spawn(async move {
            let mut attached = first;
            loop {
                attached.ended().await;
                attached = again(&config, &own, &bell).await;
                bell.ring(Wake::LookAll);
            }
        });
        Self {
            channel,
            _task: task,
        }
    }
}

impl Attached {
    async fn ended(&mut self) {
        let _how = (&mut self.hearing).await;
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.hearing.abort();
    }
}

async fn again(config: &Config, channel: &str, bell: &Bell) -> Attached {
    let mut wait = FIRST_WAIT;
    loop {
        sleep(wait).await;
        if let Ok(attached) = attach(config, channel, bell).await {
            return attached;
        }
        wait = (2 * wait).min(LONGEST_WAIT);
    }
}
