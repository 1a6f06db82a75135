//! M3: the resource takes no write that is older than one it took, and refuses none that is the newest.
//!
//! A write without a token has no age. There it is what it replaced that tells: another value than its writer had read is
//! an update that is lost. Where that is not known, it is the belief of its writer: who writes while somebody else has got
//! the lock since does harm.

use std::collections::BTreeMap;

use super::beliefs::{Belief, beliefs};
use super::waits::calls;
use super::{Finding, Model, seconds};
use crate::history::{Event, What};

/// What a write to the resource was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// Taken, and nothing speaks against it.
    Good,
    /// Refused, and there was a newer token.
    Refused,
    /// Taken, although a newer one had been taken before, or its writer's lock was somebody else's.
    Stale(String),
    /// Refused, although there was no newer token: this write is lost.
    Lost(String),
}

/// Stale writes that the resource took, and good ones that it refused.
#[must_use]
pub fn guarded_resource(history: &[Event]) -> Vec<Finding> {
    let wrong = judge_writes(history).into_iter();
    let finding = |(index, judgement): (usize, Judgement)| match judgement {
        Judgement::Good | Judgement::Refused => None,
        Judgement::Stale(words) | Judgement::Lost(words) => Some(Finding::new(
            Model::GuardedResource,
            history[index].at,
            words,
        )),
    };
    wrong.filter_map(finding).collect()
}

/// Every write of a history, by its index, and what it was.
#[must_use]
pub fn judge_writes(history: &[Event]) -> Vec<(usize, Judgement)> {
    let all = writes(history);
    let mut found: Vec<_> = guarded(&all, &grants(history));
    let naive = all
        .iter()
        .filter(|write| write.token.is_none() && write.accepted);
    let beliefs = beliefs(history);
    for write in naive {
        let words = match replaced(write, history) {
            Some(outcome) => outcome,
            None => intrusion(write, &beliefs),
        };
        if let Some(words) = words {
            found.push((write.index, Judgement::Stale(words)));
        }
    }
    // The verdict by token comes first and stays.
    found.sort_by_key(|(index, judgement)| (*index, *judgement == Judgement::Good));
    found.dedup_by_key(|(index, _)| *index);
    found
}

/// A write that reached the resource, not before it was asked for and not after it was known.
struct Write<'a> {
    index: usize,
    resource: &'a str,
    value: &'a str,
    token: Option<u64>,
    accepted: bool,
    writer: &'a str,
    asked: u64,
    known: u64,
}

fn writes(history: &[Event]) -> Vec<Write<'_>> {
    // A client says at one instant that its call is done and what became of the write.
    let answered = calls(history).into_iter();
    let answered = answered.filter_map(|call| Some((call.answer?.0, call)));
    let by_answer: BTreeMap<u64, _> = answered.collect();
    let mut found = Vec::new();
    for (index, event) in history.iter().enumerate() {
        let What::Write {
            resource,
            value,
            token,
            accepted,
            ..
        } = &event.what
        else {
            continue;
        };
        let known = event.at;
        let call = by_answer.get(&known);
        let writer = call.map_or(event.lane.as_str(), |call| call.lane);
        let asked = call.map_or(known, |call| call.from);
        let (token, accepted) = (*token, *accepted);
        found.push(Write {
            index,
            resource,
            value,
            token,
            accepted,
            writer,
            asked,
            known,
        });
    }
    found
}

/// When each token became known that was higher than all before it: what a resource may have heard of.
fn grants(history: &[Event]) -> Vec<(u64, u64)> {
    let mut rising: Vec<(u64, u64)> = Vec::new();
    for event in history {
        if let What::Believes {
            token: Some(token), ..
        } = event.what
            && rising.last().is_none_or(|(_, highest)| *highest < token)
        {
            rising.push((event.at, token));
        }
    }
    rising
}

fn guarded(all: &[Write<'_>], grants: &[(u64, u64)]) -> Vec<(usize, Judgement)> {
    let mut judged = Vec::new();
    let mut taken: BTreeMap<&str, Vec<&Write<'_>>> = BTreeMap::new();
    for write in all {
        let before = taken.entry(write.resource).or_default();
        judged.push((write.index, judge(write, before, grants)));
        // Each that is kept is newer than all before it, so that there are few to look at.
        let is_newest = before.last().is_none_or(|last| last.token < write.token);
        if write.accepted && write.token.is_some() && is_newest {
            before.push(write);
        }
    }
    judged
}

fn judge(write: &Write<'_>, taken: &[&Write<'_>], grants: &[(u64, u64)]) -> Judgement {
    let surely_before = taken.partition_point(|other| other.known < write.asked);
    let newest = taken[..surely_before].last();
    match (write.token, write.accepted) {
        (None, true) => newest.map_or(Judgement::Good, |newest| {
            Judgement::Stale(naked(write, newest))
        }),
        (None, false) => Judgement::Refused,
        (token, true) => match newest.filter(|newest| newest.token > token) {
            Some(newest) => Judgement::Stale(stale(write, newest)),
            None => Judgement::Good,
        },
        (Some(token), false) => {
            let newer_was_taken = taken.last().is_some_and(|last| last.token > Some(token));
            let granted = grants.partition_point(|(at, _)| *at <= write.known);
            let newer_was_granted = grants[..granted]
                .last()
                .is_some_and(|(_, newest)| *newest > token);
            if newer_was_taken || newer_was_granted {
                return Judgement::Refused;
            }
            Judgement::Lost(format!(
                "{:?} refused {:?} with token {token}, although nobody had a newer one",
                write.resource, write.value
            ))
        }
    }
}

fn naked(write: &Write<'_>, newest: &Write<'_>) -> String {
    format!(
        "{:?} took {:?} without any token, although it had taken token {} at {}",
        write.resource,
        write.value,
        newest.token.unwrap_or_default(),
        seconds(newest.known)
    )
}

fn stale(write: &Write<'_>, newest: &Write<'_>) -> String {
    format!(
        "{:?} took {:?} with token {}, although it had taken the newer token {} at {}",
        write.resource,
        write.value,
        write.token.unwrap_or_default(),
        newest.token.unwrap_or_default(),
        seconds(newest.known)
    )
}

/// Whether a write is known to have replaced what its writer had read; words if it replaced something else.
fn replaced(write: &Write<'_>, history: &[Event]) -> Option<Option<String>> {
    let told = history.iter().find_map(|event| match &event.what {
        What::Replaced {
            resource,
            read,
            found,
        } if event.at == write.known && resource == write.resource => Some((read, found)),
        _ => None,
    });
    let (read, found) = told?;
    let words = || {
        format!(
            "{:?} took {:?} from {}, who had read {read:?}, over {found:?}",
            write.resource, write.value, write.writer
        )
    };
    Some((read != found).then(words))
}

/// Who has got the writer's lock since the writer got it, and believed in it for as long as the write took.
fn intrusion(write: &Write<'_>, beliefs: &[Belief<'_>]) -> Option<String> {
    let own = beliefs
        .iter()
        .filter(|belief| belief.lane == write.writer && belief.from <= write.asked);
    let own = own.max_by_key(|belief| belief.from)?;
    let since = beliefs.iter().find(|other| {
        let is_strange = other.lane != own.lane && other.lock == own.lock;
        let is_later = own.from <= other.from && other.from < write.asked;
        is_strange && is_later && write.known < other.believed_to()
    })?;
    Some(format!(
        "{:?} took {:?} from {}, although the lock {:?} was with {} since {}",
        write.resource,
        write.value,
        write.writer,
        own.lock,
        since.lane,
        seconds(since.from)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkers::planted::{asked, at, believes, done, trusts, write};

    fn judged(history: &[Event]) -> Vec<Judgement> {
        judge_writes(history)
            .into_iter()
            .map(|(_, judgement)| judgement)
            .collect()
    }

    // proves: F3
    #[test]
    fn a_stale_write_that_is_taken_is_found() {
        let history = [
            at(1, "r", write(Some(8), true)),
            at(2, "r", write(Some(7), true)),
        ];
        let found = guarded_resource(&history);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].words,
            "\"account\" took \"100\" with token 7, although it had taken the newer token 8 at 0.001000 s"
        );
    }

    #[test]
    fn every_way_to_be_stale_is_found() {
        let bare = [
            at(1, "r", write(Some(8), true)),
            at(2, "r", write(None, true)),
        ];
        let behind_a_refusal = [
            at(1, "r", write(Some(8), true)),
            at(2, "r", write(Some(7), false)),
            at(3, "r", write(Some(7), true)),
        ];
        // The writer of a naive lock wakes up: by its own lane, and by the call that ends with the write.
        let naive = [
            at(1, "a", trusts("x")),
            at(3, "b", trusts("x")),
            at(5, "a", write(None, true)),
            at(6, "b", done(1)),
        ];
        let by_call = [
            at(1, "a", trusts("x")),
            at(3, "b", trusts("x")),
            at(4, "a", asked(1)),
            at(5, "a", done(1)),
            at(5, "resource", write(None, true)),
            at(6, "b", done(1)),
        ];
        for history in [&bare[..], &behind_a_refusal, &naive, &by_call] {
            assert_eq!(guarded_resource(history).len(), 1, "{history:?}");
        }
    }

    #[test]
    fn an_update_that_is_lost_is_found_whatever_its_writer_believed() {
        let replaced = |found: &str| What::Replaced {
            resource: "account".to_owned(),
            read: "90".to_owned(),
            found: found.to_owned(),
        };
        let told = |found| {
            [
                at(1, "a", trusts("x")),
                at(2, "b", trusts("x")),
                at(3, "a", write(None, true)),
                at(3, "r", replaced(found)),
                at(4, "b", done(1)),
            ]
        };
        assert_eq!(guarded_resource(&told("90")), []);
        let found = guarded_resource(&told("95"));
        assert!(
            found[0].words.contains("who had read \"90\", over \"95\""),
            "{found:?}"
        );
    }

    #[test]
    fn a_good_write_that_is_refused_is_found() {
        let history = [
            at(1, "a", believes("x", 8, 9)),
            at(2, "r", write(Some(7), true)),
            at(3, "r", write(Some(8), false)),
        ];
        assert_eq!(guarded_resource(&history).len(), 1);
        assert!(
            guarded_resource(&history)[0]
                .words
                .contains("nobody had a newer one")
        );
        // A token that is granted only later is no excuse.
        let later = [
            at(3, "r", write(Some(8), false)),
            at(4, "a", believes("x", 9, 9)),
        ];
        assert_eq!(guarded_resource(&later).len(), 1);
    }

    #[test]
    fn good_histories_are_good() {
        let rising = [
            at(1, "r", write(Some(7), true)),
            at(2, "r", write(Some(7), true)),
            at(3, "r", write(Some(8), true)),
            at(4, "r", write(Some(7), false)),
        ];
        assert_eq!(judged(&rising)[2..], [Judgement::Good, Judgement::Refused]);
        // The resource heard of 8 in another way.
        let heard = [
            at(1, "b", believes("x", 8, 9)),
            at(2, "r", write(Some(7), false)),
        ];
        // Asked for before the newer one was known to be taken: their order is not known.
        let overlapping = [
            at(1, "a", asked(1)),
            at(2, "b", asked(1)),
            at(3, "b", done(1)),
            at(3, "r", write(Some(8), true)),
            at(4, "a", done(1)),
            at(4, "r", write(Some(7), true)),
        ];
        // Without tokens: the writer itself got it last; and nobody else has got it.
        let naive = [
            at(1, "a", trusts("x")),
            at(2, "b", trusts("x")),
            at(3, "b", write(None, true)),
            at(4, "c", trusts("y")),
            at(5, "c", write(None, true)),
            at(6, "nobody", write(None, true)),
        ];
        for history in [&rising[..], &heard, &overlapping, &naive] {
            assert_eq!(guarded_resource(history), [], "{history:?}");
        }
    }
}
