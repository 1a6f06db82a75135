//! What happened between two looks, one line each.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use lockkeeper::backend::{ClaimView, LockView};

use crate::span;
use crate::visible::visible;

/// Name and order number: what a claim is known by.
type Key<'a> = (&'a str, u64);

#[derive(Clone, Copy)]
struct Seen<'a> {
    holds: bool,
    claim: &'a ClaimView,
}

/// Who came, got it, let go or gave up; for each name what ends before what begins.
pub(super) fn between(before: &[LockView], now: &[LockView]) -> Vec<String> {
    let (before, now) = (claims(before), claims(now));
    let mut changes: Vec<(&str, u8, String)> = Vec::new();
    for (key, seen) in &before {
        if !now.contains_key(key) {
            let word = if seen.holds { "freed" } else { "left" };
            changes.push((key.0, 0, line(key.0, word, seen.claim)));
        }
    }
    for (key, seen) in &now {
        let same = before
            .get(key)
            .is_some_and(|old| old.holds == seen.holds && old.claim.token == seen.claim.token);
        if !same {
            let (rank, word) = if seen.holds {
                (1, "holds")
            } else {
                (2, "waits")
            };
            changes.push((key.0, rank, line(key.0, word, seen.claim)));
        }
    }
    changes.sort_by_key(|(name, rank, _)| (*name, *rank));
    changes.into_iter().map(|(_, _, line)| line).collect()
}

fn claims(views: &[LockView]) -> BTreeMap<Key<'_>, Seen<'_>> {
    let mut claims = BTreeMap::new();
    for view in views {
        let holders = view.holders.iter().map(|claim| Seen { holds: true, claim });
        let waiters = view.waiters.iter().map(|claim| Seen {
            holds: false,
            claim,
        });
        for seen in holders.chain(waiters) {
            claims.insert((view.name.as_str(), seen.claim.token.order()), seen);
        }
    }
    claims
}

fn line(name: &str, word: &str, claim: &ClaimView) -> String {
    let since = match word {
        "freed" | "left" => format!(" after {}", span::show(claim.since)),
        _ => String::new(),
    };
    let party = visible(&claim.party.to_string());
    format!(
        "{} {word} token {} {party}{since}",
        visible(name),
        claim.token
    )
}

/// The moment as `2026-01-31T23:59:59Z`.
pub(super) fn utc(moment: SystemTime) -> String {
    let since = moment
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Civil date from days, after Howard Hinnant: years begin in March, so that the leap day is the
    // last of a year, and 400 years always have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use lockkeeper::claim::Party;
    use lockkeeper::{Mode, Name, Token};

    use super::*;

    fn claim(order: u64, step: u8) -> ClaimView {
        ClaimView {
            token: Token::new(order, step).unwrap(),
            mode: Mode::Exclusive,
            party: Party {
                label: "job".into(),
                host: "h".into(),
                pid: 7,
            },
            since: Duration::from_secs(12),
            lease_left: Duration::from_secs(30),
        }
    }

    fn view(holders: Vec<ClaimView>, waiters: Vec<ClaimView>) -> Vec<LockView> {
        vec![LockView {
            name: Name::new("n").unwrap(),
            holders,
            waiters,
        }]
    }

    // proves: U3
    #[test]
    fn each_change_is_one_line() {
        let first = view(vec![claim(1, 0)], vec![claim(2, 0)]);
        assert_eq!(
            between(&[], &first),
            [
                "n holds token 256 job (pid 7 on h)",
                "n waits token 512 job (pid 7 on h)"
            ]
        );
        assert!(between(&first, &first).is_empty());
        let handed_over = view(vec![claim(2, 0)], vec![]);
        assert_eq!(
            between(&first, &handed_over),
            [
                "n freed token 256 job (pid 7 on h) after 12s",
                "n holds token 512 job (pid 7 on h)"
            ]
        );
        let passed_on = view(vec![claim(2, 1)], vec![]);
        assert_eq!(
            between(&handed_over, &passed_on),
            ["n holds token 513 job (pid 7 on h)"]
        );
        assert_eq!(
            between(&passed_on, &[]),
            ["n freed token 513 job (pid 7 on h) after 12s"]
        );
    }

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(
                utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
                text
            );
        }
    }
}
