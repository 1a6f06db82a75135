//! Who hears what: the claims that wait for the word of strangers, by the channel it comes on, and the
//! bell that tells the keeper.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::link::Event;
use super::config::Config;
use crate::backend::{Bell, Wake};
use crate::claim::ClaimId;

#[derive(Debug, Default)]
pub(super) struct Ears {
    pub(super) bell: Bell,
    own_channel: Vec<u8>,
    was_broken: AtomicBool,
    strangers: Mutex<HashMap<Vec<u8>, HashSet<ClaimId>>>,
}

impl Ears {
    /// Ears for lockkeepers' own messages on this channel.
    pub(super) fn on(own_channel: &str) -> Self {
        Self {
            own_channel: own_channel.into(),
            ..Self::default()
        }
    }

    /// Takes in what the connection tells.
    pub(super) fn hear(&self, event: Event<'_>) {
        match event {
            Event::Message { channel, payload } if channel == self.own_channel => {
                if let Some(claim) = Config::claim_of(payload) {
                    self.bell.ring(Wake::Look(claim));
                }
            }
            Event::Message { channel, .. } => self.look(channel),
            Event::Broken => self.was_broken.store(true, Ordering::Relaxed),
            // The first time nobody can have missed anything.
            Event::Up if self.was_broken.load(Ordering::Relaxed) => self.bell.ring(Wake::LookAll),
            Event::Up => {}
        }
    }

    /// The claim wants to hear this channel; true if it did not before.
    pub(super) fn listen(&self, channel: &str, claim: ClaimId) -> bool {
        let mut strangers = self.strangers();
        strangers.entry(channel.into()).or_default().insert(claim)
    }

    /// Whether anybody wants to hear this channel.
    pub(super) fn listens(&self, channel: &str) -> bool {
        self.strangers().contains_key(channel.as_bytes())
    }

    /// The claim wants to hear no more; true if nobody does any more.
    pub(super) fn forget(&self, channel: &str, claim: ClaimId) -> bool {
        let mut strangers = self.strangers();
        let Some(claims) = strangers.get_mut(channel.as_bytes()) else {
            return false;
        };
        let last = claims.remove(&claim) && claims.is_empty();
        if last {
            strangers.remove(channel.as_bytes());
        }
        last
    }

    /// This channel cannot be heard now: whoever wanted to may ask again.
    pub(super) fn forget_all(&self, channel: &str) {
        self.strangers().remove(channel.as_bytes());
    }

    /// All who want to hear this channel should look.
    pub(super) fn look(&self, channel: &[u8]) {
        for claim in self.strangers().get(channel).into_iter().flatten() {
            self.bell.ring(Wake::Look(*claim));
        }
    }

    fn strangers(&self) -> MutexGuard<'_, HashMap<Vec<u8>, HashSet<ClaimId>>> {
        self.strangers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
