//! Names of nodes: a lock's name as one path element, and what the name of a child says about the claim
//! that it stands for.

use super::escape::{escape, unescape};
use crate::claim::ClaimId;
use crate::{Mode, Name};

/// How the nodes of this keeper are called, and so whose clients wait for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `_c_<uuid>-lock-<number>`, as Curator's `InterProcessMutex` writes them.
    Curator,
    /// `<uuid>__lock__<number>`, as kazoo's `Lock` writes them.
    Kazoo,
}

impl Style {
    /// Between the parts of a node's name.
    fn separator(self) -> &'static str {
        match self {
            Self::Curator => "-",
            Self::Kazoo => "__",
        }
    }
}

/// A node that stands for a claim, ours or a foreign client's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contender {
    /// The node's name below the lock's own.
    pub(super) child: String,
    /// Its sequence number: 32 bits that wrap.
    pub(super) number: i32,
    pub(super) mode: Mode,
    /// How often its data is known to have changed.
    pub(super) version: i32,
}

/// The lock's name as one path element. A slash is no level: Curator takes every child of a lock's
/// node for a contender, so a node of the name `a/0` below that of `a` would block it.
pub(super) fn element(name: &Name) -> String {
    let all_dots = matches!(name.as_str(), "." | "..");
    escape(name.as_str(), |c| is_plain(c) && !all_dots)
}

/// The lock's name from the path element; `None` for an element that no name has.
pub(super) fn name_of(text: &str) -> Option<Name> {
    let name = Name::new(unescape(text)?).ok()?;
    // One name has one element: "%61" is nobody's.
    (element(&name) == text).then_some(name)
}

fn is_plain(c: char) -> bool {
    is_fit(c) && c != '%'
}

/// Whether the servers take this in a path element. They look at UTF-16, so what needs a pair there is
/// refused.
pub(super) fn is_fit(c: char) -> bool {
    !matches!(c,
        '/' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// What stands before the sequence number in the name of a claim's node. To a foreign client each of
/// them is a lock ahead of it, whatever its mode.
pub(super) fn prefix(style: Style, id: &ClaimId, mode: Mode) -> String {
    let mark = match mode {
        Mode::Shared => "shared".to_owned(),
        Mode::Permits { take, of } => format!("permits.{take}.{of}"),
        _ => String::new(),
    };
    let separator = style.separator();
    let mut prefix = own_prefix(style, id);
    if !mark.is_empty() {
        prefix.push_str(&mark);
        prefix.push_str(separator);
    }
    prefix.push_str("lock");
    prefix.push_str(separator);
    prefix
}

/// Whether the node was made for this claim, in whichever style and by whichever session.
pub(super) fn is_of(child: &str, id: &ClaimId) -> bool {
    [Style::Curator, Style::Kazoo]
        .iter()
        .any(|style| child.starts_with(&own_prefix(*style, id)))
}

fn own_prefix(style: Style, id: &ClaimId) -> String {
    // On the way of every lock, so without the formatting of numbers.
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut own = String::with_capacity(64);
    if style == Style::Curator {
        own.push_str("_c_");
    }
    for (at, byte) in id.as_bytes().iter().enumerate() {
        if style == Style::Curator && matches!(at, 4 | 6 | 8 | 10) {
            own.push('-');
        }
        for digit in [byte >> 4, byte & 15] {
            own.push(char::from(DIGITS[usize::from(digit)]));
        }
    }
    own.push_str(style.separator());
    own
}

/// What a foreign client writes before the number, and how it means it: Curator's mutexes and
/// read-write locks, kazoo's locks and read locks.
const MARKS: &[(&str, Mode)] = &[
    ("__rlock__", Mode::Shared),
    ("__READ__", Mode::Shared),
    ("__WRIT__", Mode::Exclusive),
    ("__lock__", Mode::Exclusive),
    ("lock-", Mode::Exclusive),
];

/// The claim that a child stands for; `None` for anything else that somebody put there.
pub(super) fn contender(child: &str) -> Option<Contender> {
    let (head, number, mark, meant) = MARKS.iter().find_map(|(mark, mode)| {
        let (head, digits) = child.rsplit_once(mark)?;
        let number: i32 = digits.parse().ok()?;
        // As Java formats it: ten characters at least, the sign included.
        (format!("{number:010}") == digits).then_some((head, number, *mark, *mode))
    })?;
    let separator = match mark {
        "lock-" => "-",
        _ => "__",
    };
    Some(Contender {
        child: child.to_owned(),
        number,
        mode: own_mode(head, separator).unwrap_or(meant),
        version: 0,
    })
}

/// The mode that this library wrote before the mark of a lock.
fn own_mode(head: &str, separator: &str) -> Option<Mode> {
    let head = match separator {
        "-" => head.strip_suffix('-')?,
        _ => head,
    };
    let (_, mode) = head.rsplit_once(separator)?;
    if mode == "shared" {
        return Some(Mode::Shared);
    }
    let (take, of) = mode.strip_prefix("permits.")?.split_once('.')?;
    Mode::permits(take.parse().ok()?, of.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn plain_names_are_their_own_element() {
        for text in ["orders", "a b", "é", "lock-1", "...", "a.b", "日本"] {
            assert_eq!(element(&name(text)), text);
        }
        for (text, encoded) in [
            ("a/b", "a%2Fb"),
            ("..", "%2E%2E"),
            ("a%2Fb", "a%252Fb"),
            ("😀", "%F0%9F%98%80"),
            ("\0", "%00"),
            ("\u{ffff}", "%EF%BF%BF"),
        ] {
            assert_eq!(element(&name(text)), encoded);
            assert_eq!(name_of(encoded), Some(name(text)));
        }
        for nobody in ["%61", "%2f", "%", "%2", "%zz", "%FF", "", "%broken"] {
            assert_eq!(name_of(nobody), None, "{nobody}");
        }
    }

    proptest! {
        // One name, one element, and back: so no two names share one.
        #[test]
        fn every_name_comes_back(text in any::<String>()) {
            if let Ok(name) = Name::new(text) {
                let element = element(&name);
                prop_assert!(!element.is_empty() && element != "." && element != "..");
                let refused = |c: char| c == '/' || c.is_control() || u32::from(c) > 0xffef
                    || ('\u{e000}'..='\u{f8ff}').contains(&c);
                prop_assert!(!element.contains(refused), "{element:?}");
                prop_assert_eq!(name_of(&element), Some(name));
            }
        }

        #[test]
        fn no_text_breaks_the_parser(text in any::<String>()) {
            let _some_or_none = (contender(&text), name_of(&text));
        }

        #[test]
        fn what_is_written_is_read(id in any::<[u8; 16]>(), number in any::<i32>(), take in 1..9u32, more in 0..9u32) {
            let id = ClaimId::from_bytes(id);
            let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits { take, of: take + more }];
            for style in [Style::Curator, Style::Kazoo] {
                for mode in modes {
                    let child = format!("{}{number:010}", prefix(style, &id, mode));
                    let read = contender(&child).unwrap();
                    prop_assert_eq!((read.number, read.mode), (number, mode));
                    prop_assert!(is_of(&child, &id));
                    prop_assert!(!is_of(&child, &ClaimId::from_bytes([7; 16])));
                }
            }
        }
    }

    // bug 56
    #[test]
    fn foreign_locks_are_respected_and_junk_is_not() {
        let mode = |child: &str| contender(child).map(|contender| contender.mode);
        for exclusive in [
            "_c_2d5c0b4e-1f2a-4c3b-9d8e-7f6a5b4c3d2e-lock-0000000007",
            "lock-0000000007",
            "7b1e3c9ad2f54c0b8e6f1a2b3c4d5e6f__lock__0000000007",
            "_c_2d5c0b4e-1f2a-4c3b-9d8e-7f6a5b4c3d2e-__WRIT__0000000007",
            "_c_2d5c0b4e-1f2a-4c3b-9d8e-7f6a5b4c3d2e-lock--000000007",
            "x__lock__-2147483648",
        ] {
            assert_eq!(mode(exclusive), Some(Mode::Exclusive), "{exclusive}");
        }
        for shared in [
            "7b1e3c9ad2f54c0b8e6f1a2b3c4d5e6f__rlock__0000000007",
            "_c_2d5c0b4e-1f2a-4c3b-9d8e-7f6a5b4c3d2e-__READ__0000000007",
        ] {
            assert_eq!(mode(shared), Some(Mode::Shared), "{shared}");
        }
        for junk in [
            "",
            "lock-",
            "lock-7",
            "lock-0000000007x",
            "lock-00000000007",
            "lock-+000000007",
            "lock-99999999999",
            "config",
            "0000000007",
            "__lock__",
            "-lock-é000000007",
        ] {
            assert_eq!(mode(junk), None, "{junk}");
        }
    }
}
