//! Any text as characters that a path or a word may have: the others become `%XX`, byte by byte.

use std::fmt::Write as _;

/// The text with everything that is not plain escaped. `%` must not be plain.
pub(super) fn escape(text: &str, is_plain: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            escaped.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a string cannot fail.
            let _infallible = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// The text that was escaped; `None` if nothing escapes to this.
pub(super) fn unescape(escaped: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first != b'%' {
            bytes.push(*first);
            rest = tail;
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}
