//! The short way: who is alone in a name's list stands in the name's own row, and enters and leaves by one prepared statement each.
//! As soon as anybody else comes, the long way moves it to the list.

use std::sync::Arc;

use super::client::Client;
use super::config::Config;
use super::decide::lease_us;
use super::faults::Fault;
use super::text::{Value, without_comments};
use crate::backends::sql::shortened;
use crate::backends::sql::used::Used;
use crate::claim::Claim;

/// The statements of the short way.
#[derive(Debug)]
pub(super) struct Alone {
    client: Arc<Client>,
    enter: Arc<str>,
    enter_first: Arc<str>,
    leave: Arc<str>,
    used: Used,
}

impl Alone {
    pub(super) fn new(client: Arc<Client>, config: &Config) -> Self {
        let statement = |text: &str| config.statement(&without_comments(text)).into();
        Self {
            client,
            enter: statement(include_str!("sql/enter_alone.sql")),
            enter_first: statement(include_str!("sql/enter_first.sql")),
            leave: statement(include_str!("sql/leave_alone.sql")),
            used: Used::default(),
        }
    }

    /// Takes the name if nobody is in its list; gives the number.
    pub(super) async fn enter(&self, claim: &Claim, keeper: &str) -> Result<Option<u64>, Fault> {
        let mode = claim.mode.to_string();
        let lease = Value::Number(lease_us(claim));
        let (label, host) = (shortened(&claim.party.label), shortened(&claim.party.host));
        let values = [
            Value::Bytes(claim.id.as_bytes()),
            Value::Bytes(mode.as_bytes()),
            lease,
            lease,
            Value::Bytes(keeper.as_bytes()),
            Value::Text(label),
            Value::Text(host),
            Value::Number(claim.party.pid.into()),
            Value::Bytes(claim.name.as_str().as_bytes()),
        ];
        const DURING: &str = "asking for a lock";
        if !self.used.has(&claim.name) {
            let told = self.client.change(DURING, &self.enter_first, &values);
            let entered = told.await?.affected == 1;
            self.used.note(&claim.name);
            if entered {
                return Ok(Some(1));
            }
        }
        let told = self.client.change(DURING, &self.enter, &values).await?;
        Ok((told.affected == 1).then_some(told.insert_id))
    }

    /// Gives back a claim, if it is alone; whether it was.
    pub(super) async fn leave(&self, claim: &Claim) -> Result<bool, Fault> {
        let values = [
            Value::Bytes(claim.name.as_str().as_bytes()),
            Value::Bytes(claim.id.as_bytes()),
        ];
        let told = self.client.change("releasing", &self.leave, &values);
        Ok(told.await?.affected == 1)
    }
}
