//! The shape of each mark. Shapes differ, not only colours.

use super::canvas::Canvas;
use super::marks::Mark;
use super::words::Word;

/// Draws a mark around a point.
pub(super) fn mark(canvas: &mut Canvas, mark: &Mark, at: (f64, f64)) {
    shape(canvas, mark.word, at, &mark.title);
}

/// Draws the shape of a word, for a mark or for the legend.
pub(super) fn shape(canvas: &mut Canvas, word: Word, at: (f64, f64), title: &str) {
    match word {
        Word::Accepted | Word::Refused | Word::Harm => write(canvas, word, at, title),
        Word::ClockMoved => {
            let (x, y) = at;
            canvas.circle(at, 6.0, "clock", title);
            canvas.path(&format!("M{x:.1} {:.1}v4l3 2", y - 4.0), "clock-hand", "");
        }
        other => match stroke(other, at) {
            Some((steps, class)) => canvas.path(&steps, class, title),
            None => canvas.circle(at, 3.0, "note", title),
        },
    }
}

fn write(canvas: &mut Canvas, word: Word, (x, y): (f64, f64), title: &str) {
    match word {
        Word::Accepted => {
            canvas.circle((x, y), 5.5, "accepted", title);
            let tick = format!("M{:.1} {y:.1}l2 2.5l3.5 -5", x - 2.7);
            canvas.path(&tick, "accepted-tick", "");
        }
        Word::Refused => {
            canvas.circle((x, y), 6.5, "refused", title);
            canvas.path(&cross((x, y), 2.8), "refused-cross", "");
        }
        _ => {
            let steps = format!("M{x:.1} {:.1}l8.5 8.5l-8.5 8.5l-8.5 -8.5z", y - 8.5);
            canvas.path(&steps, "harm", title);
            let sign = format!("M{x:.1} {:.1}v5m0 2.2v1.6", y - 4.4);
            canvas.path(&sign, "harm-sign", "");
        }
    }
}

/// What is a single path: its steps and its class.
fn stroke(word: Word, (x, y): (f64, f64)) -> Option<(String, &'static str)> {
    Some(match word {
        Word::Killed => (cross((x, y), 5.0), "killed"),
        Word::Call => (cross((x, y), 3.5), "call-mark"),
        Word::Restarted => {
            let start = format!("M{:.1} {:.1}", x + 3.6, y - 3.5);
            (
                start + "a5 5 0 1 1 -3.6 -1.5m-1 -3l2.6 3l-3.4 2",
                "restarted",
            )
        }
        Word::Lost => (format!("M{:.1} {:.1}h12l-6 10z", x - 6.0, y - 5.0), "lost"),
        Word::Paused => (
            format!("M{:.1} {:.1}v9m5 -9v9", x - 2.5, y - 4.5),
            "paused-sign",
        ),
        Word::LinkBroken => (
            format!("M{:.1} {y:.1}h4l2 -5l2 10l2 -5h4", x - 7.0),
            "cut-sign",
        ),
        Word::Lease => (
            format!("M{:.1} {:.1}h10l-5 6z", x - 5.0, y - 2.0),
            "lease-over",
        ),
        _ => return None,
    })
}

fn cross((x, y): (f64, f64), r: f64) -> String {
    let d = 2.0 * r;
    format!("M{:.1} {:.1}l{d} {d}m0 -{d}l-{d} {d}", x - r, y - r)
}
