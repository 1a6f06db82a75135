//! Gives everything its place: lanes below each other, and in each lane labels, marks, bars and calls.

use std::collections::BTreeSet;

use super::canvas::{Area, Canvas, NORMAL};
use super::dense::{self, MOST_SINGLE};
use super::labels::{Label, Placed, place};
use super::lanes::{Bar, Lane};
use super::marks::Mark;
use super::scale::Scale;
use super::shapes;
use super::text::{shorten, width};
use super::words::{Word, Words};

pub(super) const WIDTH: f64 = 1000.0;
pub(super) const LEFT: f64 = 168.0;
pub(super) const RIGHT: f64 = WIDTH - 16.0;
const PAD: f64 = 8.0;
const ROW: f64 = 17.0;
const MARKS: f64 = 18.0;
const TRACK: f64 = 28.0;
const BAR: f64 = 20.0;
const CALLS: f64 = 12.0;
const LOWEST: f64 = 44.0;

/// Draws lanes from the top down.
pub(super) struct Painter<'a> {
    pub(super) canvas: Canvas,
    /// What lies beneath it all.
    pub(super) ground: Canvas,
    pub(super) scale: Scale,
    pub(super) words: &'a Words,
    /// Clients in the order of their colours.
    pub(super) owners: Vec<&'a str>,
    /// What the legend has to explain.
    pub(super) used: BTreeSet<Word>,
    /// Moments that concern all lanes.
    pub(super) harms: Vec<f64>,
}

impl<'a> Painter<'a> {
    /// Draws a lane below `top`; gives where it ends.
    pub(super) fn lane(&mut self, lane: &Lane<'a>, top: f64, is_even: bool) -> f64 {
        let placed = self.labels(lane);
        let rows = placed
            .iter()
            .map(|placed| placed.row + 1)
            .max()
            .unwrap_or(0);
        let marks = top + PAD + rows as f64 * ROW;
        let tracks = marks + if lane.marks.is_empty() { 0.0 } else { MARKS };
        let calls = tracks + lane.locks.len() as f64 * TRACK;
        let has_calls = !lane.ticks.is_empty();
        let bottom = calls + PAD + if has_calls { CALLS } else { 0.0 };
        let bottom = bottom.max(top + LOWEST);
        let whole = Area {
            x: 0.0,
            y: top,
            width: WIDTH,
            height: bottom - top,
        };
        self.ground
            .rect(whole, if is_even { "band even" } else { "band" }, "");
        self.shades(lane, top, bottom);
        self.name(lane, top);
        self.waits(lane, tracks);
        self.bars(lane, tracks);
        self.calls(lane, calls);
        self.leaders(&placed, marks);
        self.marks(lane, marks + MARKS / 2.0);
        self.write_labels(&placed, marks);
        bottom
    }

    fn name(&mut self, lane: &Lane<'_>, top: f64) {
        let name = shorten(lane.name, NORMAL, LEFT - 28.0);
        self.canvas
            .text_titled((12.0, top + 20.0), "name", &name, lane.name);
        if let Some(role) = lane.role {
            let role = self.words.say(role);
            self.canvas.text((12.0, top + 36.0), "role", role);
        }
    }

    fn shades(&mut self, lane: &Lane<'_>, top: f64, bottom: f64) {
        for shade in &lane.shades {
            let (x, to) = (self.scale.x(shade.from), self.scale.x(shade.to));
            let (y, height) = (top + 1.0, bottom - top - 2.0);
            let area = Area {
                x,
                y,
                width: (to - x).max(2.0),
                height,
            };
            match shade.word {
                Word::Paused => self.canvas.hatch(area, "pause", &shade.title),
                Word::LinkBroken => self.canvas.rect(area, "cut", &shade.title),
                _ => self.canvas.rect(area, "dead", &shade.title),
            }
            self.used.insert(shade.word);
        }
    }

    fn waits(&mut self, lane: &Lane<'_>, top: f64) {
        for wait in &lane.waits {
            let (from, to) = (self.scale.x(wait.from), self.scale.x(wait.to));
            // What was served at once did not wait.
            if to - from < 3.0 {
                continue;
            }
            let y = top + wait.track as f64 * TRACK + BAR / 2.0;
            self.canvas
                .path(&format!("M{from:.1} {y:.1}H{to:.1}"), "wait", &wait.title);
            self.used.insert(Word::Waits);
        }
    }

    fn bars(&mut self, lane: &Lane<'_>, top: f64) {
        let mut last_end = vec![f64::MIN; lane.locks.len()];
        for bar in &lane.bars {
            let (from, to) = (self.scale.x(bar.from), self.scale.x(bar.to));
            // Hundreds of holds in one pixel are one line.
            if to < last_end[bar.track] + 0.5 && to - from < 0.5 {
                continue;
            }
            last_end[bar.track] = to;
            self.bar(bar, top + bar.track as f64 * TRACK);
        }
    }

    fn bar(&mut self, bar: &Bar<'_>, y: f64) {
        let colour = self.colour(bar.owner);
        let x = self.scale.x(bar.from);
        let end = self.scale.x(bar.right_to.min(bar.to));
        let to = self.scale.x(bar.to);
        let solid = Area {
            x,
            y,
            width: (end - x).max(1.5),
            height: BAR,
        };
        let kind = if bar.is_belief { "belief" } else { "hold" };
        self.used.insert(if bar.is_belief {
            Word::Believes
        } else {
            Word::ReallyHolds
        });
        self.canvas
            .rect(solid, &format!("{kind} {colour}"), &bar.title);
        if bar.is_belief && to - end > 1.0 {
            let past = Area {
                x: end,
                y,
                width: to - end,
                height: BAR,
            };
            self.canvas
                .hatch(past, &format!("past {colour}"), &bar.title);
            self.canvas
                .rect(past, &format!("outline {colour}"), &bar.title);
            self.used.insert(Word::BelievesPast);
        }
        if let Some(until) = bar.until {
            self.lease(x, self.scale.x(until), y + BAR + 4.0, colour);
        }
        if let Some(text) = bar
            .texts
            .iter()
            .find(|text| width(text, NORMAL) <= to - x - 10.0)
        {
            // On the hatched part a text could not be read without a ground of its own.
            let is_inside = width(text, NORMAL) + 6.0 < end - x;
            let class = if is_inside {
                "bar-text"
            } else {
                "bar-text halo"
            };
            self.canvas.text((x + 6.0, y + 14.5), class, text);
        }
    }

    fn lease(&mut self, x: f64, until: f64, y: f64, colour: &str) {
        if until - x < 2.0 {
            return;
        }
        let mut steps = format!("M{x:.1} {y:.1}H{until:.1}");
        if until < self.scale.right {
            steps += &format!("M{until:.1} {:.1}v6", y - 3.0);
        }
        self.canvas.path(&steps, &format!("lease {colour}"), "");
        self.used.insert(Word::Lease);
    }

    fn calls(&mut self, lane: &Lane<'_>, y: f64) {
        if lane.ticks.len() > MOST_SINGLE {
            let moments: Vec<u64> = lane.ticks.iter().map(|tick| tick.from).collect();
            let unit = self.words.say(Word::Calls);
            dense::strip(&mut self.canvas, &self.scale, &moments, (y, "many", unit));
        } else {
            for tick in &lane.ticks {
                let (x, to) = (self.scale.x(tick.from), self.scale.x(tick.to));
                let area = Area {
                    x,
                    y: y + 2.0,
                    width: (to - x).max(3.0),
                    height: 5.0,
                };
                self.canvas
                    .rect(area, &format!("call {}", tick.class), &tick.title);
            }
        }
        if !lane.ticks.is_empty() {
            self.used.insert(Word::Call);
        }
    }

    fn marks(&mut self, lane: &Lane<'_>, y: f64) {
        let (mut single, many) = dense::split(&lane.marks);
        if !many.is_empty() {
            let moments: Vec<u64> = many.iter().map(|mark| mark.at).collect();
            let unit = self.words.say(Word::Writes);
            dense::strip(
                &mut self.canvas,
                &self.scale,
                &moments,
                (y - 5.0, "many good", unit),
            );
            self.used.extend(many.iter().map(|mark| mark.word));
        }
        // What matters most is drawn last, above the rest.
        single.sort_by_key(|mark| mark.weight);
        for mark in single {
            let x = self.scale.x(mark.at);
            if mark.word == Word::Harm {
                self.harms.push(x);
            }
            shapes::mark(&mut self.canvas, mark, (x, y));
            self.used.insert(mark.word);
        }
    }

    fn labels(&self, lane: &Lane<'_>) -> Vec<Placed> {
        let (single, _) = dense::split(&lane.marks);
        let label = |mark: &&Mark| Label {
            x: self.scale.x(mark.at),
            text: mark.label.clone(),
            title: mark.title.clone(),
            class: match mark.word {
                Word::Harm => "label harm-text",
                Word::Refused => "label refused-text",
                _ => "label",
            },
            weight: mark.weight,
        };
        place(single.iter().map(label).collect(), (LEFT, RIGHT))
    }

    fn leaders(&mut self, placed: &[Placed], marks: f64) {
        for Placed { label, row, .. } in placed {
            let top = marks - *row as f64 * ROW - 3.0;
            self.canvas
                .line((label.x, top), (label.x, marks + 4.0), "leader");
        }
    }

    fn write_labels(&mut self, placed: &[Placed], marks: f64) {
        for Placed { label, left, row } in placed {
            let y = marks - *row as f64 * ROW - 5.0;
            self.canvas
                .text_titled((*left, y), label.class, &label.text, &label.title);
        }
    }

    /// Each client has its colour, in all lanes.
    fn colour(&self, owner: &str) -> &'static str {
        const COLOURS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];
        let index = self.owners.iter().position(|known| *known == owner);
        index.map_or("c-none", |index| COLOURS[index % COLOURS.len()])
    }
}
