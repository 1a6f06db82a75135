//! Moments: each a small shape on its lane, with a few words above it.

use std::collections::BTreeMap;

use super::text::time;
use super::words::{Word, Words};
use crate::checkers::beliefs::{End, beliefs};
use crate::checkers::{Judgement, judge_writes};
use crate::history::{Event, What};

/// A moment of a lane.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) at: u64,
    /// What it is; gives its shape and its line in the legend.
    pub(super) word: Word,
    pub(super) label: String,
    pub(super) title: String,
    /// What is told first when there is little room.
    pub(super) weight: u8,
}

impl Mark {
    fn new(at: u64, word: Word, label: String, weight: u8) -> Mark {
        let title = format!("{label}, {}", time(at));
        Mark {
            at,
            word,
            label,
            title,
            weight,
        }
    }

    /// Whether it belongs on the lane of a resource.
    pub(super) fn is_write(&self) -> bool {
        matches!(self.word, Word::Accepted | Word::Refused | Word::Harm)
    }
}

/// All moments, with their lanes.
pub(super) fn marks<'a>(history: &'a [Event], words: &Words) -> Vec<(&'a str, Mark)> {
    let judged: BTreeMap<usize, Judgement> = judge_writes(history).into_iter().collect();
    let mut found = Vec::new();
    for (index, event) in history.iter().enumerate() {
        if let What::Write { resource, .. } = &event.what {
            let mark = write(event, judged.get(&index), words);
            found.push((resource.as_str(), mark));
        } else if let Some(mark) = other(event, &history[index..], words) {
            found.push((event.lane.as_str(), mark));
        }
    }
    found.extend(lapses(history, words));
    found
}

/// Leases that ended while their client went on believing.
fn lapses<'a>(history: &'a [Event], words: &Words) -> Vec<(&'a str, Mark)> {
    let over = history.last().map_or(0, |event| event.at);
    let all = beliefs(history).into_iter();
    let lapsed = all.filter_map(|belief| {
        let until = belief.until.filter(|until| *until < belief.to.min(over))?;
        // Where a renewal came a moment late there is nothing to tell.
        let is_told = belief.end != End::Replaced;
        let label = words.say(Word::LeaseOver).to_owned();
        is_told.then(|| (belief.lane, Mark::new(until, Word::Lease, label, 4)))
    });
    lapsed.collect()
}

fn other(event: &Event, since: &[Event], words: &Words) -> Option<Mark> {
    let say = |word: Word| words.say(word).to_owned();
    let mark = |word, label, weight| Some(Mark::new(event.at, word, label, weight));
    match &event.what {
        What::Paused => mark(Word::Paused, say(Word::Paused) + &length(event, since), 6),
        What::Killed => mark(Word::Killed, say(Word::Killed), 7),
        What::Restarted { with_data } => {
            let word = if *with_data {
                Word::WithData
            } else {
                Word::Emptied
            };
            mark(Word::Restarted, say(word), 7)
        }
        What::ClockMoved { by_ms } => mark(
            Word::ClockMoved,
            format!("{} {}", say(Word::Clock), signed(*by_ms)),
            7,
        ),
        What::LinkBroken { how } => mark(
            Word::LinkBroken,
            format!("{}: {how}", say(Word::LinkBroken)),
            6,
        ),
        What::Lost { why, .. } => mark(Word::Lost, format!("{}: {why}", say(Word::LostShort)), 5),
        What::Failed { why, .. } => {
            mark(Word::Call, format!("{}: {why}", say(Word::FailedShort)), 2)
        }
        What::Unknown { why, .. } => {
            mark(Word::Call, format!("{}: {why}", say(Word::UnknownShort)), 3)
        }
        What::Counted { of, number } => mark(Word::Note, format!("{of}: {number}"), 5),
        What::Note { text } => mark(Word::Note, text.clone(), 4),
        _ => None,
    }
}

/// How long a pause lasted, if it ended.
fn length(pause: &Event, since: &[Event]) -> String {
    let ends = |event: &&Event| event.lane == pause.lane && event.what == What::Resumed;
    let end = since.iter().find(ends);
    let length = end.map(|end| format!(" {}", time(end.at - pause.at)));
    length.unwrap_or_default()
}

fn signed(ms: i64) -> String {
    let sign = if ms < 0 { '−' } else { '+' };
    let ms = ms.unsigned_abs();
    if ms.is_multiple_of(1000) {
        return format!("{sign}{} s", ms / 1000);
    }
    format!("{sign}{ms} ms")
}

fn write(event: &Event, judgement: Option<&Judgement>, words: &Words) -> Mark {
    let What::Write {
        value,
        token,
        accepted,
        note,
        ..
    } = &event.what
    else {
        return Mark::new(event.at, Word::Note, String::new(), 0);
    };
    let number = token.map(|token| format!(" ({} {token})", words.say(Word::Token)));
    let number = number.unwrap_or_default();
    let (word, label, weight) = match judgement {
        Some(Judgement::Stale(_)) => {
            let harm = words.say(Word::Harmful);
            (Word::Harm, format!("{harm}: = {value}{number} {note}"), 9)
        }
        _ if *accepted => (Word::Accepted, format!("= {value}{number}"), 3),
        _ => {
            let refused = words.say(Word::RefusedShort);
            // The note has both numbers, if there is one.
            let why = if note.is_empty() {
                number
            } else {
                format!(": {note}")
            };
            (Word::Refused, format!("= {value} {refused}{why}"), 8)
        }
    };
    let mut mark = Mark::new(event.at, word, label, weight);
    if let Some(Judgement::Stale(why) | Judgement::Lost(why)) = judgement {
        mark.title = format!("{}. {why}", mark.title);
    } else if *accepted {
        mark.title = format!("{}. {note}", mark.title);
    }
    mark
}
