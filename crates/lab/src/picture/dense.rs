//! What is too much to be shown one by one, as a strip: the higher, the more.

use super::canvas::{Area, Canvas};
use super::marks::Mark;
use super::scale::Scale;
use super::text::time;
use super::words::Word;

/// More than these of a kind in one lane are shown as a strip.
pub(super) const MOST_SINGLE: usize = 40;
const BUCKET: f64 = 4.0;
const HIGHEST: f64 = 10.0;

/// Marks to be shown one by one, and those that are too many for it: writes that went well, then whatever weighs
/// least.
pub(super) fn split(marks: &[Mark]) -> (Vec<&Mark>, Vec<&Mark>) {
    let mut single: Vec<&Mark> = marks.iter().collect();
    if single.len() <= MOST_SINGLE {
        return (single, Vec::new());
    }
    let is_good = |mark: &&Mark| mark.word == Word::Accepted;
    let mut many: Vec<&Mark> = marks.iter().filter(is_good).collect();
    single.retain(|mark| mark.word != Word::Accepted);
    if single.len() > MOST_SINGLE {
        single.sort_by(|a, b| b.weight.cmp(&a.weight).then(a.at.cmp(&b.at)));
        many.extend(single.split_off(MOST_SINGLE));
    }
    (single, many)
}

/// Draws a strip at a height, with a class, and with the word for what is counted.
pub(super) fn strip(
    canvas: &mut Canvas,
    scale: &Scale,
    moments: &[u64],
    (y, class, unit): (f64, &str, &str),
) {
    let count = ((scale.right - scale.left) / BUCKET).ceil() as usize;
    let mut buckets = vec![(0_usize, u64::MAX); count + 1];
    for at in moments {
        let index = ((scale.x(*at) - scale.left) / BUCKET) as usize;
        let (number, first) = &mut buckets[index.min(count)];
        *number += 1;
        *first = (*first).min(*at);
    }
    let most = buckets
        .iter()
        .map(|(number, _)| *number)
        .max()
        .unwrap_or(1)
        .max(1);
    for (index, (number, first)) in buckets.into_iter().enumerate() {
        if number == 0 {
            continue;
        }
        let height = 2.0 + (HIGHEST - 2.0) * number as f64 / most as f64;
        let x = scale.left + index as f64 * BUCKET;
        let area = Area {
            x,
            y: y + HIGHEST - height,
            width: BUCKET - 1.0,
            height,
        };
        canvas.rect(area, class, &format!("{number} {unit}, {}", time(first)));
    }
}
