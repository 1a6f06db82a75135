//! Text that others chose (names, labels, hosts) made harmless for a terminal.

use std::fmt::Write;

/// The text with everything that does not print as itself written as an escape: a name must not
/// move the cursor, change colours, end the line or turn the writing direction.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    // `escape_debug` knows what prints; quotes and backslashes do, and are left alone.
    for piece in text.split_inclusive(['"', '\'', '\\']) {
        let plain = piece.trim_end_matches(['"', '\'', '\\']);
        // Writing to a string cannot fail.
        let _infallible = write!(shown, "{}", plain.escape_debug());
        shown.push_str(&piece[plain.len()..]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_the_terminal() {
        assert_eq!(
            visible("orders/42 \"a\\b\" 'ü' 锁"),
            "orders/42 \"a\\b\" 'ü' 锁"
        );
        assert_eq!(visible("a\nb\t\x1b[2J\x07"), "a\\nb\\t\\u{1b}[2J\\u{7}");
        assert_eq!(
            visible("a\u{202e}b\u{200b}\u{2066}"),
            "a\\u{202e}b\\u{200b}\\u{2066}"
        );
        assert_eq!(
            visible("\u{9b}31m\u{85}\u{2028}"),
            "\\u{9b}31m\\u{85}\\u{2028}"
        );
    }
}
