//! The sequencer: name, mode and token of a hold as one short printable string that a client passes
//! along and a resource, or anybody else, can check.

use std::fmt;
use std::str::FromStr;

use crate::{Mode, ModeError, Name, NameError, Token, TokenError};

/// Name, mode and token of a hold as one printable string, like `lk1:x:8448:orders/42`.
///
/// The name is percent-encoded where it is not plain, so that the string is ASCII without white
/// space and travels through headers, environments and logs. It is a statement, not a secret:
/// whoever gets one compares its token with the highest seen, or asks the engine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sequencer {
    name: Name,
    mode: Mode,
    token: Token,
}

impl Sequencer {
    /// The longest text that is looked at: a name of 256 bytes, all of them encoded, and its front.
    pub const MAX_BYTES: usize = 3 * Name::MAX_BYTES + 64;

    /// Puts the three parts together.
    pub fn new(name: Name, mode: Mode, token: Token) -> Self {
        Self { name, mode, token }
    }

    /// The name of the lock.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The fencing token of the hold.
    pub fn token(&self) -> Token {
        self.token
    }
}

/// Bytes that stand for themselves.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte)
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lk1:{}:{}:", self.mode, self.token)?;
        for byte in self.name.as_str().bytes() {
            if is_plain(byte) {
                write!(f, "{}", char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Sequencer {
    type Err = SequencerError;

    fn from_str(text: &str) -> Result<Self, SequencerError> {
        if text.len() > Self::MAX_BYTES {
            return Err(SequencerError::TooLong { bytes: text.len() });
        }
        let mut parts = text.splitn(4, ':');
        match parts.next() {
            Some("lk1") => {}
            Some(other) if other.starts_with("lk") && other[2..].parse::<u32>().is_ok() => {
                return Err(SequencerError::Version {
                    found: other.to_owned(),
                });
            }
            _ => return Err(SequencerError::Shape),
        }
        let (Some(mode), Some(token), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(SequencerError::Shape);
        };
        Ok(Self {
            name: decode(name)?,
            mode: mode.parse()?,
            token: token.parse()?,
        })
    }
}

fn decode(text: &str) -> Result<Name, SequencerError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (Some(high), Some(low)) =
                (rest.next().and_then(digit), rest.next().and_then(digit))
            else {
                return Err(SequencerError::Encoding);
            };
            let byte = high << 4 | low;
            // One name has one spelling, so that two sequencers are equal exactly when their texts are.
            if is_plain(byte) {
                return Err(SequencerError::Encoding);
            }
            bytes.push(byte);
        } else if is_plain(byte) {
            bytes.push(byte);
        } else {
            return Err(SequencerError::Encoding);
        }
    }
    let name = String::from_utf8(bytes).map_err(|_| SequencerError::Encoding)?;
    Ok(Name::new(name)?)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// Why a text is no sequencer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SequencerError {
    /// The text does not have the four parts.
    #[error("this is no sequencer: lk1:MODE:TOKEN:NAME was expected")]
    Shape,
    /// Written by a version that this one does not know.
    #[error("sequencer version {found} is unknown here, only lk1 is: update this side")]
    Version {
        /// The version found.
        found: String,
    },
    /// Longer than any sequencer can be.
    #[error(
        "a sequencer has at most {} bytes, this text has {bytes}",
        Sequencer::MAX_BYTES
    )]
    TooLong {
        /// The length found.
        bytes: usize,
    },
    /// The name is not percent-encoded the one right way.
    #[error("the name in this sequencer is not encoded as lockkeeper encodes names")]
    Encoding,
    /// The name is no lock name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The mode is none.
    #[error(transparent)]
    Mode(#[from] ModeError),
    /// The token is none.
    #[error(transparent)]
    Token(#[from] TokenError),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // proves: F5
        #[test]
        fn round_trip(name in "\\PC{1,60}", order in 1..=Token::MAX_ORDER, step: u8) {
            let sequencer =
                Sequencer::new(Name::new(name).unwrap(), Mode::Shared, Token::new(order, step).unwrap());
            let text = sequencer.to_string();
            prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
            prop_assert_eq!(text.parse::<Sequencer>().unwrap(), sequencer);
        }

        /// Whatever is accepted prints as itself: no two texts mean the same.
        #[test]
        fn hostile_text_is_refused_or_canonical(text in "lk[0-9]{1,2}:[xsp0-9.]{0,4}:[0-9]{0,22}:[ -~]{0,20}") {
            if let Ok(sequencer) = text.parse::<Sequencer>() {
                prop_assert_eq!(sequencer.to_string(), text);
            }
        }
    }

    #[test]
    fn refusals_say_why() {
        let error = |text: &str| text.parse::<Sequencer>().unwrap_err();
        assert_eq!(error(""), SequencerError::Shape);
        assert_eq!(error("lk1:x:256"), SequencerError::Shape);
        assert_eq!(
            error("lk2:x:256:a"),
            SequencerError::Version {
                found: "lk2".into()
            }
        );
        assert_eq!(error("lk1:x:256:%61"), SequencerError::Encoding);
        assert_eq!(error("lk1:x:256:%FF"), SequencerError::Encoding);
        assert_eq!(error("lk1:x:256:a b"), SequencerError::Encoding);
        assert_eq!(error("lk1:x:256:"), SequencerError::Name(NameError::Empty));
        assert!(matches!(error("lk1:q:256:a"), SequencerError::Mode(_)));
        assert!(matches!(error("lk1:x:-1:a"), SequencerError::Token(_)));
        assert!(matches!(
            error(&"x".repeat(5000)),
            SequencerError::TooLong { .. }
        ));
    }
}
