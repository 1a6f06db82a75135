//! Labels in rows, so that none covers another.

use super::canvas::NORMAL;
use super::text::{shorten, width};

/// More rows than these would tear a lane apart.
const MOST_ROWS: usize = 4;
const GAP: f64 = 8.0;
const WIDEST: f64 = 300.0;

/// What wants to be written above a mark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Label {
    /// Where its mark is.
    pub(super) x: f64,
    pub(super) text: String,
    /// The whole of it, for who points at it.
    pub(super) title: String,
    pub(super) class: &'static str,
    /// The lightest go first when there is no room.
    pub(super) weight: u8,
}

/// A label with its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placed {
    pub(super) label: Label,
    /// Where the text begins.
    pub(super) left: f64,
    /// From below, beginning with zero.
    pub(super) row: usize,
}

/// Gives as many labels a place as fit between two edges.
pub(super) fn place(mut labels: Vec<Label>, edges: (f64, f64)) -> Vec<Placed> {
    for label in &mut labels {
        label.text = shorten(&label.text, NORMAL, WIDEST);
    }
    labels.retain(|label| !label.text.is_empty());
    // The heaviest first. Of the same weight from the right: the later is nearer to the lane, so that no leader line
    // has to pass a text.
    labels.sort_by(|a, b| b.weight.cmp(&a.weight).then(b.x.total_cmp(&a.x)));
    let mut rows: Vec<Row> = vec![Row::new(); MOST_ROWS];
    let placed = labels
        .into_iter()
        .filter_map(|label| find_place(label, edges, &mut rows));
    let mut placed: Vec<Placed> = placed.collect();
    placed.sort_by(|a, b| a.label.x.total_cmp(&b.label.x));
    placed
}

/// What is taken in one row, from where to where.
type Row = Vec<(f64, f64)>;

fn find_place(label: Label, edges: (f64, f64), rows: &mut [Row]) -> Option<Placed> {
    // Rather too much than too little: some are bold.
    let long = width(&label.text, NORMAL) * 1.05;
    let left = (label.x - 4.0).min(edges.1 - long).max(edges.0);
    let (text, leader) = ((left, left + long + GAP), (label.x - 3.0, label.x + 3.0));
    let has_room = |row: &usize| is_free(&rows[*row], text);
    let is_apart = |row: &usize| rows[..*row].iter().all(|below| is_free(below, leader));
    let apart = (0..rows.len()).find(|row| has_room(row) && is_apart(row));
    // A leader line behind a text is still better than no text.
    let row = apart.or_else(|| (0..rows.len()).find(has_room))?;
    rows[row].push(text);
    if apart.is_some() {
        rows[..row].iter_mut().for_each(|below| below.push(leader));
    }
    Some(Placed { label, left, row })
}

fn is_free(row: &Row, (from, to): (f64, f64)) -> bool {
    row.iter().all(|(taken, end)| to <= *taken || from >= *end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(x: f64, text: &str, weight: u8) -> Label {
        let (text, title) = (text.to_owned(), String::new());
        Label {
            x,
            text,
            title,
            class: "",
            weight,
        }
    }

    fn boxes(placed: &[Placed]) -> Vec<(usize, f64, f64)> {
        let of = |p: &Placed| (p.row, p.left, p.left + width(&p.label.text, NORMAL));
        placed.iter().map(of).collect()
    }

    #[test]
    fn no_two_labels_touch_and_all_stay_inside() {
        let crowd = (0..30).map(|n| label(100.0 + f64::from(n) * 31.0, "paused for a while", 1));
        let placed = place(crowd.collect(), (100.0, 1000.0));
        assert!(placed.len() >= 15, "{}", placed.len());
        let boxes = boxes(&placed);
        for (index, (row, left, right)) in boxes.iter().enumerate() {
            assert!(*left >= 100.0 && *right <= 1000.0);
            let others = boxes[index + 1..].iter().filter(|(other, ..)| other == row);
            for (_, other_left, other_right) in others {
                assert!(right < other_left || left > other_right, "{boxes:?}");
            }
        }
    }

    #[test]
    fn what_weighs_most_stays() {
        let mut crowd: Vec<_> = (0..60)
            .map(|n| label(500.0 + f64::from(n), "a note", 1))
            .collect();
        crowd.push(label(530.0, "harm", 9));
        let placed = place(crowd, (100.0, 1000.0));
        assert!(placed.iter().any(|placed| placed.label.text == "harm"));
        assert!(placed.len() < 60, "not all of them fit");
    }
}
