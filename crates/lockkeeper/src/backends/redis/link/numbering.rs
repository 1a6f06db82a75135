//! How a claim comes in and gets its number: by two plain commands where it is likely to be alone, else by a script.
//!
//! `SET NX PX` puts the claim into its place, with the number that it will likely get; `INCR` behind it gives one. The claim
//! holds if that is the number. The one before it was told on this connection already, so the counter cannot have stood lower
//! when the claim took its place; and since it gave the guess next, nobody got a number of this bucket in between. Whoever
//! lines up behind the claim takes a higher number than it finds there, so it gets none in between either.
//!
//! If it is another number, somebody else came by, and the claim stands there under one that may be somebody's already.
//! Nobody believes in it: it goes out and comes in by the script. It does the same where an answer was lost, since nobody
//! knows what it said; and as that `SET` may reach the server at any later moment, by a connection that was given up, its
//! number is kept in mind and never believed. A server spends half the time on two commands that it spends on the
//! shortest script.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use redis::{RedisError, Value};

use super::super::answer;
use super::super::packed::{self, Pack};
use super::super::pipe::Pipe;
use super::super::scripts::{self, Numbering};
use super::super::wire::{self, Asking};
use super::{Link, Told};
use crate::backend::Standing;
use crate::claim::ClaimId;
use crate::lifecycle::deadline::Moment;

impl Link {
    /// Brings a claim in by whichever way is the quickest; answers as the scripts do.
    pub(in super::super) async fn enter(
        &self,
        scripts: &Numbering,
        asking: &Asking<'_>,
    ) -> Result<Value, RedisError> {
        let pipe = self.connection().await?;
        if let Some(doubted) = asking.doubts.guess_of(asking.id) {
            return Box::pin(self.enter_anew(&pipe, scripts, asking, doubted)).await;
        }
        let now = self.clock.now();
        let counter = pipe.counters().of(asking.bucket);
        let (mut lifts, mut guess) = (counter.is_late(now), counter.guess());
        if !lifts && counter.told_before(guess) {
            match self.enter_plainly(&pipe, asking, (guess, now)).await? {
                Plainly::Holds => {
                    counter.gave(Some(guess), guess);
                    return Ok(Value::Int(guess.cast_signed()));
                }
                Plainly::Busy => guess = 0,
                Plainly::Misnumbered(number) => {
                    lifts = counter.went_back(number, guess);
                    if !lifts {
                        counter.gave(number, guess);
                    }
                    guess = counter.guess();
                    Box::pin(self.settle(&pipe, asking)).await?;
                    asking.doubts.forget(asking.id);
                }
            }
        }
        self.enter_by(scripts, &pipe, asking, (lifts, guess)).await
    }

    async fn enter_plainly(
        &self,
        pipe: &Pipe,
        asking: &Asking<'_>,
        (guess, now): (u64, Moment),
    ) -> Result<Plainly, RedisError> {
        // Whatever happens to the answer, or to whoever waits for it.
        let doubt = asking.doubts.about(asking, guess, now);
        let take = Take { asking, guess };
        let told = self.answered(pipe.ask_both(&take, asking.count)).await?;
        let outcome = Plainly::told(told, guess);
        if !matches!(outcome, Ok(Plainly::Misnumbered(_))) {
            doubt.over();
        }
        outcome
    }

    async fn enter_by(
        &self,
        scripts: &Numbering,
        pipe: &Pipe,
        asking: &Asking<'_>,
        (lifts, guess): (bool, u64),
    ) -> Result<Value, RedisError> {
        let lifted = lifts.then(|| self.clock.now());
        let script = match lifts {
            true => &scripts.lifting,
            false => &scripts.counting,
        };
        let claim = asking.claim(guess);
        let (args, count) = asking.args(&claim);
        let call = (&**script, &asking.keys[..], &args[..count]);
        let told = self.call_on(pipe, call, Told::InTurn).await?;
        let counter = pipe.counters().of(asking.bucket);
        if let Some(asked) = lifted {
            counter.lifted(asked);
        }
        counter.gave(wire::number(&told), guess);
        Ok(told)
    }

    /// Brings a claim in that may be there under a doubted number, or may yet come there.
    async fn enter_anew(
        &self,
        pipe: &Pipe,
        scripts: &Numbering,
        asking: &Asking<'_>,
        doubted: u64,
    ) -> Result<Value, RedisError> {
        loop {
            self.settle(pipe, asking).await?;
            let told = self.enter_by(scripts, pipe, asking, (true, 0)).await?;
            match wire::entered(&told, asking.lease) {
                Some(Standing::Holds { order, .. }) if order == doubted => {}
                _ => return Ok(told),
            }
        }
    }

    /// Takes a claim out of which nobody knows where it stands.
    async fn settle(&self, pipe: &Pipe, asking: &Asking<'_>) -> Result<(), RedisError> {
        let id = &asking.id.as_bytes()[..];
        let call = (&*scripts::RELEASE, &asking.keys[..1], &[id][..]);
        let told = self.call_on(pipe, call, Told::InTurn).await;
        told.map(drop).map_err(answer::in_doubt)
    }
}

/// `SET NX PX` of a claim under the number that it will likely get.
struct Take<'a> {
    asking: &'a Asking<'a>,
    guess: u64,
}

impl Pack for Take<'_> {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
        packed::part(to, self.asking.keys[0]);
        packed::part_of(to, &self.asking.claim_parts(&wire::digits(self.guess)));
        to.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
        packed::part(to, self.asking.lease_ms.as_bytes());
    }
}

/// What two plain commands have come to.
#[derive(Debug, PartialEq)]
enum Plainly {
    Holds,
    /// Somebody has the name; a number was counted for nobody.
    Busy,
    /// It stands there under another number than it got; or under one that nobody gave.
    Misnumbered(Option<u64>),
}

impl Plainly {
    /// An error if the claim was refused.
    fn told([taken, number]: [Value; 2], guess: u64) -> Result<Self, RedisError> {
        let taken = taken.extract_error()? == Value::Okay;
        let number = wire::number(&number);
        Ok(match taken {
            true if number == Some(guess) => Self::Holds,
            true => Self::Misnumbered(number),
            false => Self::Busy,
        })
    }
}

/// Claims that may stand under a number which is not theirs, or may yet come to; each was sent by plain commands once.
#[derive(Debug, Default)]
pub(in super::super) struct Doubts(Mutex<HashMap<ClaimId, Doubted, RandomState>>);

#[derive(Debug)]
struct Doubted {
    guess: u64,
    /// What was sent has ended by then, even if it lay in some buffer for a lease.
    until: Moment,
}

impl Doubts {
    /// The number under which this claim is not to be believed in.
    fn guess_of(&self, claim: &ClaimId) -> Option<u64> {
        let claims = self.claims();
        if claims.is_empty() {
            return None;
        }
        claims.get(claim).map(|doubted| doubted.guess)
    }

    /// It has been taken out.
    pub(in super::super) fn forget(&self, claim: &ClaimId) {
        let mut claims = self.claims();
        if !claims.is_empty() {
            claims.remove(claim);
        }
    }

    fn about<'a>(&'a self, asking: &Asking<'_>, guess: u64, now: Moment) -> Doubt<'a> {
        let until = now + asking.lease.saturating_mul(2);
        Doubt {
            doubts: self,
            claim: *asking.id,
            now,
            doubted: Some(Doubted { guess, until }),
        }
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<ClaimId, Doubted, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Noted when it is dropped, unless it is over.
struct Doubt<'a> {
    doubts: &'a Doubts,
    claim: ClaimId,
    now: Moment,
    doubted: Option<Doubted>,
}

impl Doubt<'_> {
    fn over(mut self) {
        self.doubted = None;
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(doubted) = self.doubted.take() {
            let mut claims = self.doubts.claims();
            claims.retain(|_, other| other.until > self.now);
            claims.insert(self.claim, doubted);
        }
    }
}

#[cfg(test)]
mod tests;
