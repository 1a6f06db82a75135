//! The roll: all keys that are bound to a lease, in one answer. It tells of thousands of holds that they are
//! still there, where reading their lists would be a question for each hundred of them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::claims::Stands;
use super::leases::Live;
use super::proto::{BoundKeys, TimeToLive, method};
use super::renew::{ByName, LISTS, since};
use super::shared::{IN_BACKGROUND, Shared};
use crate::error::Error;
use crate::lifecycle::deadline::Moment;

/// The keys of one lease, at one moment.
#[derive(Debug)]
pub(super) struct Roll {
    called: Moment,
    lease: i64,
    /// What it shows had happened up to this revision, at least.
    revision: i64,
    keys: Arc<HashSet<Vec<u8>>>,
}

impl Shared {
    /// Those of the claims about which the roll does not say all. Of one that holds it does if its key is on it:
    /// a hold ends with its key, and nothing that happens behind it changes it.
    pub(super) async fn not_on_the_roll<'a>(
        &self,
        mut due: Vec<ByName<'a>>,
        lives: &HashMap<i64, Live>,
        called: Moment,
    ) -> Result<Vec<ByName<'a>>, Error> {
        for live in lives.values() {
            let (revision, keys) = self.call_the_roll(live, called).await?;
            due.retain(|group| {
                let entry = &group.entry;
                let holds = entry.stands == Stands::Holds && group.claims.len() == 1;
                let there = holds && entry.lease_id == live.id && keys.contains(&entry.key);
                // Where there is one member only, it had told of this revision before.
                if there && self.voters == 1 {
                    self.claims().seen_at(group.claims[0].id, revision);
                }
                !there
            });
        }
        Ok(due)
    }

    /// The keys that are bound to the lease, and a revision up to which they tell. Those who ask at about the same time share an answer.
    async fn call_the_roll(
        &self,
        live: &Live,
        called: Moment,
    ) -> Result<(i64, Arc<HashSet<Vec<u8>>>), Error> {
        let mut roll = self.roll.lock().await;
        let since = since(LISTS + 1, called, live.ttl);
        if let Some(roll) = &*roll
            && roll.lease == live.id
            && roll.called >= since
        {
            return Ok((roll.revision, roll.keys.clone()));
        }
        let called = self.clock.now();
        let question = TimeToLive {
            id: live.id,
            keys: true,
        };
        let told = self
            .client
            .ask::<_, BoundKeys>(method::TIME_TO_LIVE, &question, IN_BACKGROUND);
        let keys: HashSet<Vec<u8>> = told.await?.answer.keys.into_iter().collect();
        let keys = Arc::new(keys);
        *roll = Some(Roll {
            called,
            lease: live.id,
            revision: live.revision,
            keys: keys.clone(),
        });
        Ok((live.revision, keys))
    }
}
