//! The legend: what this picture shows, and nothing that it does not.

use std::collections::BTreeSet;

use super::canvas::{Area, Canvas, NORMAL};
use super::draw::{RIGHT, WIDTH};
use super::shapes;
use super::text::width;
use super::words::{Word, Words};

const ROW: f64 = 24.0;
const SWATCH: f64 = 28.0;
const LEFT: f64 = 12.0;

/// In the order in which a picture is read.
const ORDER: &[Word] = &[
    Word::Believes,
    Word::BelievesPast,
    Word::ReallyHolds,
    Word::Lease,
    Word::Waits,
    Word::TwoBelieve,
    Word::Accepted,
    Word::Refused,
    Word::Harm,
    Word::Lost,
    Word::Paused,
    Word::LinkBroken,
    Word::Killed,
    Word::Dead,
    Word::Restarted,
    Word::ClockMoved,
    Word::Call,
    Word::Note,
];

/// Draws the legend below `top`; gives where the picture ends.
pub(super) fn draw(canvas: &mut Canvas, used: &BTreeSet<Word>, words: &Words, top: f64) -> f64 {
    canvas.line((0.0, top - 13.0), (WIDTH, top - 13.0), "rule");
    let (mut x, mut y) = (LEFT, top + ROW / 2.0);
    for word in ORDER.iter().filter(|word| used.contains(word)) {
        let text = words.say(*word);
        let long = SWATCH + width(text, NORMAL) + 22.0;
        if x + long > RIGHT && x > LEFT {
            (x, y) = (LEFT, y + ROW);
        }
        swatch(canvas, *word, x, y);
        canvas.text((x + SWATCH + 6.0, y + 4.0), "legend", text);
        x += long;
    }
    y + ROW / 2.0 + 8.0
}

fn swatch(canvas: &mut Canvas, word: Word, x: f64, y: f64) {
    let area = Area {
        x,
        y: y - 7.0,
        width: SWATCH,
        height: 14.0,
    };
    match word {
        Word::Believes => canvas.rect(area, "belief c0", ""),
        Word::BelievesPast => {
            canvas.hatch(area, "past c0", "");
            canvas.rect(area, "outline c0", "");
        }
        Word::ReallyHolds => canvas.rect(area, "hold c0", ""),
        Word::Lease => {
            let steps = format!("M{x:.1} {y:.1}h{SWATCH}m0 -3v6");
            canvas.path(&steps, "lease c0", "");
        }
        Word::Waits => canvas.path(&format!("M{x:.1} {y:.1}h{SWATCH}"), "wait", ""),
        Word::TwoBelieve => canvas.rect(area, "together", ""),
        Word::Paused => canvas.hatch(area, "pause", ""),
        Word::LinkBroken => {
            canvas.rect(area, "cut", "");
            shapes::shape(canvas, word, (x + SWATCH / 2.0, y), "");
        }
        Word::Dead => canvas.rect(area, "dead", ""),
        Word::Call => canvas.rect(
            Area {
                y: y - 2.5,
                height: 5.0,
                ..area
            },
            "call done",
            "",
        ),
        other => shapes::shape(canvas, other, (x + SWATCH / 2.0, y), ""),
    }
}
