//! How a claim wants its name: alone, together with other readers, or as some of n permits.

use std::fmt;
use std::str::FromStr;

/// How a claim wants its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Nobody else may hold.
    Exclusive,
    /// Any number of shared claims may hold together.
    Shared,
    /// `take` permits out of `of`.
    Permits {
        /// How many permits this claim takes; at least 1.
        take: u32,
        /// How many there are in all; at least `take`.
        of: u32,
    },
}

impl Mode {
    /// `take` permits out of `of`.
    ///
    /// # Errors
    /// When `take` is 0 or more than `of`: such a claim could never hold.
    pub fn permits(take: u32, of: u32) -> Result<Self, ModeError> {
        if take == 0 || take > of {
            return Err(ModeError::Permits { take, of });
        }
        Ok(Self::Permits { take, of })
    }
}

/// The short form of sequencers: `x`, `s` or `p2.5`.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("x"),
            Self::Shared => f.write_str("s"),
            Self::Permits { take, of } => write!(f, "p{take}.{of}"),
        }
    }
}

impl FromStr for Mode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        match text {
            "x" => return Ok(Self::Exclusive),
            "s" => return Ok(Self::Shared),
            _ => {}
        }
        let unknown = || ModeError::Unknown {
            text: text.chars().take(32).collect(),
        };
        let (take, of) = text
            .strip_prefix('p')
            .and_then(|rest| rest.split_once('.'))
            .ok_or_else(unknown)?;
        let number = |digits: &str| {
            let canonical = digits
                .parse::<u32>()
                .ok()
                .filter(|n| n.to_string() == digits);
            canonical.ok_or_else(unknown)
        };
        Self::permits(number(take)?, number(of)?)
    }
}

/// Why something is no mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModeError {
    /// No permits asked for, or more than there are.
    #[error("cannot take {take} of {of} permits: ask for at least 1 and at most {of}")]
    Permits {
        /// Permits asked for.
        take: u32,
        /// Permits there are.
        of: u32,
    },
    /// The text is neither `x`, `s` nor `pTAKE.OF`.
    #[error("{text:?} is no lock mode: x, s or pTAKE.OF was expected")]
    Unknown {
        /// The beginning of the text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::permits(2, 5).unwrap()] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        for bad in [
            "",
            "X",
            "p",
            "p.",
            "p0.5",
            "p6.5",
            "p+1.5",
            "p01.5",
            "p1.5.",
            "p1.99999999999",
        ] {
            assert!(bad.parse::<Mode>().is_err(), "{bad:?}");
        }
    }
}
