//! The fencing token: a number that only rises, per name, over all grants.

use std::fmt;
use std::str::FromStr;

/// The fencing token of one grant.
///
/// It is `order x 256 + step`: the engine numbers the claims of a name in the order in which they
/// are granted, and the step counts the hand-overs inside one process under one claim. A later grant
/// of the same name always has a higher token, and every token fits a signed 64-bit column.
///
/// ```
/// use lockkeeper_fence::Token;
///
/// let first = Token::new(7, 0)?;
/// let handed_on = Token::new(7, 1)?;
/// let next = Token::new(8, 0)?;
/// assert!(first < handed_on && handed_on < next);
/// assert_eq!(first.get(), 1792);
/// # Ok::<(), lockkeeper_fence::TokenError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(u64);

impl Token {
    /// The highest order number: the token still fits a signed 64-bit column.
    pub const MAX_ORDER: u64 = (1 << 55) - 1;

    /// The token of the `step`-th hand-over under the claim with this order number.
    ///
    /// # Errors
    /// When `order` is 0 or above [`Token::MAX_ORDER`].
    pub fn new(order: u64, step: u8) -> Result<Self, TokenError> {
        if order == 0 || order > Self::MAX_ORDER {
            return Err(TokenError::Order { order });
        }
        Ok(Self(order << 8 | u64::from(step)))
    }

    /// The plain number, for a column or a header.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The engine's order number of the claim.
    pub const fn order(self) -> u64 {
        self.0 >> 8
    }

    /// The hand-over inside one process under that claim.
    pub const fn step(self) -> u8 {
        (self.0 & 0xff) as u8
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl TryFrom<u64> for Token {
    type Error = TokenError;

    fn try_from(number: u64) -> Result<Self, TokenError> {
        Self::new(number >> 8, (number & 0xff) as u8)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let unknown = || TokenError::Text {
            text: text.chars().take(32).collect(),
        };
        let number: u64 = text.parse().map_err(|_| unknown())?;
        // One number has one spelling: "+7" and "007" are somebody's mistake or trick.
        if number.to_string() != text {
            return Err(unknown());
        }
        Self::try_from(number)
    }
}

/// Why something is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The order number is 0 or too high.
    #[error("order number {order} is out of range: 1 to 2^55 - 1 was expected")]
    Order {
        /// The number found.
        order: u64,
    },
    /// The text is no plain decimal number.
    #[error("{text:?} is no fencing token: a plain decimal number was expected")]
    Text {
        /// The beginning of the text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_a_signed_column_and_keeps_its_parts() {
        let highest = Token::new(Token::MAX_ORDER, 255).unwrap();
        assert_eq!(highest.get(), i64::MAX as u64);
        assert_eq!((highest.order(), highest.step()), (Token::MAX_ORDER, 255));
        assert!(Token::new(Token::MAX_ORDER + 1, 0).is_err());
        assert!(Token::new(0, 9).is_err());
        assert!(Token::try_from(u64::MAX).is_err());
    }

    #[test]
    fn one_spelling_only() {
        assert_eq!("1792".parse(), Token::new(7, 0));
        for bad in [
            "",
            "+1792",
            "01792",
            "1792 ",
            "-1",
            "99999999999999999999",
            "255",
        ] {
            assert!(bad.parse::<Token>().is_err(), "{bad:?}");
        }
    }
}
