//! ZooKeeper: the one session of this client.

use std::time::Duration;

use zookeeper_client::{Acls, Client, CreateMode, Error};

use crate::Result;
use crate::actor::deeds::{Answer, ZooKeeperVerb};

/// The session, from the first verb on.
pub(super) struct Session {
    label: String,
    open: Option<Client>,
}

impl Session {
    pub(super) fn new(label: &str) -> Session {
        let label = label.to_owned();
        Session { label, open: None }
    }

    async fn to(&mut self, address: &str, session_ms: u64) -> Result<Client> {
        if let Some(open) = &self.open {
            return Ok(open.clone());
        }
        let session = Duration::from_millis(session_ms);
        let connector = Client::connector().with_session_timeout(session);
        let fresh = connector.connect(address).await?;
        self.open = Some(fresh.clone());
        Ok(fresh)
    }

    pub(super) async fn run(
        &mut self,
        address: &str,
        session_ms: u64,
        verb: ZooKeeperVerb,
    ) -> Result<Answer> {
        let client = self.to(address, session_ms).await?;
        Ok(match perform(&client, &self.label, verb).await {
            Ok(answer) => answer,
            Err(Error::NodeExists) => Answer::Nothing,
            Err(Error::SessionExpired) => {
                // The next verb begins another one.
                self.open = None;
                Answer::Lost("the session has expired".to_owned())
            }
            Err(Error::ConnectionLoss) => Answer::Unknown("the connection was lost".to_owned()),
            Err(error) => Answer::Failed(error.to_string()),
        })
    }
}

async fn perform(
    client: &Client,
    label: &str,
    verb: ZooKeeperVerb,
) -> std::result::Result<Answer, Error> {
    let open = Acls::anyone_all();
    match verb {
        ZooKeeperVerb::Create { path, sequential } => {
            let mode = if sequential {
                CreateMode::EphemeralSequential
            } else {
                CreateMode::Ephemeral
            };
            let mode = mode.with_acls(open);
            let (_, sequence) = client.create(&path, label.as_bytes(), &mode).await?;
            let suffix = if sequential {
                sequence.to_string()
            } else {
                String::new()
            };
            Ok(Answer::Text(path + &suffix))
        }
        ZooKeeperVerb::CreateLasting { path } => {
            let mode = CreateMode::Persistent.with_acls(open);
            client.create(&path, b"", &mode).await?;
            Ok(Answer::Text(path))
        }
        ZooKeeperVerb::Delete { path } => {
            client.delete(&path, None).await?;
            Ok(Answer::Text(path))
        }
        ZooKeeperVerb::Children { path } => {
            let mut children = client.list_children(&path).await?;
            children.sort();
            Ok(Answer::Text(children.join("\n")))
        }
        ZooKeeperVerb::AwaitDeletion { path } => loop {
            let (found, watcher) = client.check_and_watch_stat(&path).await?;
            if found.is_none() {
                return Ok(Answer::Text(path));
            }
            watcher.changed().await;
        },
        ZooKeeperVerb::Read { path } => {
            let (data, _) = client.get_data(&path).await?;
            Ok(Answer::Text(String::from_utf8_lossy(&data).into_owned()))
        }
        ZooKeeperVerb::LockCommon { path } => loop {
            let mode = CreateMode::Ephemeral.with_acls(open);
            match client.create(&path, label.as_bytes(), &mode).await {
                Ok(_) => return Ok(Answer::Text(path)),
                Err(Error::NodeExists) => {}
                Err(error) => return Err(error),
            }
            let (found, watcher) = client.check_and_watch_stat(&path).await?;
            if found.is_some() {
                watcher.changed().await;
            }
        },
    }
}
