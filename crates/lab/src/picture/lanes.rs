//! What a picture shows, before it has a place: a lane for each client, server and resource.

use std::collections::BTreeMap;

use super::marks::{Mark, marks};
use super::text::time;
use super::words::{Word, Words};
use crate::checkers::beliefs::{Belief, beliefs};
use crate::checkers::waits::{calls, waits};
use crate::history::{Event, What};

/// All that happened to one client, server or resource.
#[derive(Debug, Default)]
pub(super) struct Lane<'a> {
    pub(super) name: &'a str,
    pub(super) role: Option<Word>,
    /// The locks of its bars; each has a track of its own.
    pub(super) locks: Vec<&'a str>,
    pub(super) bars: Vec<Bar<'a>>,
    pub(super) shades: Vec<Shade>,
    pub(super) marks: Vec<Mark>,
    pub(super) ticks: Vec<Tick>,
    pub(super) waits: Vec<Waiting>,
}

/// A lock that is believed or really held.
#[derive(Debug)]
pub(super) struct Bar<'a> {
    pub(super) track: usize,
    pub(super) from: u64,
    /// Where the right to believe ends, and where the belief does.
    pub(super) right_to: u64,
    pub(super) to: u64,
    /// Until when the client was told, where it was.
    pub(super) until: Option<u64>,
    /// Whose colour it has.
    pub(super) owner: &'a str,
    pub(super) is_belief: bool,
    /// What it may say, the longest first.
    pub(super) texts: Vec<String>,
    pub(super) title: String,
}

/// A time for which a lane was not as it should be.
#[derive(Debug)]
pub(super) struct Shade {
    pub(super) word: Word,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) title: String,
}

/// A call, too small for a text.
#[derive(Debug)]
pub(super) struct Tick {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) class: &'static str,
    pub(super) title: String,
}

/// A wait for a lock.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) track: usize,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) title: String,
}

/// All lanes, in the order of their first appearance; resources come last.
pub(super) fn lanes<'a>(history: &'a [Event], words: &Words) -> Vec<Lane<'a>> {
    let mut all = Lanes::default();
    // Who only takes writes is a resource, whatever its lane is called.
    let is_write =
        |event: &&Event| matches!(event.what, What::Write { .. } | What::Replaced { .. });
    for event in history.iter().filter(|event| !is_write(event)) {
        all.of(&event.lane);
    }
    all.believe(history, words);
    all.hold(history, words);
    all.wait(history, words);
    all.call(history, words);
    all.shade(history, words);
    for (lane, mark) in marks(history, words) {
        let lane = all.of(lane);
        if mark.is_write() {
            lane.role = Some(Word::LaneResource);
        }
        lane.marks.push(mark);
    }
    let mut found = all.found;
    found.sort_by_key(|lane| lane.role == Some(Word::LaneResource));
    found
}

#[derive(Default)]
struct Lanes<'a> {
    found: Vec<Lane<'a>>,
    index: BTreeMap<&'a str, usize>,
}

impl<'a> Lane<'a> {
    fn track(&mut self, lock: &'a str) -> usize {
        let known = self.locks.iter().position(|known| *known == lock);
        known.unwrap_or_else(|| {
            self.locks.push(lock);
            self.locks.len() - 1
        })
    }
}

impl<'a> Lanes<'a> {
    fn of(&mut self, name: &'a str) -> &mut Lane<'a> {
        let index = *self.index.entry(name).or_insert_with(|| {
            self.found.push(Lane {
                name,
                ..Lane::default()
            });
            self.found.len() - 1
        });
        &mut self.found[index]
    }

    fn believe(&mut self, history: &'a [Event], words: &Words) {
        let over = history.last().map_or(0, |event| event.at);
        for belief in beliefs(history) {
            let lane = self.of(belief.lane);
            lane.role = Some(Word::LaneBelieves);
            let track = lane.track(belief.lock);
            lane.bars.push(Bar {
                track,
                from: belief.from,
                right_to: belief.believed_to(),
                to: belief.to.min(over).max(belief.from),
                until: belief.until,
                owner: belief.lane,
                is_belief: true,
                texts: bar_texts(&belief, words),
                title: bar_title(&belief, over, words),
            });
        }
    }

    fn hold(&mut self, history: &'a [Event], words: &Words) {
        let over = history.last().map_or(0, |event| event.at);
        let mut open: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for event in history {
            let What::Holds { lock, owner } = &event.what else {
                continue;
            };
            let lane = self.of(&event.lane);
            lane.role = Some(Word::LaneHolds);
            let track = lane.track(lock);
            if let Some(index) = open.remove(&(event.lane.as_str(), lock)) {
                let bar: &mut Bar<'_> = &mut lane.bars[index];
                (bar.right_to, bar.to) = (event.at, event.at);
                bar.title = format!("{} – {}", bar.title, time(event.at));
            }
            let Some(owner) = owner else { continue };
            open.insert((&event.lane, lock), lane.bars.len());
            let holds = words.say(Word::ReallyHolds);
            lane.bars.push(Bar {
                track,
                from: event.at,
                right_to: over,
                to: over,
                until: None,
                owner,
                is_belief: false,
                texts: vec![format!("{lock} · {owner}"), owner.clone()],
                title: format!("{owner}: {holds}, {lock}, {}", time(event.at)),
            });
        }
    }

    fn wait(&mut self, history: &'a [Event], words: &Words) {
        for wait in waits(history) {
            let lane = self.of(wait.lane);
            let track = lane.track(wait.lock);
            let (from, to) = (wait.from, wait.to);
            let waits = words.say(Word::Waits);
            let title = format!("{}: {waits}, {}, {}", wait.lane, wait.lock, span(from, to));
            lane.waits.push(Waiting {
                track,
                from,
                to,
                title,
            });
        }
    }

    fn call(&mut self, history: &'a [Event], words: &Words) {
        let over = history.last().map_or(0, |event| event.at);
        for call in calls(history) {
            let (class, answer) = match call.answer {
                Some((_, What::Done { answer, .. })) => ("done", answer.as_str()),
                Some((_, What::Failed { why, .. })) => ("failed", why.as_str()),
                Some((_, What::Unknown { why, .. })) => ("unknown", why.as_str()),
                _ => ("unknown", words.say(Word::NoAnswer)),
            };
            let to = call
                .answer
                .map(|(at, _)| at)
                .or(call.killed)
                .unwrap_or(over);
            let title = format!("{} → {answer}, {}", call.deed, span(call.from, to));
            let from = call.from;
            self.of(call.lane).ticks.push(Tick {
                from,
                to,
                class,
                title,
            });
        }
    }

    fn shade(&mut self, history: &'a [Event], words: &Words) {
        let over = history.last().map_or(0, |event| event.at);
        for event in history {
            let (word, begins) = match &event.what {
                What::Paused => (Word::Paused, true),
                What::Resumed => (Word::Paused, false),
                What::LinkBroken { .. } => (Word::LinkBroken, true),
                What::LinkHealed => (Word::LinkBroken, false),
                What::Killed => (Word::Dead, true),
                What::Restarted { .. } => (Word::Dead, false),
                _ => continue,
            };
            let shades = &mut self.of(&event.lane).shades;
            let open = shades
                .iter_mut()
                .rev()
                .find(|shade| shade.word == word && shade.to == u64::MAX);
            match (open, begins) {
                (None, true) => {
                    let (from, to, title) = (event.at, u64::MAX, String::new());
                    shades.push(Shade {
                        word,
                        from,
                        to,
                        title,
                    });
                }
                (Some(open), false) => open.to = event.at,
                _ => {}
            }
        }
        for shade in self.found.iter_mut().flat_map(|lane| &mut lane.shades) {
            shade.to = shade.to.min(over);
            shade.title = format!("{}, {}", words.say(shade.word), span(shade.from, shade.to));
        }
    }
}

fn bar_texts(belief: &Belief<'_>, words: &Words) -> Vec<String> {
    let lock = belief.lock;
    let Some(token) = belief.token else {
        return vec![lock.to_owned()];
    };
    let short = format!("{} {token}", words.say(Word::Token));
    vec![format!("{lock} · {short}"), short, token.to_string()]
}

fn bar_title(belief: &Belief<'_>, over: u64, words: &Words) -> String {
    let believes = words.say(Word::Believes);
    let (lane, lock) = (belief.lane, belief.lock);
    let mut title = format!(
        "{lane}: {believes}, {lock}, {}",
        span(belief.from, belief.to.min(over))
    );
    if let Some(token) = belief.token {
        title += &format!(", {} {token}", words.say(Word::Token));
    }
    if let Some(until) = belief.until {
        title += &format!(", {}: {}", words.say(Word::Lease), time(until));
    }
    title
}

fn span(from: u64, to: u64) -> String {
    format!("{} – {}", time(from), time(to))
}

/// When two clients believed at once, and who.
pub(super) fn overlaps(history: &[Event]) -> Vec<(u64, u64, String)> {
    /// Who looks at a picture sees no more than a few.
    const MOST: usize = 200;
    let over = history.last().map_or(0, |event| event.at);
    let all = beliefs(history);
    let few = &all[..all.len().min(MOST)];
    let mut found = Vec::new();
    for (index, one) in few.iter().enumerate() {
        for other in &few[index + 1..] {
            let from = one.from.max(other.from);
            let to = one.believed_to().min(other.believed_to()).min(over);
            if one.lock == other.lock && one.lane != other.lane && from < to {
                let who = format!(
                    "{}, {}: {}, {}",
                    one.lane,
                    other.lane,
                    one.lock,
                    span(from, to)
                );
                found.push((from, to, who));
            }
        }
    }
    found
}
