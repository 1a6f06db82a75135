//! Pushes: a release makes every node tell one waiter. The same claim is named by most of them, nearly
//! at once; its keeper asks when a majority has spoken, since then a majority is free, or a moment after
//! the first one spoke.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::quorum::Quorum;
use crate::backend::{Bell, Wake};
use crate::claim::ClaimId;
use crate::lifecycle::deadline::{Clock, Moment};

/// How long the first message waits for others.
const GRACE: Duration = Duration::from_millis(3);
/// What comes later than this belongs to another release.
const STRAGGLERS: Duration = Duration::from_millis(50);

/// A node's message: which node, which claim.
type Heard = (usize, ClaimId);

/// Takes a message in; called by the task that reads the socket.
pub(super) fn hear(tell: &UnboundedSender<Heard>, node: usize, payload: &[u8]) {
    if let Ok(id) = payload.try_into() {
        let _nobody_listens = tell.send((node, ClaimId::from_bytes(id)));
    }
}

/// What was heard about one claim.
#[derive(Debug)]
struct Rumour {
    /// The nodes that spoke, as bits.
    nodes: u32,
    rung: bool,
    since: Moment,
}

/// Rings for each release once; ends when nobody can speak any more.
pub(super) async fn listen(
    mut told: UnboundedReceiver<Heard>,
    quorum: Quorum,
    bell: Bell,
    clock: Clock,
) {
    let mut rumours: HashMap<ClaimId, Rumour> = HashMap::new();
    loop {
        let next = rumours.values().map(Rumour::due).min();
        let heard = tokio::select! {
            biased;
            heard = told.recv() => heard,
            () = clock.sleep_until(next.unwrap_or(Moment::NEVER)), if next.is_some() => {
                settle(&mut rumours, &bell, clock.now());
                continue;
            }
        };
        let Some((node, id)) = heard else { return };
        let now = clock.now();
        let rumour = rumours.entry(id).or_insert_with(|| Rumour::new(now));
        if rumour.nodes & (1 << node) != 0 {
            // It speaks again: of another release.
            *rumour = Rumour::new(now);
        }
        rumour.nodes |= 1 << node;
        if !rumour.rung && quorum.reached(rumour.nodes.count_ones() as usize) {
            rumour.rung = true;
            bell.ring(Wake::Look(id));
        }
    }
}

impl Rumour {
    fn new(now: Moment) -> Self {
        Self {
            nodes: 0,
            rung: false,
            since: now,
        }
    }

    fn due(&self) -> Moment {
        self.since + if self.rung { STRAGGLERS } else { GRACE }
    }
}

/// Rings for what has waited long enough, and forgets what is old.
fn settle(rumours: &mut HashMap<ClaimId, Rumour>, bell: &Bell, now: Moment) {
    rumours.retain(|id, rumour| {
        if rumour.due() > now {
            return true;
        }
        if !rumour.rung {
            rumour.rung = true;
            bell.ring(Wake::Look(*id));
        }
        rumour.since + STRAGGLERS > now
    });
}
