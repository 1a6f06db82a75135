//! How a claim comes in and gets its number: by two plain commands where it is likely to be alone, else by a script.
//!
//! `SET NX PX` puts the claim into its place, with the number that it will likely get; `INCR` behind it gives one. The claim
//! holds if that is the number. The one before it was told on this connection already, so the counter cannot have stood lower
//! when the claim took its place; and since it gave the guess next, nobody got a number of this bucket in between. Whoever
//! lines up behind the claim takes a higher number than it finds there, so it gets none in between either.
//!
//! If it is another number, somebody else came by, and the claim stands there under one that may be somebody's already.
//! Nobody believes in it: it goes out and comes in by the script. It does the same where an answer was lost, since nobody
//! knows what it said. A server spends half the time on two commands that it spends on the shortest script.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use redis::{RedisError, Value};

use super::super::packed::{self, Pack};
use super::super::pipe::Pipe;
use super::super::scripts::{self, Numbering};
use super::super::wire::{self, Asking};
use super::{Link, Told};
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
        if asking.doubts.is_about(asking.id) {
            Box::pin(self.settle(&pipe, asking)).await?;
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
                    counter.gave(number, guess);
                    // It gave more before: its data are older than they were.
                    lifts = number.is_none_or(|number| number < guess);
                    guess = counter.guess();
                    Box::pin(self.settle(&pipe, asking)).await?;
                }
            }
        }
        let script = match lifts {
            true => &scripts.lifting,
            false => &scripts.counting,
        };
        let claim = asking.claim(guess);
        let (args, count) = asking.args(&claim);
        let call = (&**script, &asking.keys[..], &args[..count]);
        let told = self.call_on(&pipe, call, Told::InTurn).await?;
        if lifts {
            counter.lifted(now);
        }
        counter.gave(wire::number(&told), guess);
        Ok(told)
    }

    async fn enter_plainly(
        &self,
        pipe: &Pipe,
        asking: &Asking<'_>,
        (guess, now): (u64, Moment),
    ) -> Result<Plainly, RedisError> {
        // Whatever happens to the answer, or to whoever waits for it.
        let doubt = asking.doubts.about(asking, now);
        let take = Take { asking, guess };
        let told = self.answered(pipe.ask_both(&take, asking.count)).await?;
        let outcome = Plainly::told(told, guess);
        if !matches!(outcome, Ok(Plainly::Misnumbered(_))) {
            doubt.over();
        }
        outcome
    }

    /// Takes a claim out of which nobody knows where it stands.
    async fn settle(&self, pipe: &Pipe, asking: &Asking<'_>) -> Result<(), RedisError> {
        let id = &asking.id.as_bytes()[..];
        let call = (&*scripts::RELEASE, &asking.keys[..1], &[id][..]);
        self.call_on(pipe, call, Told::InTurn).await?;
        asking.doubts.forget(asking.id);
        Ok(())
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
    /// Somebody has the name, and nothing was changed.
    Busy,
    /// It stands there under another number than it got; or under one that nobody gave.
    Misnumbered(Option<u64>),
}

impl Plainly {
    /// An error if the claim was refused.
    fn told([taken, number]: [Value; 2], guess: u64) -> Result<Self, RedisError> {
        if taken.extract_error()? != Value::Okay {
            return Ok(Self::Busy);
        }
        Ok(match wire::number(&number) {
            Some(number) if number == guess => Self::Holds,
            number => Self::Misnumbered(number),
        })
    }
}

/// Claims that may stand under a number which is not theirs.
#[derive(Debug, Default)]
pub(in super::super) struct Doubts(Mutex<HashMap<ClaimId, Moment, RandomState>>);

impl Doubts {
    fn is_about(&self, claim: &ClaimId) -> bool {
        let claims = self.claims();
        !claims.is_empty() && claims.contains_key(claim)
    }

    /// It has been taken out.
    pub(in super::super) fn forget(&self, claim: &ClaimId) {
        let mut claims = self.claims();
        if !claims.is_empty() {
            claims.remove(claim);
        }
    }

    fn about<'a>(&'a self, asking: &Asking<'_>, now: Moment) -> Doubt<'a> {
        Doubt {
            doubts: self,
            claim: *asking.id,
            now,
            until: now + asking.lease * 2,
        }
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<ClaimId, Moment, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Noted when it is dropped, unless it is over.
struct Doubt<'a> {
    doubts: &'a Doubts,
    claim: ClaimId,
    now: Moment,
    /// What was sent before now has ended by then, even if it lay in the server's buffer for a while.
    until: Moment,
}

impl Doubt<'_> {
    fn over(self) {
        std::mem::forget(self);
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        let mut claims = self.doubts.claims();
        claims.retain(|_, until| *until > self.now);
        claims.insert(self.claim, self.until);
    }
}

#[cfg(test)]
mod tests;
