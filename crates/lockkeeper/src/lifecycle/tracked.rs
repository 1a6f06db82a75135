//! One claim of this keeper as the lifecycle sees it: waiting, held, at risk, lost. Pure state; the
//! watchdog moves it, guards and waiting callers observe it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::deadline::Moment;
use super::local_line::LineKey;
use super::locked;
use crate::backend::Standing;
use crate::claim::{Claim, ClaimId};
use crate::error::{Error, LostReason};
use crate::guarantees::Guarantees;
use crate::guard::Guard;
use crate::{Mode, Name};

/// Where a claim is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Held,
    AtRisk,
    Lost(LostReason),
}

/// A claim under the watchdog's eyes.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) id: ClaimId,
    /// Whether the watchdog renews it once it is held.
    kept: bool,
    /// Whether the caller has taken the grant over. A grant that nobody picks up is not renewed, so
    /// that an acquire which is never polled again blocks others for one lease only.
    collected: AtomicBool,
    life: Mutex<Life>,
    /// Rung when the phase has changed.
    changed: Notify,
}

#[derive(Debug)]
struct Life {
    phase: Phase,
    /// With the lease that the engine keeps, which is longer than what is believed in by the delay.
    claim: Claim,
    /// For so long the engine keeps others out once the hold has been lost.
    delay: Duration,
    key: LineKey,
    order: u64,
    /// Its number from another engine: there for as long as the claim is in this one's list.
    number: Option<Number>,
    /// When the last question that the engine answered was sent.
    asked: Moment,
    /// Until when the hold may be believed in.
    deadline: Moment,
    /// When the watchdog looks at it next.
    due: Moment,
    in_flight: bool,
    /// News came while a question was in flight: its answer may be older than the news.
    ask_again: bool,
    ended: bool,
}

/// A number, and what keeps it in the engine that gave it.
#[derive(Debug)]
struct Number {
    order: u64,
    guard: Option<Guard>,
}

/// How long a hold is good for without renewal, and for how long others are kept out once it is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) lease: Duration,
    pub(crate) delay: Duration,
}

impl Term {
    /// What the engine is asked for.
    pub(crate) fn whole(self) -> Duration {
        self.lease.saturating_add(self.delay)
    }

    /// How long a hold may be believed in after an answer.
    pub(crate) fn believed(self, promise: &Guarantees) -> Duration {
        promise.believed(self.whole()).saturating_sub(self.delay)
    }
}

/// What a caller finds who picks its hold up.
#[derive(Debug)]
pub(crate) struct Collected {
    /// The watchdog has to look at it at another time than before.
    pub(crate) moved: bool,
    /// How long it is good for; zero if it is lost.
    pub(crate) left: Duration,
}

/// What the watchdog has to do about a claim that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Ask the engine.
    Renew,
    /// Nothing now; look again at this moment.
    Later(Moment),
    /// The deadline has passed: it has just been reported lost.
    Expired,
    /// It needs no more looking after.
    Over,
}

impl Tracked {
    /// The claim's lease includes the delay.
    pub(crate) fn new(claim: Claim, delay: Duration, key: LineKey, kept: bool) -> Self {
        let id = claim.id;
        let life = Life {
            phase: Phase::Waiting,
            claim,
            delay,
            key,
            order: 0,
            number: None,
            asked: Moment::from_nanos(0),
            deadline: Moment::NEVER,
            due: Moment::NEVER,
            in_flight: false,
            ask_again: false,
            ended: false,
        };
        Self {
            id,
            kept,
            collected: AtomicBool::new(false),
            life: Mutex::new(life),
            changed: Notify::new(),
        }
    }

    pub(crate) fn claim(&self) -> Claim {
        locked(&self.life).claim.clone()
    }

    pub(crate) fn key(&self) -> LineKey {
        locked(&self.life).key.clone()
    }

    /// The engine's order number.
    pub(crate) fn order(&self) -> u64 {
        locked(&self.life).order
    }

    /// What is held and how, and what its token is made of.
    pub(crate) fn particulars(&self) -> (Name, Mode, u64) {
        let life = locked(&self.life);
        let number = life.number.as_ref();
        let number = number.map_or(life.order, |number| number.order);
        (life.claim.name.clone(), life.claim.mode, number)
    }

    /// Another engine gave the number that counts.
    pub(crate) fn numbered(&self, guard: Guard) {
        let order = guard.token().order();
        let guard = Some(guard);
        locked(&self.life).number = Some(Number { order, guard });
    }

    /// How long it is good for, and for how long others are kept out if it is lost.
    pub(crate) fn term(&self) -> Term {
        let life = locked(&self.life);
        Term {
            lease: life.lease(),
            delay: life.delay,
        }
    }

    /// Whether it ended in a way after which others are to be kept out for a while: nobody may take it
    /// out of the engine's list.
    pub(crate) fn lingers(&self, now: Moment) -> bool {
        let life = locked(&self.life);
        let over = match life.phase {
            Phase::Waiting => false,
            Phase::Lost(_) => true,
            Phase::Held | Phase::AtRisk => now >= life.deadline,
        };
        over && !life.delay.is_zero()
    }

    /// How long after an answer it is believed in: its lease, or less if less was granted.
    pub(crate) fn believed_for(&self) -> Duration {
        let life = locked(&self.life);
        life.lease().min(life.deadline - life.asked)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(crate) fn deadline(&self) -> Moment {
        locked(&self.life).deadline
    }

    pub(crate) fn due(&self) -> Moment {
        locked(&self.life).due
    }

    pub(crate) fn phase(&self) -> Phase {
        locked(&self.life).phase.clone()
    }

    /// Ends when the phase changes from what it is now.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(locked(&self.life).phase, Phase::Lost(_))
    }

    pub(crate) fn is_ended(&self) -> bool {
        locked(&self.life).ended
    }

    /// The caller, who asked for this term, has the guard in its hands.
    pub(crate) fn collect(&self, term: Term, now: Moment) -> Collected {
        self.collected.store(true, Ordering::Release);
        let mut life = locked(&self.life);
        // A waiter's next look, a little later than a holder's would be, will do.
        let in_good_time = life.asked + (life.deadline - life.asked) / 2;
        let put_off = self.kept && life.due > in_good_time && !life.in_flight;
        if put_off {
            life.due = life.renew_at();
        }
        let longer = life.lengthen(term, now);
        let left = match life.phase {
            Phase::Lost(_) => Duration::ZERO,
            _ => life.deadline - now,
        };
        Collected {
            moved: put_off || longer,
            left,
        }
    }

    /// The hold goes to another caller of this process, who has not picked it up yet.
    pub(crate) fn hand_on(&self) {
        self.collected.store(false, Ordering::Release);
    }

    /// An inner entry may ask for a longer lease than the outer one, never for a shorter; true if the
    /// engine is to be told so now.
    pub(crate) fn lengthen(&self, term: Term, now: Moment) -> bool {
        locked(&self.life).lengthen(term, now)
    }

    /// A downgraded hold: shared from now on, and outside its old line.
    pub(crate) fn becomes_shared(&self, key: LineKey) {
        let mut life = locked(&self.life);
        life.claim.mode = crate::Mode::Shared;
        life.key = key;
    }

    /// No renewal follows a release.
    pub(crate) fn end(&self) {
        let mut life = locked(&self.life);
        life.ended = true;
        let number = life.number.as_mut().and_then(|number| number.guard.take());
        drop(life);
        // What it does is none of this claim's business.
        drop(number);
    }

    /// Ends the hold with this reason, unless it has ended already; true if this call did it.
    pub(crate) fn lose(&self, reason: LostReason) -> bool {
        self.set(locked(&self.life), Phase::Lost(reason))
    }

    /// Looks at it now rather than later.
    pub(crate) fn hurry(&self, now: Moment) {
        let mut life = locked(&self.life);
        if life.in_flight {
            life.ask_again = true;
        } else {
            life.due = now;
        }
    }

    /// The claim's turn on the agenda has come.
    pub(crate) fn look(&self, now: Moment) -> Due {
        let mut life = locked(&self.life);
        if life.ended || matches!(life.phase, Phase::Lost(_)) {
            return Due::Over;
        }
        let holding = life.phase != Phase::Waiting;
        if holding && now >= life.deadline {
            self.set(life, Phase::Lost(LostReason::Expired));
            return Due::Expired;
        }
        let renews = !holding || (self.kept && self.collected.load(Ordering::Acquire));
        if !renews || life.in_flight {
            life.due = life.deadline;
            return Due::Later(life.due);
        }
        life.in_flight = true;
        life.due = life.deadline;
        Due::Renew
    }

    /// Takes in the engine's answer to a question that was sent at `sent`; true if the claim is lost
    /// by it.
    pub(crate) fn answered(
        &self,
        answer: &Result<Standing, Error>,
        sent: Moment,
        now: Moment,
    ) -> bool {
        let mut life = locked(&self.life);
        life.in_flight = false;
        // A renewal that was overtaken by the release finds the claim gone: that is no loss.
        if life.ended {
            return false;
        }
        let ask_again = std::mem::take(&mut life.ask_again);
        let waiting = life.phase == Phase::Waiting;
        let lease = life.lease();
        match answer {
            // Too late: what was reported as over stays over.
            Ok(Standing::Holds { .. }) if !waiting && now >= life.deadline => {
                self.set(life, Phase::Lost(LostReason::Expired))
            }
            // The fencing token was made of the number of the grant.
            Ok(Standing::Holds { order, .. }) if !waiting && *order != life.order => {
                self.set(life, Phase::Lost(LostReason::Renumbered))
            }
            Ok(Standing::Holds { order, lease_left }) => {
                life.believe(*order, sent, *lease_left);
                // Whether or not the caller has it yet: nearly all have it by then.
                life.due = match (self.kept, ask_again) {
                    (true, false) => life.renew_at(),
                    (true, true) => now.min(life.deadline),
                    (false, _) => life.deadline,
                };
                self.set(life, Phase::Held);
                false
            }
            Ok(Standing::Waits { look_again_in, .. }) if waiting => {
                life.asked = sent;
                let pause = (*look_again_in).min(lease / 3).max(SHORTEST_PAUSE);
                life.due = if ask_again { now } else { now + pause };
                false
            }
            // An answer from before the push that promoted it.
            Ok(Standing::Waits { .. }) if ask_again => {
                life.due = now;
                false
            }
            Ok(Standing::Waits { .. } | Standing::Gone) => {
                self.set(life, Phase::Lost(LostReason::Gone))
            }
            // Without an answer for a whole lease, or with a clear no, the place in line is not worth
            // waiting in: the driver asks for a new one, and learns what is wrong.
            Ok(Standing::Unknown) | Err(_)
                if waiting && (is_definite(answer) || now - life.asked >= lease) =>
            {
                self.set(life, Phase::Lost(LostReason::Expired))
            }
            Ok(Standing::Unknown) | Err(_) => {
                life.due = (now + retry_pause(lease)).min(life.deadline);
                if !waiting {
                    self.set(life, Phase::AtRisk);
                }
                false
            }
        }
    }

    /// The engine pushed that the claim holds, on the lease of its last renewal; of which no more than
    /// `at_most` can be believed in.
    pub(crate) fn promoted(&self, order: u64, at_most: Duration) {
        let mut life = locked(&self.life);
        if life.phase == Phase::Waiting && !life.ended {
            let (asked, lease) = (life.asked, life.claim.lease);
            life.believe(order, asked, lease.min(at_most));
            life.ask_again = life.in_flight;
            self.set(life, Phase::Held);
        }
    }

    /// Moves on to `next`, unless the claim is lost: from there is no way back.
    fn set(&self, mut life: MutexGuard<'_, Life>, next: Phase) -> bool {
        let changes = !matches!(life.phase, Phase::Lost(_)) && life.phase != next;
        if changes {
            life.phase = next;
            drop(life);
            self.changed.notify_waiters();
        }
        changes
    }
}

impl Life {
    fn lease(&self) -> Duration {
        self.claim.lease - self.delay
    }

    fn lengthen(&mut self, term: Term, now: Moment) -> bool {
        let longer = term.lease > self.lease() || term.delay > self.delay;
        if longer {
            let lease = self.lease().max(term.lease);
            self.delay = self.delay.max(term.delay);
            self.claim.lease = lease + self.delay;
            if self.in_flight {
                self.ask_again = true;
            } else {
                self.due = now;
            }
        }
        longer
    }

    /// When a hold is renewed: by what was granted, which may be less than the lease.
    fn renew_at(&self) -> Moment {
        self.asked + (self.deadline - self.asked) / 3
    }

    /// The hold is good until its lease ends, counted from the *sending* of the question, less what
    /// the clocks of both sides may drift apart meanwhile.
    fn believe(&mut self, order: u64, sent: Moment, lease_left: Duration) {
        let lease = lease_left.saturating_sub(self.delay).min(self.lease());
        self.order = order;
        self.asked = sent;
        self.deadline = sent + (lease - lease / 100);
    }
}

fn is_definite(answer: &Result<Standing, Error>) -> bool {
    matches!(answer, Err(error) if !error.is_unknown())
}

/// No claim asks more often than this, whatever the engine advises.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);

/// How long a failed renewal waits before it is tried again.
pub(crate) fn retry_pause(lease: Duration) -> Duration {
    (lease / 10).clamp(Duration::from_millis(10), Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::claim::{ClaimId, Party};

    const LEASE: Duration = Duration::from_secs(3);
    const TERM: Term = Term {
        lease: LEASE,
        delay: Duration::ZERO,
    };
    const WAITS: Result<Standing, Error> = Ok(Standing::Waits {
        ahead: 1,
        look_again_in: Duration::from_secs(1),
    });

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    fn holds(lease_left: Duration) -> Result<Standing, Error> {
        Ok(Standing::Holds {
            order: 7,
            lease_left,
        })
    }

    fn unreachable() -> Result<Standing, Error> {
        Err(Error::Unreachable {
            backend: "test",
            during: "a test".into(),
            source: None,
        })
    }

    fn tracked() -> Tracked {
        let claim = Claim {
            id: ClaimId::from_bytes([1; 16]),
            name: Name::new("n").unwrap(),
            mode: Mode::Exclusive,
            lease: LEASE,
            party: Arc::new(Party::here("test")),
        };
        Tracked::new(claim, Duration::ZERO, LineKey::Solo(1), true)
    }

    fn held() -> Tracked {
        let tracked = tracked();
        assert!(!tracked.answered(&holds(LEASE), at(0), at(0)));
        tracked.collect(TERM, at(0));
        tracked
    }

    #[test]
    fn an_answer_from_before_the_promotion_takes_nothing_back() {
        let tracked = tracked();
        tracked.answered(&WAITS, at(0), at(0));
        assert_eq!(tracked.look(at(1000)), Due::Renew);
        tracked.promoted(7, Duration::MAX);
        assert!(!tracked.answered(&WAITS, at(1000), at(1001)));
        assert_eq!((tracked.phase(), tracked.due()), (Phase::Held, at(1001)));
    }

    // proves: L7
    #[test]
    fn a_push_is_believed_for_no_longer_than_the_engine_keeps_silent_claims() {
        let tracked = tracked();
        tracked.answered(&WAITS, at(0), at(0));
        tracked.promoted(7, LEASE / 3);
        assert_eq!(tracked.deadline(), at(990));
        assert_eq!(tracked.look(at(990)), Due::Expired);
    }

    /// An engine may grant less than the lease that was asked for, as a session of ten seconds does
    /// under a lease of thirty: a third of the lease is then too late for the first renewal.
    // proves: W1
    #[test]
    fn a_hold_is_renewed_by_what_was_granted_not_by_what_was_asked_for() {
        let tracked = tracked();
        tracked.answered(&holds(LEASE / 3), at(0), at(0));
        assert!(tracked.due() < at(500), "{:?}", tracked.due());
        assert_eq!(tracked.look(at(400)), Due::Later(at(990)), "nobody has it");
        let collected = tracked.collect(TERM, at(400));
        assert!(collected.moved, "its renewal had been put off");
        assert_eq!(collected.left, Duration::from_millis(590));
        assert!(tracked.due() < at(500), "{:?}", tracked.due());
    }

    // Late, twice, or forged: a push grants nothing that the last renewal did not cover.
    // proves: W5, L6
    #[test]
    fn a_push_counts_from_the_last_renewal_and_revives_nothing() {
        let waiting = tracked();
        waiting.answered(&WAITS, at(100), at(200));
        waiting.promoted(7, Duration::MAX);
        waiting.promoted(8, Duration::MAX);
        assert_eq!((waiting.order(), waiting.deadline()), (7, at(3070)));
        assert_eq!(waiting.look(at(3070)), Due::Expired, "it came too late");
        let left = tracked();
        left.answered(&WAITS, at(0), at(0));
        left.end();
        left.promoted(7, Duration::MAX);
        assert_eq!((left.phase(), left.order()), (Phase::Waiting, 0));
    }

    // proves: L8
    #[test]
    fn a_renewal_that_the_release_overtook_loses_nothing() {
        let tracked = held();
        assert_eq!(tracked.look(at(1000)), Due::Renew);
        tracked.end();
        assert!(!tracked.answered(&Ok(Standing::Gone), at(1000), at(1001)));
        assert_eq!(tracked.phase(), Phase::Held);
    }

    // proves: L7
    #[test]
    fn what_is_over_stays_over() {
        let tracked = held();
        assert_eq!(tracked.look(at(1000)), Due::Renew);
        assert!(tracked.answered(&holds(LEASE), at(1000), at(3000)));
        assert_eq!(tracked.phase(), Phase::Lost(LostReason::Expired));
    }

    /// Its token was made of the first number.
    // proves: F1
    #[test]
    fn a_renewal_under_another_number_is_a_loss() {
        let tracked = held();
        let other = Ok(Standing::Holds {
            order: 8,
            lease_left: LEASE,
        });
        assert_eq!(tracked.look(at(1000)), Due::Renew);
        assert!(tracked.answered(&other, at(1000), at(1001)));
        assert_eq!(tracked.phase(), Phase::Lost(LostReason::Renumbered));
        assert_eq!(tracked.order(), 7);
    }

    #[test]
    fn a_longer_lease_asked_for_during_a_renewal_is_asked_for_next() {
        let tracked = held();
        assert_eq!(tracked.look(at(1000)), Due::Renew);
        let longer = Term {
            lease: LEASE * 10,
            delay: Duration::ZERO,
        };
        assert!(tracked.lengthen(longer, at(1001)));
        assert!(!tracked.answered(&holds(LEASE), at(1000), at(1002)));
        assert_eq!(tracked.due(), at(1002));
    }

    // proves: W2
    #[test]
    fn a_waiter_without_an_answer_for_a_lease_gives_its_place_up() {
        let tracked = tracked();
        tracked.answered(&WAITS, at(0), at(0));
        assert!(!tracked.answered(&unreachable(), at(1000), at(2000)));
        assert_eq!(tracked.phase(), Phase::Waiting);
        assert!(tracked.answered(&unreachable(), at(2500), at(3000)));
    }

    // proves: W2
    #[test]
    fn a_holder_without_an_answer_is_at_risk_until_its_deadline() {
        let tracked = held();
        assert!(!tracked.answered(&unreachable(), at(1000), at(1500)));
        assert_eq!(tracked.phase(), Phase::AtRisk);
        assert_eq!(tracked.look(at(2969)), Due::Renew);
        assert_eq!(tracked.look(at(2970)), Due::Expired);
    }
}
