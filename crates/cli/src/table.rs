//! Claims as a table for people: one line each, fitted to the terminal.

use std::fmt::Write;
use std::io::IsTerminal;

use lockkeeper::Mode;
use lockkeeper::backend::{ClaimView, LockView};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::json::mode_name;
use crate::span;
use crate::visible::visible;

/// The titles of the columns.
pub(crate) const TITLES: [&str; COLUMNS] = [
    "NAME", "STATE", "MODE", "TOKEN", "OWNER", "PID", "HOST", "SINCE", "LEASE",
];
pub(crate) const COLUMNS: usize = 9;

/// One claim as cells, harmless for a terminal.
pub(crate) type Row = [String; COLUMNS];

/// Columns that may be cut to fit, the most patient first, and how far.
const FLEXIBLE: [(usize, usize); 3] = [(6, 8), (4, 10), (0, 16)];

/// Every claim of these locks, holders first.
pub(crate) fn rows(views: &[LockView]) -> Vec<Row> {
    let mut rows = Vec::new();
    for view in views {
        let name = visible(view.name.as_str());
        for claim in &view.holders {
            let lease = span::show(claim.lease_left);
            rows.push(row(&name, "holds".into(), claim, lease));
        }
        for (place, claim) in view.waiters.iter().enumerate() {
            let state = format!("waits {}", place + 1);
            rows.push(row(&name, state, claim, String::new()));
        }
    }
    rows
}

fn row(name: &str, state: String, claim: &ClaimView, lease: String) -> Row {
    let mode = match claim.mode {
        Mode::Permits { take, of } => format!("{take} of {of}"),
        mode => mode_name(mode).to_owned(),
    };
    [
        name.to_owned(),
        state,
        mode,
        claim.token.to_string(),
        visible(&claim.party.label),
        claim.party.pid.to_string(),
        visible(&claim.party.host),
        span::show(claim.since),
        lease,
    ]
}

/// Titles and rows as text; cut to the terminal's width if standard output is one.
pub(crate) fn text(rows: &[Row]) -> String {
    let titles = TITLES.map(str::to_owned);
    let lines = || std::iter::once(&titles).chain(rows);
    let mut widths = [0; COLUMNS];
    for line in lines() {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(limit) = terminal_width() {
        fit(&mut widths, limit);
    }
    let mut text = String::new();
    for line in lines() {
        let mut padded = String::new();
        for (cell, width) in line.iter().zip(widths) {
            let cell = cut(cell, width);
            let fill = width.saturating_sub(cell.width()) + 2;
            // Writing to a string cannot fail.
            let _infallible = write!(padded, "{cell}{:fill$}", "");
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

/// Narrows the flexible columns in turn until the line fits or all are as narrow as they may be.
pub(crate) fn fit(widths: &mut [usize; COLUMNS], limit: usize) {
    for (column, least) in FLEXIBLE {
        let total = widths.iter().sum::<usize>() + 2 * (COLUMNS - 1);
        let excess = total.saturating_sub(limit);
        widths[column] = widths[column]
            .saturating_sub(excess)
            .max(least.min(widths[column]));
    }
}

/// The cell in at most this width; what is missing shows as an ellipsis.
pub(crate) fn cut(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut short = String::new();
    let mut used = 1;
    for c in cell.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

/// How wide standard output is, if it is a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_columns_give_way_first() {
        let mut widths = [40, 7, 9, 6, 20, 6, 30, 5, 5];
        fit(&mut widths, 100);
        assert_eq!(widths.iter().sum::<usize>() + 16, 100);
        assert_eq!(widths, [28, 7, 9, 6, 10, 6, 8, 5, 5]);
        let mut narrow = [3, 5, 9, 5, 4, 3, 4, 5, 5];
        fit(&mut narrow, 10);
        assert_eq!(
            narrow,
            [3, 5, 9, 5, 4, 3, 4, 5, 5],
            "short cells are never cut"
        );
    }

    #[test]
    fn cuts_by_width_not_by_bytes() {
        assert_eq!(cut("orders", 6), "orders");
        assert_eq!(cut("orders/42", 6), "order…");
        assert_eq!(cut("锁锁锁锁", 6), "锁锁…");
    }
}
