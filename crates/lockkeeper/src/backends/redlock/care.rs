//! The care for nodes that do not vote: greeting them, and letting them vote again when they may.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;

use super::REDLOCK;
use super::member::{Health, Member, Rest, Resting, Trouble};
use super::quorum::Quorum;
use super::set::Set;
use crate::backends::redis::packed::Packed;
use crate::error::Error;
use crate::lifecycle::deadline::Moment;

/// How long connecting waits for the slower nodes once a majority votes.
const SLOWER_ONES: Duration = Duration::from_millis(100);
/// How long connecting waits for a majority.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// Nodes that do not vote are looked at this often.
const TEND_EVERY: Duration = Duration::from_millis(500);

impl Set {
    /// The first greeting of all nodes.
    pub(super) async fn join_in(&self, fresh: bool) -> Result<(), Error> {
        let limit = self.clock.now() + CONNECT_WITHIN;
        let mut joining: FuturesUnordered<_> = self
            .members
            .iter()
            .map(|member| self.joins(member))
            .collect();
        let mut answered = 0;
        loop {
            // To begin at once, all of them are needed.
            let patience = if self.quorum.reached(answered) && !fresh {
                SLOWER_ONES
            } else {
                limit - self.clock.now()
            };
            match tokio::time::timeout(patience, joining.next()).await {
                Ok(Some(Ok(()))) => answered += 1,
                Ok(Some(Err(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        drop(joining);
        self.foreign()?;
        if !self.quorum.reached(answered) {
            return Err(self.trouble("connecting"));
        }
        self.same_server_twice().await?;
        if fresh {
            self.start_at_once().await;
        }
        self.seed().await;
        Ok(())
    }

    async fn joins(&self, member: &Member) -> Result<(), Trouble> {
        let joined = async {
            member.link.ready().await?;
            // Listens first: whoever is woken from here on hears it.
            member.link.subscribe(&self.keys.channel()).await?;
            member.greet().await.map(drop)
        };
        let joined = joined.await;
        if let Err(trouble) = &joined {
            member.is_silent(trouble);
        }
        joined
    }

    /// Cuts the first rest short, if it is the first: no node has ever given a number.
    async fn start_at_once(&self) {
        let new = |member: &Arc<Member>| match member.health() {
            Health::Abstains { resting, .. } if resting.seen == 0 => Some(resting),
            _ => None,
        };
        let new: Option<Vec<Resting>> = self.members.iter().map(new).collect();
        let Some(new) = new else { return };
        let seed = new.iter().map(|resting| resting.micros).max().unwrap_or(0);
        let seeded = (self.members.iter().zip(&new))
            .map(|(member, resting)| member.seed(seed, resting, Rest::CutShort));
        join_all(seeded).await;
    }

    /// A node of another set refuses this keeper altogether: with two lists in use, two majorities need
    /// not share a node.
    pub(super) fn foreign(&self) -> Result<(), Error> {
        for member in &*self.members {
            if let Health::Foreign { set } = member.health() {
                return Err(Error::Refused {
                    backend: REDLOCK,
                    why: format!(
                        "{} belongs to the set {set}, and this keeper's is {}; use the same list and the same \
                         longest-lease everywhere. To change them: stop all keepers, wait for one longest lease, \
                         delete the key {} on every node of the old and the new list, and start all keepers anew",
                        member.link.node(),
                        self.words,
                        String::from_utf8_lossy(self.keys.node()),
                    ),
                });
            }
        }
        Ok(())
    }

    /// One server under two names would vote twice.
    async fn same_server_twice(&self) -> Result<(), Error> {
        let info = Arc::new(Packed::words(&[b"INFO", b"server"]));
        let asked = self
            .members
            .iter()
            .map(|member| member.ask_anyway(info.clone()));
        let mut runs: Vec<(String, String)> = Vec::new();
        for (member, told) in self.members.iter().zip(join_all(asked).await) {
            let text = told
                .ok()
                .and_then(|value| redis::from_redis_value::<String>(value).ok());
            let run = text.as_deref().and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("run_id:"))?;
                Some(line.to_owned())
            });
            let (Some(run), node) = (run, member.link.node().to_string()) else {
                continue;
            };
            if let Some((_, other)) = runs.iter().find(|(known, _)| *known == run) {
                return Err(Error::Refused {
                    backend: REDLOCK,
                    why: format!(
                        "{node} and {other} are one server, which would vote twice; name each once"
                    ),
                });
            }
            runs.push((run, node));
        }
        Ok(())
    }

    /// Lets rested nodes vote again, as soon as somebody can tell with which number.
    async fn seed(&self) {
        let rested = |member: &Arc<Member>| match member.health() {
            Health::Rested(resting) => Some((member.clone(), resting)),
            _ => None,
        };
        let rested: Vec<_> = self.members.iter().filter_map(rested).collect();
        if rested.is_empty() {
            return;
        }
        // The counters are read after these rests are over: a grant that the node had a part in is counted
        // by the others by now.
        let health = join_all(self.members.iter().map(|member| member.greet())).await;
        let health: Vec<Health> = health.into_iter().flatten().collect();
        let Some(seed) = seed_from(self.quorum, &health) else {
            return;
        };
        for (member, resting) in rested {
            // One that fails is greeted and seeded anew.
            let _failed = member.seed(seed, &resting, Rest::Over).await;
        }
    }

    /// When to look after the nodes again; `NEVER` if all vote.
    async fn tend(&self) -> Moment {
        let needy = self.members.iter().filter(|member| match member.health() {
            Health::Counts { .. } => !member.is_greeted(),
            Health::Abstains { until, .. } => !member.is_greeted() || until <= self.clock.now(),
            _ => true,
        });
        join_all(needy.map(|member| member.greet())).await;
        self.seed().await;
        let next = |member: &Arc<Member>| match member.health() {
            Health::Counts { .. } if member.is_greeted() => Moment::NEVER,
            Health::Abstains { until, .. } => until + Duration::from_millis(1),
            _ => self.clock.now() + TEND_EVERY,
        };
        self.members.iter().map(next).min().unwrap_or(Moment::NEVER)
    }
}

/// Looks after the nodes that do not vote, for as long as the set is in use.
pub(super) async fn tend(set: Weak<Set>, nudge: Arc<Notify>) {
    loop {
        let Some(alive) = set.upgrade() else { return };
        let (next, clock) = (alive.tend().await, alive.clock.clone());
        drop(alive);
        // A set that is dropped is noticed at the next look.
        let next = next.min(clock.now() + Duration::from_secs(60));
        tokio::select! {
            () = clock.sleep_until(next) => {}
            () = nudge.notified() => {}
        }
    }
}

/// With which number rested nodes start. Where a majority has kept its counters, the highest of them.
/// Otherwise, for a new set or after the loss of most, **all** nodes must answer: whoever is only out of reach
/// may know a higher number, or belong to another set that still grants. Then it is the highest that any node
/// remembers or has on its clock, in microseconds: numbers rise slower than these.
fn seed_from(quorum: Quorum, health: &[Health]) -> Option<u64> {
    let mut counters = Vec::new();
    let mut all = Vec::new();
    for health in health {
        match health {
            Health::Counts { seen } => {
                counters.push(*seen);
                all.push(*seen);
            }
            Health::Rested(resting) => all.push(resting.seen.max(resting.micros)),
            _ => {}
        }
    }
    quorum.seed(&counters).or_else(|| quorum.seed_anew(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENT: Health = Health::Silent(Trouble::Late);

    fn rested() -> Health {
        Health::Rested(Resting {
            rest: Vec::new(),
            seen: 3,
            micros: 1000,
        })
    }

    // proves: Q5, Q6
    #[test]
    fn a_seed_is_the_majoritys_or_that_of_all() {
        let five = Quorum::of(5);
        let counts = |seen| Health::Counts { seen };
        let kept = [counts(5), counts(9), rested(), counts(7), SILENT];
        assert_eq!(seed_from(five, &kept), Some(9));
        // The silent two may know a number above any clock.
        let few = [counts(5), SILENT, rested(), SILENT, counts(7)];
        assert_eq!(seed_from(five, &few), None);
        let all_but_one = [rested(), rested(), rested(), SILENT, counts(7)];
        assert_eq!(seed_from(five, &all_but_one), None);
        let all = [rested(), counts(2000), rested(), rested(), counts(7)];
        assert_eq!(seed_from(five, &all), Some(2000));
        let all = [rested(), counts(5), rested(), rested(), counts(7)];
        assert_eq!(seed_from(five, &all), Some(1000));
    }
}
