//! One watchdog per keeper: it keeps every claim alive, in batches, takes in the engine's pushes, and
//! reports what is lost, no later than the local deadline.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::sync::Notify;

use super::core::Core;
use super::deadline::{Clock, Moment};
use super::detached::started;
use super::limits::Calls;
use super::locked;
use super::tracked::{Due, Tracked};
use crate::backend::{Standing, Wake};
use crate::claim::{Claim, ClaimId};
use crate::error::Error;

/// The most claims in one renewal.
const BATCH: usize = 500;
/// What is due this soon goes along with what is due now; of long leases, more than that. So claims that came one
/// after the other are soon renewed together, and many cost no more questions than one.
const SLACK: Duration = Duration::from_millis(20);
const LONGEST_SLACK: Duration = Duration::from_secs(5);

/// The claims of a keeper, ordered by when each needs looking after.
#[derive(Debug)]
pub(crate) struct Watchdog {
    agenda: Mutex<Agenda>,
    /// A pushed hold is believed in for so long after the last answer, at most.
    longest_silence: Duration,
    /// Something earlier than before stands on the agenda.
    nudge: Notify,
}

#[derive(Debug)]
struct Agenda {
    /// When the loop will look at the agenda by itself, whether or not the claim that this was for is still
    /// there. Claims that come and go quickly then cost one needless look per lease, instead of a wake-up of the
    /// loop each.
    looks_at: Moment,
    order: BTreeSet<(Moment, ClaimId)>,
    claims: HashMap<ClaimId, (Arc<Tracked>, Moment), RandomState>,
    /// What the engine was asked and has not answered.
    calls: Calls,
    /// How many notifications may have been for claims that were not yet here. It is raised under the same lock as
    /// the claim is looked up: a claim that is added later sees it raised.
    strays: u64,
}

impl Default for Agenda {
    fn default() -> Self {
        Self {
            looks_at: Moment::NEVER,
            order: BTreeSet::new(),
            claims: HashMap::default(),
            calls: Calls::default(),
            strays: 0,
        }
    }
}

impl Watchdog {
    pub(crate) fn new(longest_silence: Duration) -> Self {
        Self {
            agenda: Mutex::default(),
            longest_silence,
            nudge: Notify::new(),
        }
    }

    /// Puts the claim on the agenda, or moves it there to its new time.
    pub(crate) fn schedule(&self, tracked: &Arc<Tracked>) {
        let mut guard = locked(&self.agenda);
        let agenda = &mut *guard;
        let due = tracked.due();
        match agenda.claims.entry(tracked.id) {
            Entry::Occupied(mut known) => {
                let old = std::mem::replace(&mut known.get_mut().1, due);
                agenda.order.remove(&(old, tracked.id));
            }
            Entry::Vacant(new) => drop(new.insert((tracked.clone(), due))),
        }
        agenda.order.insert((due, tracked.id));
        self.look_by(agenda, due);
    }

    /// A call is under way that is overdue at this moment; whoever waits for it is woken then. Nothing if the loop has ended.
    pub(super) fn call_begins(&self, until: Moment, waker: &Waker) -> Option<(Moment, u64)> {
        let mut agenda = locked(&self.agenda);
        let key = agenda.calls.begin(until, waker)?;
        self.look_by(&mut agenda, until);
        Some(key)
    }

    pub(super) fn call_ended(&self, key: (Moment, u64)) {
        let ended = locked(&self.agenda).calls.end(key);
        // Not while it is locked: what a waker does when it is dropped is its own affair.
        drop(ended);
    }

    /// Wakes whoever waits for a call that is overdue.
    fn wake_overdue(&self, now: Moment) {
        let overdue = locked(&self.agenda).calls.overdue(now);
        overdue.for_each(Waker::wake);
    }

    fn look_by(&self, agenda: &mut Agenda, moment: Moment) {
        if moment < agenda.looks_at {
            agenda.looks_at = moment;
            self.nudge.notify_one();
        }
    }

    /// Takes the claim off the agenda: nothing renews it any more.
    pub(crate) fn forget(&self, tracked: &Tracked) {
        tracked.end();
        self.strike(tracked);
    }

    /// The same for a claim that has ended already.
    pub(crate) fn strike(&self, tracked: &Tracked) {
        locked(&self.agenda).strike(tracked);
    }

    /// Changes whenever a push came that may have been for a claim which is not on the agenda yet.
    pub(crate) fn strays(&self) -> u64 {
        locked(&self.agenda).strays
    }

    /// How many claims are looked after.
    pub(crate) fn len(&self) -> usize {
        locked(&self.agenda).claims.len()
    }

    /// Wakes the loop so that it notices that its keeper is gone.
    pub(crate) fn stop(&self) {
        self.nudge.notify_one();
    }

    /// Takes in an engine's push.
    pub(crate) fn take_in(&self, wake: Wake, now: Moment) {
        let claims: Vec<Arc<Tracked>> = {
            let mut agenda = locked(&self.agenda);
            let find = |id: &ClaimId| agenda.claims.get(id).map(|(tracked, _)| tracked.clone());
            let claims: Vec<_> = match &wake {
                Wake::Look(id) | Wake::Holds { claim: id, .. } => find(id).into_iter().collect(),
                Wake::LookAll => agenda
                    .claims
                    .values()
                    .map(|(claim, _)| claim.clone())
                    .collect(),
            };
            if claims.is_empty() || wake == Wake::LookAll {
                agenda.strays += 1;
            }
            claims
        };
        for tracked in claims {
            match wake {
                // Its renewal is due when it always was: the push saves the question.
                Wake::Holds { order, .. } => tracked.promoted(order, self.longest_silence),
                Wake::Look(_) | Wake::LookAll => {
                    tracked.hurry(now);
                    self.schedule(&tracked);
                }
            }
        }
    }

    /// Everything that is due, sorted into what must be renewed and what has just been lost.
    fn collect_due(&self, now: Moment) -> (Vec<Arc<Tracked>>, Vec<Arc<Tracked>>) {
        let (mut renew, mut expired) = (Vec::new(), Vec::new());
        let mut agenda = locked(&self.agenda);
        // Each once: what is put off until a deadline that is near would be soon again, for ever.
        let soon = agenda.order.iter().copied();
        let soon = soon.take_while(|(due, _)| *due <= now + LONGEST_SLACK);
        let soon: Vec<_> = soon.collect();
        for (due, id) in soon {
            if due > now && renew.is_empty() {
                break;
            }
            let Some((tracked, _)) = agenda.claims.get(&id) else {
                agenda.order.remove(&(due, id));
                continue;
            };
            let tracked = tracked.clone();
            if due > now + slack(tracked.believed_for()) {
                continue;
            }
            agenda.order.remove(&(due, id));
            match tracked.look(now) {
                Due::Over => agenda.strike(&tracked),
                Due::Expired => {
                    agenda.strike(&tracked);
                    expired.push(tracked);
                }
                Due::Later(moment) => agenda.put_off(tracked, moment),
                Due::Renew => {
                    agenda.put_off(tracked.clone(), tracked.due());
                    renew.push(tracked);
                }
            }
        }
        (renew, expired)
    }

    /// When the loop has to look next. A look that was planned stays planned until it is over.
    fn plan(&self, now: Moment) -> Moment {
        let mut agenda = locked(&self.agenda);
        let first = agenda.order.first().map_or(Moment::NEVER, |(due, _)| *due);
        let first = first.min(agenda.calls.first());
        let over = agenda.looks_at <= now;
        agenda.looks_at = if over {
            first
        } else {
            first.min(agenda.looks_at)
        };
        agenda.looks_at
    }
}

/// How much too early a claim that is believed in for so long may be looked at, if that saves a question: half the
/// time between two renewals.
fn slack(believed: Duration) -> Duration {
    (believed / 6).clamp(SLACK, LONGEST_SLACK)
}

impl Agenda {
    fn strike(&mut self, tracked: &Tracked) {
        if let Some((_, due)) = self.claims.remove(&tracked.id) {
            self.order.remove(&(due, tracked.id));
        }
    }

    fn put_off(&mut self, tracked: Arc<Tracked>, due: Moment) {
        self.order.insert((due, tracked.id));
        self.claims.insert(tracked.id, (tracked, due));
    }
}

/// The watchdog's loop; it ends with its keeper.
pub(crate) fn run(
    core: Weak<Core>,
    watchdog: Arc<Watchdog>,
    clock: Clock,
) -> impl Future<Output = ()> + Send {
    // Also of a loop that never began.
    let at_the_end = AtTheEnd(watchdog);
    async move { look_after(core, &at_the_end.0, clock).await }
}

async fn look_after(core: Weak<Core>, watchdog: &Watchdog, clock: Clock) {
    let mut timer = clock.timer().ok();
    loop {
        let next = watchdog.plan(clock.now());
        let ring = async {
            let rung = match &mut timer {
                Some(timer) => timer.ring_at(next).await.is_ok(),
                None => false,
            };
            // Without a boot-time timer the plain one serves; it is late after a suspend only.
            if !rung {
                clock.sleep_until(next).await;
            }
        };
        tokio::select! {
            () = ring => {}
            () = watchdog.nudge.notified() => {}
        }
        let Some(core) = core.upgrade() else { return };
        let now = clock.now();
        watchdog.wake_overdue(now);
        let (renew, expired) = watchdog.collect_due(now);
        for tracked in expired {
            core.hold_ended(&tracked);
        }
        for batch in renew.chunks(BATCH) {
            started(&core.runtime, renew_batch(core.clone(), batch.to_vec())).await;
        }
    }
}

/// Without the loop, as when the keeper's runtime has gone, nobody would ever wake those who wait.
struct AtTheEnd(Arc<Watchdog>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let waiting = locked(&self.0.agenda).calls.at_the_end();
        waiting.for_each(Waker::wake);
    }
}

async fn renew_batch(core: Arc<Core>, batch: Vec<Arc<Tracked>>) {
    let claims: Vec<Claim> = batch.iter().map(|tracked| tracked.claim()).collect();
    let leases = batch.iter().map(|tracked| tracked.term().lease);
    let shortest = leases.min().unwrap_or_default();
    let sent = core.clock.now();
    let call = core.backend.renew(&claims);
    let answers = core.limited(shortest, sent, "renewing leases", call).await;
    let now = core.clock.now();
    let answer_for = |place: usize| -> Result<Standing, Error> {
        let standings = answers.as_ref().map_err(Clone::clone)?;
        Ok(standings.get(place).copied().unwrap_or(Standing::Gone))
    };
    for (place, tracked) in batch.iter().enumerate() {
        let lost = tracked.answered(&answer_for(place), sent, now);
        if lost {
            core.watchdog.forget(tracked);
            core.hold_ended(tracked);
        } else if !tracked.is_ended() {
            core.watchdog.schedule(tracked);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::super::local_line::LineKey;
    use super::*;
    use crate::claim::Party;
    use crate::{Mode, Name};

    fn claim() -> Arc<Tracked> {
        let name = Name::new("n").unwrap();
        let claim = Claim {
            id: ClaimId::random().unwrap(),
            name: name.clone(),
            mode: Mode::Exclusive,
            lease: Duration::from_secs(30),
            party: Arc::new(Party {
                label: String::new(),
                host: String::new(),
                pid: 1,
            }),
        };
        let key = LineKey::Common(name);
        Arc::new(Tracked::new(claim, Duration::ZERO, key, true))
    }

    fn due_at(watchdog: &Watchdog, due: Moment) -> Arc<Tracked> {
        let tracked = claim();
        tracked.hurry(due);
        watchdog.schedule(&tracked);
        tracked
    }

    /// A claim that enters while its notification arrives is either found by the notification or sees that an
    /// unmatched one came.
    // proves: W5
    #[test]
    fn a_notification_beside_the_entry_of_its_claim_is_not_lost() {
        let (start, arrives) = (Moment::from_nanos(1), Moment::from_nanos(2));
        for _ in 0..30_000 {
            let watchdog = Watchdog::new(Duration::MAX);
            let (tracked, barrier) = (claim(), std::sync::Barrier::new(2));
            let before = watchdog.strays();
            let noticed = std::thread::scope(|scope| {
                scope.spawn(|| {
                    barrier.wait();
                    watchdog.take_in(Wake::Look(tracked.id), arrives);
                });
                let entering = scope.spawn(|| {
                    tracked.hurry(start);
                    barrier.wait();
                    watchdog.schedule(&tracked);
                    watchdog.strays() != before
                });
                entering.join().unwrap()
            });
            assert!(noticed || tracked.due() == arrives, "nothing will look");
        }
    }

    #[test]
    fn claims_that_come_and_go_wake_the_loop_once() {
        let watchdog = Watchdog::new(Duration::MAX);
        let nudged = || watchdog.nudge.notified().now_or_never().is_some();
        let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
        let first = due_at(&watchdog, at(10));
        assert!(nudged());
        watchdog.forget(&first);
        // However often the loop runs meanwhile.
        assert_eq!(watchdog.plan(at(1)), at(10));
        assert_eq!(watchdog.plan(at(2)), at(10));
        for seconds in 11..20 {
            watchdog.forget(&due_at(&watchdog, at(seconds)));
            assert!(!nudged(), "it will look before that");
        }
        let sooner = due_at(&watchdog, at(9));
        assert!(nudged(), "it would look too late");
        assert_eq!(watchdog.plan(at(3)), at(9));
        watchdog.forget(&sooner);
        assert_eq!(watchdog.plan(at(9)), Moment::NEVER, "that look is over");
    }
}
