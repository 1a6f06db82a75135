//! Tokens are long and begin alike: where room is short only what tells them apart is shown. The whole number stands in
//! the title of whatever shows it.

use crate::history::{Event, What};

/// So many digits are kept at least.
const KEPT: usize = 4;

/// What all tokens of a history begin with.
pub(super) struct Tokens {
    beginning: String,
    digits: usize,
}

impl Tokens {
    pub(super) fn of(history: &[Event]) -> Tokens {
        let tokens: Vec<String> = history.iter().filter_map(token).collect();
        let first = tokens.first().map_or("", String::as_str);
        let digits = first.len();
        let alike = tokens.iter().all(|token| token.len() == digits);
        let shared = tokens.iter().map(|token| shared(first, token)).min();
        let shared = shared.unwrap_or(0).min(digits.saturating_sub(KEPT));
        // Tokens of different length are told apart by it.
        let beginning = if alike { &first[..shared] } else { "" };
        Tokens {
            beginning: beginning.to_owned(),
            digits,
        }
    }

    /// The text with every token in it shortened.
    pub(super) fn short(&self, text: &str) -> String {
        // A few digits are not worth a dot of their own.
        if self.beginning.len() < KEPT {
            return text.to_owned();
        }
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(|character: char| character.is_ascii_digit()) {
            let (before, from) = rest.split_at(start);
            let length = from.find(|character: char| !character.is_ascii_digit());
            let (number, after) = from.split_at(length.unwrap_or(from.len()));
            out += before;
            match number.strip_prefix(&self.beginning) {
                Some(end) if number.len() == self.digits => out += &format!("…{end}"),
                _ => out += number,
            }
            rest = after;
        }
        out + rest
    }
}

fn token(event: &Event) -> Option<String> {
    match event.what {
        What::Believes { token, .. } | What::Write { token, .. } => Some(token?.to_string()),
        _ => None,
    }
}

/// How many digits two numbers share from the beginning.
fn shared(one: &str, other: &str) -> usize {
    let pairs = one.bytes().zip(other.bytes());
    pairs.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tokens: &[u64]) -> Tokens {
        let believes = |token| Event {
            at: 1,
            lane: "a".to_owned(),
            what: What::Believes {
                lock: "x".to_owned(),
                token: Some(token),
                until: None,
            },
        };
        let history: Vec<Event> = tokens.iter().copied().map(believes).collect();
        Tokens::of(&history)
    }

    #[test]
    fn what_tells_tokens_apart_stays() {
        let long = of(&[459_477_742_676_847_104, 459_477_742_676_848_128]);
        let text = "token 459477742676847104 is older than 459477742676848128, by 17";
        assert_eq!(long.short(text), "token …7104 is older than …8128, by 17");
        let far = of(&[459_477_742_676_847_104, 459_477_999_676_848_128]);
        assert_eq!(far.short("459477742676847104"), "…742676847104");
        let alone = of(&[459_477_742_676_847_104]);
        assert_eq!(alone.short("token 459477742676847104"), "token …7104");
    }

    #[test]
    fn small_tokens_stay_whole() {
        assert_eq!(of(&[8448, 8704]).short("8448 and 8704"), "8448 and 8704");
        assert_eq!(of(&[999, 1000]).short("999 and 1000"), "999 and 1000");
        assert_eq!(of(&[]).short("2026"), "2026");
    }
}
