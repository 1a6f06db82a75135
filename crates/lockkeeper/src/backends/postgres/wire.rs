//! Between rows and nouns: names, modes and numbers as the tables hold them.

use std::borrow::Cow;

use tokio_postgres::Row as Answer;

use super::BACKEND;
use super::faults::unreachable;
use crate::backend::Wake;
use crate::backends::sql::list::{Ring, Row, micros};
use crate::backends::sql::shortened;
use crate::backends::sql::show::Shown;
use crate::claim::{Claim, ClaimId, Party};
use crate::error::Error;
use crate::{Mode, Name};

/// The name as the tables hold it.
pub(super) fn text_of(name: &Name) -> Cow<'_, str> {
    escaped(name.as_str())
}

/// PostgreSQL's text has no zero character.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| byte != b'\\' && byte != 0) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\\', "\\\\").replace('\0', "\\0"))
}

/// The mode as the tables hold it.
fn mode_of(mode: Mode) -> Cow<'static, str> {
    match mode {
        Mode::Exclusive => Cow::Borrowed("x"),
        Mode::Shared => Cow::Borrowed("s"),
        other => Cow::Owned(other.to_string()),
    }
}

/// The claim as columns; of none, columns that are not used.
#[derive(Default)]
pub(super) struct Columns<'a> {
    pub(super) id: &'a [u8],
    pub(super) mode: Cow<'static, str>,
    pub(super) lease_us: i64,
    pub(super) label: Cow<'a, str>,
    pub(super) host: Cow<'a, str>,
    pub(super) pid: i64,
}

impl<'a> Columns<'a> {
    pub(super) fn of(claim: &'a Claim) -> Self {
        Self {
            id: claim.id.as_bytes(),
            mode: mode_of(claim.mode),
            lease_us: micros(claim.lease),
            label: escaped(shortened(&claim.party.label)),
            host: escaped(shortened(&claim.party.host)),
            pid: i64::from(claim.party.pid),
        }
    }
}

pub(super) fn name_of(text: &str) -> Option<Name> {
    Name::new(plain(text)?).ok()
}

fn plain(text: &str) -> Option<String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => match rest.next()? {
                '0' => name.push('\0'),
                escaped => name.push(escaped),
            },
            plain => name.push(plain),
        }
    }
    Some(name)
}

/// A row of `read.sql` or `inspect.sql`, if there is a claim in it.
pub(super) fn row(answer: &Answer) -> Result<Option<Row>, Error> {
    let read = || -> Option<Option<Row>> {
        let Some(order) = answer.try_get::<_, Option<i64>>("order_no").ok()? else {
            return Some(None);
        };
        let id: &[u8] = answer.try_get("id").ok()?;
        let mode: &str = answer.try_get("mode").ok()?;
        Some(Some(Row {
            order: u64::try_from(order).ok()?,
            id: ClaimId::from_bytes(id.try_into().ok()?),
            mode: mode.parse::<Mode>().ok()?,
            left_us: answer.try_get("left_us").ok()?,
            lease_us: answer.try_get("lease_us").ok()?,
            granted: answer.try_get("granted").ok()?,
            keeper: answer.try_get("keeper").ok()?,
        }))
    };
    read().ok_or_else(nonsense)
}

/// A row of `inspect.sql`.
pub(super) fn shown(answer: &Answer) -> Result<Shown, Error> {
    let row = row(answer)?.ok_or_else(nonsense)?;
    let read = || {
        let pid: i64 = answer.try_get("pid").ok()?;
        Some(Shown {
            name: name_of(answer.try_get("name").ok()?)?,
            row,
            party: Party {
                label: plain(answer.try_get("label").ok()?)?,
                host: plain(answer.try_get("host").ok()?)?,
                pid: u32::try_from(pid).ok()?,
            },
            since_us: answer.try_get("since_us").ok()?,
        })
    };
    read().ok_or_else(nonsense)
}

/// What a keeper is told, and how it reads it.
pub(super) fn payload(ring: &Ring) -> String {
    let id = ring.id.as_bytes().iter();
    let mut text: String = id.map(|byte| format!("{byte:02x}")).collect();
    if let Some(order) = ring.holds {
        text.push_str(&format!(" {order}"));
    }
    text
}

/// The news in a payload; what makes no sense is no news.
pub(super) fn wake(payload: &str) -> Option<Wake> {
    let (id, order) = match payload.split_once(' ') {
        Some((id, order)) => (id, Some(order.parse::<u64>().ok()?)),
        None => (payload, None),
    };
    let mut bytes = [0; 16];
    if id.len() != 32 || !id.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&id[2 * at..2 * at + 2], 16).ok()?;
    }
    let claim = ClaimId::from_bytes(bytes);
    Some(match order {
        Some(order) => Wake::Holds { claim, order },
        None => Wake::Look(claim),
    })
}

pub(super) fn nonsense() -> Error {
    unreachable("reading its tables (what stands there makes no sense: was it written by hand?)")
}

/// A claim that could never hold would block everybody behind it.
pub(super) fn possible(mode: Mode) -> Result<(), Error> {
    match mode {
        Mode::Exclusive | Mode::Shared => Ok(()),
        Mode::Permits { take, of } => Ok(Mode::permits(take, of).map(drop)?),
        mode => Err(Error::Refused {
            backend: BACKEND,
            why: format!("it does not know the mode {mode}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_they_went_in_and_stay_apart() {
        let odd = ["a", "\\", "\\0", "\0", "\\\0", "a\\\\0b", "é\0\\"];
        let mut texts = std::collections::HashSet::new();
        for name in odd.map(|name| Name::new(name).unwrap()) {
            let text = text_of(&name).into_owned();
            assert!(!text.contains('\0'));
            assert_eq!(name_of(&text), Some(name));
            assert!(texts.insert(text));
        }
    }

    #[test]
    fn payloads_are_read_as_they_were_written() {
        let id = ClaimId::from_bytes(*b"0123456789abcdef");
        for holds in [None, Some(77)] {
            let keeper = String::new();
            let told = wake(&payload(&Ring { keeper, id, holds }));
            let expected = match holds {
                Some(order) => Wake::Holds { claim: id, order },
                None => Wake::Look(id),
            };
            assert_eq!(told, Some(expected));
        }
        for nonsense in ["", "xyz", "é".repeat(16).as_str(), &"0".repeat(31)] {
            assert_eq!(wake(nonsense), None);
        }
    }
}
