//! Text that others wrote, made harmless and made to fit.

/// Escapes text for HTML and SVG, in elements and in attributes. Characters that XML does not know, or that turn the
/// direction of the text around them, are shown as unreadable.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(character),
            other if is_unreadable(other) => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

fn is_unreadable(character: char) -> bool {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// About how wide text of this size is, in pixels; rather too wide than too narrow.
pub(super) fn width(text: &str, size: f64) -> f64 {
    let ems = text.chars().map(|character| match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.33,
        'm' | 'w' | 'M' | 'W' | '@' => 0.92,
        other if other.is_ascii_uppercase() => 0.72,
        other if (other as u32) < 0x1100 => 0.6,
        _ => 1.05,
    });
    ems.sum::<f64>() * size
}

/// As much of the text as fits, with a sign that there is more; empty if hardly anything fits.
pub(super) fn shorten(text: &str, size: f64, room: f64) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if width(&text, size) <= room {
        return text;
    }
    let room = room - size;
    let mut short = String::new();
    for character in text.chars() {
        short.push(character);
        if width(&short, size) > room {
            short.pop();
            break;
        }
    }
    if short.is_empty() {
        return short;
    }
    short.trim_end().to_owned() + "…"
}

/// A time of a history for people: what is shorter than ten seconds in milliseconds.
pub(super) fn time(nanos: u64) -> String {
    let ms = nanos / 1_000_000;
    if ms < 10_000 {
        return format!("{ms} ms");
    }
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_escaped_can_act() {
        let hostile = "\"><img src=x onerror='alert(1)'>&\u{0}\u{202e}\u{1b}";
        let safe = escape(hostile);
        assert_eq!(
            safe,
            "&quot;&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;\u{fffd}\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn what_does_not_fit_is_shortened() {
        assert_eq!(shorten("short", 12.0, 100.0), "short");
        assert_eq!(shorten("two\nlines", 12.0, 100.0), "two lines");
        let short = shorten("a name that is much too long", 12.0, 80.0);
        assert!(
            short.ends_with('…') && width(&short, 12.0) <= 80.0,
            "{short}"
        );
        assert_eq!(shorten("wide", 12.0, 5.0), "");
        assert!(width("持有锁", 12.0) > width("abc", 12.0));
    }
}
