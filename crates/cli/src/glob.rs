//! The pattern of `ls` and `watch`: `*` for any run of characters, `?` for one, all else itself.

/// Whether the whole name matches the pattern. `/` has no meaning in a name, so `*` crosses it.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on if the present guess for the last star was too short. Earlier stars never need
    // another guess, so the time is bounded by the product of the lengths.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match (pattern.get(p), retry) {
            (Some('*'), _) => {
                p += 1;
                retry = Some((p, n));
            }
            (Some(c), _) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            (_, Some((star, from))) => {
                (p, n) = (star, from + 1);
                retry = Some((star, n));
            }
            (_, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Whether the pattern can match one name only: itself.
pub(crate) fn is_plain(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("orders/*", "orders/42/a", true),
            ("orders/*", "order/42", false),
            ("*a*b*c", "xxaxxbxxbc", true),
            ("a?c", "aüc", true),
            ("a?c", "ac", false),
            ("a", "ab", false),
            ("**?", "x", true),
            ("", "", true),
            ("a*b", "a*b", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern:?} {name:?}");
        }
        // Many stars against a name that almost matches must not take for ever.
        assert!(!matches(&"*a".repeat(100), &"a".repeat(99)));
    }
}
