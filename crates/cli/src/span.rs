//! Spans of time as people write and read them: `500ms`, `10s`, `1h30m`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

/// Reads `500ms`, `10s`, `5m`, `1h30m`. A number needs its unit: whether `10` means seconds or
/// milliseconds is not for the program to guess.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    const SHAPE: &str = "write it like 500ms, 10s, 5m or 1h30m";
    let mut rest = text;
    let mut millis: u64 = 0;
    let mut smallest = u64::MAX;
    if rest.is_empty() {
        return Err(SHAPE.into());
    }
    while !rest.is_empty() {
        let (digits, tail) = split(rest, |c| c.is_ascii_digit());
        let (unit, tail) = split(tail, |c| !c.is_ascii_digit());
        let number: u64 = digits.parse().map_err(|_| SHAPE.to_owned())?;
        if unit.is_empty() {
            return Err(format!("{digits} has no unit: {SHAPE}"));
        }
        let (_, size) = UNITS
            .into_iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(|| format!("{unit:?} is no unit of time: {SHAPE}"))?;
        if size >= smallest {
            return Err(format!(
                "its parts must go from the largest unit down: {SHAPE}"
            ));
        }
        smallest = size;
        millis = number
            .checked_mul(size)
            .and_then(|part| millis.checked_add(part))
            .ok_or("it is longer than any wait")?;
        rest = tail;
    }
    Ok(Duration::from_millis(millis))
}

fn split(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}

/// Two units at most: `350ms`, `1.2s`, `12s`, `3m05s`, `2h10m`, `4d03h`.
pub(crate) fn show(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 => format!("{}ms", span.as_millis()),
        1..10 => format!("{seconds}.{}s", span.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d1h1m1s1ms", 90_061_001),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in [
            "",
            "10",
            "s",
            "10 s",
            "-1s",
            "1.5s",
            "1s1h",
            "1s1s",
            "1y",
            "1msx",
            "99999999999999999d",
            "ü",
            "1ü",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn shows_what_people_read() {
        for (millis, text) in [
            (0, "0ms"),
            (350, "350ms"),
            (1_299, "1.2s"),
            (12_900, "12s"),
            (185_000, "3m05s"),
            (7_800_000, "2h10m"),
            (356_400_000, "4d03h"),
        ] {
            assert_eq!(show(Duration::from_millis(millis)), text);
        }
    }
}
