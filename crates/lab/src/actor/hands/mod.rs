//! How deeds are done: one file per kind of server, connections last as long as the client.

mod crowd;
mod keeper;
mod redis;
mod sql;
mod zookeeper;

use std::process::Stdio;

use super::deeds::{Answer, Deed};
use crate::Result;

/// Everything that a client holds in its hands.
pub(crate) struct Hands {
    label: String,
    keepers: keeper::Keepers,
    redis: redis::Connections,
    sql: sql::Connections,
    zookeeper: zookeeper::Session,
    crowd: crowd::Crowd,
}

impl Hands {
    pub(crate) fn new(label: &str) -> Hands {
        Hands {
            label: label.to_owned(),
            keepers: keeper::Keepers::new(label),
            redis: redis::Connections::default(),
            sql: sql::Connections::default(),
            zookeeper: zookeeper::Session::new(label),
            crowd: crowd::Crowd::default(),
        }
    }

    pub(crate) async fn perform(&mut self, deed: Deed) -> Result<Answer> {
        match deed {
            Deed::Redis { address, command } => self.redis.command(&address, &command).await,
            Deed::Sql { url, statement } => self.sql.run(&url, &statement).await,
            Deed::ZooKeeper {
                address,
                session_ms,
                verb,
            } => self.zookeeper.run(&address, session_ms, verb).await,
            Deed::Program { words } => program(&words),
            Deed::Acquire(ask) => self.keepers.acquire(ask).await,
            Deed::Release { name } => self.keepers.release(&name).await,
            Deed::Check { name } => self.keepers.check(&name),
            Deed::Write {
                address,
                key,
                value,
                pass,
            } => {
                let pass = pass.map(|shown| self.keepers.pass(&shown)).transpose()?;
                self.redis.write(&address, &key, &value, pass).await
            }
            Deed::Crowd { size, each } => {
                self.crowd.begin(&self.label, size, &each);
                Ok(Answer::Text(size.to_string()))
            }
            Deed::CrowdDone => self.crowd.done(),
        }
    }
}

fn program(words: &[String]) -> Result<Answer> {
    let (program, arguments) = words.split_first().ok_or("no program")?;
    let mut command = std::process::Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Ok(Answer::Failed(error.trim().to_owned()));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    Ok(Answer::Text(printed.trim().to_owned()))
}
