//! What happened, as a timeline picture, and all pictures as one page.
//!
//! A picture is SVG written by hand: lanes below each other, time from left to right. It has no scripts, no ids and no
//! parts from elsewhere, follows the reader's choice of light or dark, and is the same for the same history.

mod canvas;
mod dense;
mod draw;
mod labels;
mod lanes;
mod legend;
mod marks;
mod page;
mod scale;
mod shapes;
mod style;
#[cfg(test)]
mod tests;
mod text;
mod tokens;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write;

use canvas::{Area, Canvas};
use draw::{LEFT, Painter, RIGHT, WIDTH};
use lanes::{Lane, lanes, overlaps};
use scale::Scale;
use text::escape;
use tokens::Tokens;
use words::Word;

pub use page::page;
pub use words::{Language, Words};

use crate::history::Event;

/// Where the lanes begin; the time axis is above.
const TOP: f64 = 30.0;

/// The timeline picture of a history, as a file of its own.
#[must_use]
pub fn svg(history: &[Event], words: &Words) -> String {
    draw(history, words, style::PICTURE)
}

/// The picture; a page has the style already.
fn draw(history: &[Event], words: &Words, style: &str) -> String {
    let lanes = shortened(lanes(history, words), &Tokens::of(history));
    let mut painter = Painter {
        canvas: Canvas::default(),
        ground: Canvas::default(),
        scale: Scale::of(history, LEFT, RIGHT),
        words,
        owners: owners(&lanes),
        used: BTreeSet::new(),
        harms: Vec::new(),
    };
    let mut bottom = TOP;
    for (index, lane) in lanes.iter().enumerate() {
        bottom = painter.lane(lane, bottom, index % 2 == 0);
    }
    if lanes.is_empty() {
        bottom += 40.0;
        painter
            .canvas
            .text((LEFT, bottom - 15.0), "label", words.say(Word::Nothing));
    }
    let Painter {
        mut canvas,
        mut ground,
        scale,
        mut used,
        harms,
        ..
    } = painter;
    axis(&mut ground, &scale, bottom);
    together(&mut ground, history, &scale, bottom, &mut used);
    for x in harms {
        ground.line((x, TOP), (x, bottom), "harm-line");
    }
    let height = legend::draw(&mut canvas, &used, words, bottom + 14.0);
    frame(height, &words.title, style, &(ground.out + &canvas.out))
}

/// The lanes with what is written on them shortened; titles stay as they are.
fn shortened<'a>(mut lanes: Vec<Lane<'a>>, tokens: &Tokens) -> Vec<Lane<'a>> {
    for lane in &mut lanes {
        for mark in &mut lane.marks {
            mark.label = tokens.short(&mark.label);
        }
        for text in lane.bars.iter_mut().flat_map(|bar| &mut bar.texts) {
            *text = tokens.short(text);
        }
    }
    lanes
}

fn frame(height: f64, title: &str, style: &str, body: &str) -> String {
    let title = escape(title);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" \
         width=\"{WIDTH:.0}\" height=\"{height:.0}\" role=\"img\" aria-label=\"{title}\">"
    );
    if !style.is_empty() {
        let _ = writeln!(out, "<style>{style}</style>");
    }
    let _ = writeln!(
        out,
        "<rect class=\"ground\" width=\"{WIDTH:.0}\" height=\"{height:.0}\"/>\n{body}</svg>"
    );
    out
}

/// Who has a colour: everybody who believes or holds, in the order of the lanes.
fn owners<'a>(lanes: &[Lane<'a>]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    let believers = lanes
        .iter()
        .flat_map(|lane| &lane.bars)
        .filter(|bar| bar.is_belief);
    let holders = lanes
        .iter()
        .flat_map(|lane| &lane.bars)
        .filter(|bar| !bar.is_belief);
    for bar in believers.chain(holders) {
        if !found.contains(&bar.owner) {
            found.push(bar.owner);
        }
    }
    found
}

fn axis(canvas: &mut Canvas, scale: &Scale, bottom: f64) {
    for (at, name) in scale.ticks() {
        let x = scale.x(at);
        canvas.line((x, TOP - 4.0), (x, bottom), "grid");
        // The last one would hang over the edge.
        let class = if x > RIGHT - 30.0 { "time end" } else { "time" };
        canvas.text((x, TOP - 10.0), class, &name);
    }
}

/// The times for which two believed at once, across all lanes.
fn together(
    canvas: &mut Canvas,
    history: &[Event],
    scale: &Scale,
    bottom: f64,
    used: &mut BTreeSet<Word>,
) {
    for (from, to, who) in overlaps(history) {
        let (x, to) = (scale.x(from), scale.x(to));
        let area = Area {
            x,
            y: TOP,
            width: (to - x).max(2.0),
            height: bottom - TOP,
        };
        canvas.rect(area, "together", &who);
        used.insert(Word::TwoBelieve);
    }
}
