//! Plays scenarios, several at once, because most of the time they wait for a lease to end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::checkers::{believed_holds, fence_order, guarded_resource};
use crate::history::Event;
use crate::scenario::{Expects, Outcome, Part, Scenario, Verdict};
use crate::stage::Stage;
use crate::told::{Played, Told};
use crate::{Error, Result};

/// How to play.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Starts a client: a program and its arguments; the client's name is appended.
    pub client: Vec<String>,
    /// What all lengths of time that may vary come from.
    pub seed: u64,
    /// How many scenarios are played at once.
    pub at_once: usize,
}

/// A scenario that could not be played: the lab is broken, or a server is missing.
#[derive(Debug)]
pub struct Trouble {
    /// Which one.
    pub scenario: &'static Scenario,
    /// Why.
    pub error: Error,
}

/// Plays these, and reports each as it ends, in whatever order they end. The answer is in the order asked for.
///
/// # Errors
/// Per scenario, when it could not be played to its end.
pub fn play(
    scenarios: &[&'static Scenario],
    plan: &Plan,
    ended: impl Fn(&std::result::Result<Told, Trouble>) + Sync,
) -> Vec<std::result::Result<Told, Trouble>> {
    let next = AtomicUsize::new(0);
    let told = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..plan.at_once.clamp(1, scenarios.len().max(1)) {
            scope.spawn(|| {
                while let Some((place, scenario)) = take(&next, scenarios) {
                    let one = tell(scenario, plan);
                    ended(&one);
                    let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                    told.push((place, one));
                }
            });
        }
    });
    let mut told = told.into_inner().unwrap_or_else(PoisonError::into_inner);
    told.sort_by_key(|(place, _)| *place);
    told.into_iter().map(|(_, one)| one).collect()
}

fn take(next: &AtomicUsize, scenarios: &[&'static Scenario]) -> Option<(usize, &'static Scenario)> {
    let place = next.fetch_add(1, Ordering::Relaxed);
    Some((place, scenarios.get(place)?))
}

fn tell(scenario: &'static Scenario, plan: &Plan) -> std::result::Result<Told, Trouble> {
    let parts = scenario.parts.iter().map(|part| play_part(part, plan));
    match parts.collect::<Result<_>>() {
        Ok(parts) => Ok(Told { scenario, parts }),
        Err(error) => Err(Trouble { scenario, error }),
    }
}

fn play_part(part: &'static Part, plan: &Plan) -> Result<Played> {
    let stage = Stage::new(plan.client.clone(), plan.seed);
    let began = Instant::now();
    let seen = (part.play)(&stage).map_err(|error| format!("part {}: {error}", part.name))?;
    let (took, history) = (began.elapsed(), stage.history());
    let outcome = match part.expects {
        Expects::Harm => seen,
        Expects::NoHarm => checked(seen, &history),
    };
    Ok(Played {
        part,
        verdict: Verdict::of(part.expects, &outcome),
        outcome,
        history,
        took,
    })
}

/// A way out must also stand before the checkers, whatever its own story found. Two believers at once are what a
/// fence is there for, so where it had to refuse, they are no finding.
fn checked(seen: Outcome, history: &[Event]) -> Outcome {
    let mut findings = fence_order(history);
    findings.extend(guarded_resource(history));
    if matches!(seen, Outcome::Prevented(_)) {
        findings.extend(believed_holds(history));
    }
    match findings.first() {
        Some(finding) => Outcome::Harm(format!("{} But {finding}.", seen.words())),
        None => seen,
    }
}
