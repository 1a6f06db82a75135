//! What a claim's node has in it: for people, for inspection, and to say that an exclusive claim has
//! become a shared one. One line of text: `lockkeeper x 30000 4242 host label`.

use std::sync::Arc;
use std::time::Duration;

use super::escape::{escape, unescape};
use crate::Mode;
use crate::claim::Party;

const MARK: &str = "lockkeeper";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) mode: Mode,
    pub(super) lease: Duration,
    pub(super) party: Arc<Party>,
}

impl Note {
    pub(super) fn text(&self) -> String {
        let lease = self.lease.as_millis();
        let (host, label) = (word(&self.party.host), word(&self.party.label));
        format!(
            "{MARK} {} {lease} {} {host} {label}",
            self.mode, self.party.pid
        )
    }

    /// What the node says; `None` if another client wrote it.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(data).ok()?.split(' ');
        if words.next()? != MARK {
            return None;
        }
        let mode = words.next()?.parse().ok()?;
        let lease = Duration::from_millis(words.next()?.parse().ok()?);
        let pid = words.next()?.parse().ok()?;
        let (host, label) = (unword(words.next()?)?, unword(words.next()?)?);
        Some(Self {
            mode,
            lease,
            party: Arc::new(Party { label, host, pid }),
        })
    }
}

/// A foreign client's claim, as far as its node tells: Curator writes its address there, kazoo the name
/// that its user gave.
pub(super) fn stranger(child: &str, data: &[u8]) -> Party {
    let label = if child.starts_with("_c_") {
        "Curator"
    } else {
        "kazoo"
    };
    let said = String::from_utf8_lossy(data);
    let said = said.chars().take(64).collect::<String>();
    Party {
        label: format!("{label} client"),
        host: if said.is_empty() {
            "unknown".into()
        } else {
            said
        },
        pid: 0,
    }
}

/// A text as one word; no text is `%`.
fn word(text: &str) -> String {
    if text.is_empty() {
        return "%".into();
    }
    escape(text, |c| c != '%' && !c.is_whitespace() && !c.is_control())
}

fn unword(word: &str) -> Option<String> {
    if word == "%" {
        return Some(String::new());
    }
    unescape(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_as_it_went_in() {
        for (label, host) in [("", ""), ("\n\0", "host-é"), ("a b %", "😀"), ("x", "y")] {
            let note = Note {
                mode: Mode::Permits { take: 2, of: 3 },
                lease: Duration::from_millis(1500),
                party: Arc::new(Party {
                    label: label.into(),
                    host: host.into(),
                    pid: u32::MAX,
                }),
            };
            let text = note.text();
            assert_eq!(text.lines().count(), 1);
            assert_eq!(Note::read(text.as_bytes()), Some(note));
        }
        for foreign in [
            "",
            "127.0.0.1",
            "lockkeeper",
            "lockkeeper x 1 2 3",
            "lockkeeper q 1 2 h l",
        ] {
            assert_eq!(Note::read(foreign.as_bytes()), None, "{foreign}");
        }
    }
}
