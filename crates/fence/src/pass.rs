//! The one law of every fence, as a pure function: who may write after whom.

use std::fmt;
use std::str::FromStr;

use crate::{Mode, Sequencer, Token, TokenError};

/// Which claim a token belongs to: 128 bits that stay the same for as long as the claim lives.
///
/// It is no secret and must be none: fences keep it in the open, beside the data.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimMark([u8; 16]);

impl ClaimMark {
    /// The token alone stands for the claim: right with every engine that never repeats a token.
    pub const BY_TOKEN: Self = Self([0; 16]);

    /// A mark from its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// 32 hexadecimal digits in lower case.
impl fmt::Display for ClaimMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ClaimMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ClaimMark {
    type Err = PassError;

    fn from_str(text: &str) -> Result<Self, PassError> {
        let number = u128::from_str_radix(text, 16).map_err(|_| PassError::Mark)?;
        let mark = Self(number.to_be_bytes());
        // One mark has one spelling.
        match mark.to_string() == text {
            true => Ok(mark),
            false => Err(PassError::Mark),
        }
    }
}

/// What a writer shows at a fence: its token, and which claim the token belongs to.
///
/// Only an exclusive hold gives a pass: the tokens of shared holds and of permits say nothing about
/// who may write.
///
/// ```
/// use lockkeeper_fence::{ClaimMark, Pass, Refusal, Token};
///
/// let (old, new) = (Pass::from(Token::new(7, 0)?), Pass::from(Token::new(8, 0)?));
/// assert!(new.after(Some(&old)).is_ok());
/// assert!(new.after(Some(&new)).is_ok(), "the same claim may go on");
/// let refusal = old.after(Some(&new)).unwrap_err();
/// assert_eq!(refusal, Refusal::Stale { offered: old.token(), highest: new.token() });
///
/// // Another claim under the same number: some engine has forgotten what it handed out.
/// let impostor = Pass::new(new.token(), ClaimMark::from_bytes([1; 16]));
/// assert!(impostor.after(Some(&new)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pass {
    token: Token,
    claim: ClaimMark,
}

impl Pass {
    /// The longest text of a pass.
    pub const MAX_BYTES: usize = 19 + 1 + 32;

    /// Puts the two parts together.
    pub const fn new(token: Token, claim: ClaimMark) -> Self {
        Self { token, claim }
    }

    /// The token.
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Which claim the token belongs to.
    pub const fn claim(&self) -> ClaimMark {
        self.claim
    }

    /// **The law.** May this pass write to a resource that has seen `highest`? A higher token may, an
    /// equal one of the same claim may, nobody else may.
    ///
    /// A fence makes this comparison and the write in one atomic step: a comparison alone is worth
    /// nothing, since its answer may be old before it is read.
    ///
    /// # Errors
    /// A [`Refusal`] that shows both numbers.
    pub fn after(&self, highest: Option<&Pass>) -> Result<(), Refusal> {
        let Some(highest) = highest else {
            return Ok(());
        };
        match self.token.cmp(&highest.token) {
            std::cmp::Ordering::Greater => Ok(()),
            std::cmp::Ordering::Equal if self.claim == highest.claim => Ok(()),
            std::cmp::Ordering::Equal => Err(Refusal::Taken { token: self.token }),
            std::cmp::Ordering::Less => Err(Refusal::Stale {
                offered: self.token,
                highest: highest.token,
            }),
        }
    }
}

/// The token alone stands for its claim.
impl From<Token> for Pass {
    fn from(token: Token) -> Self {
        Self::new(token, ClaimMark::BY_TOKEN)
    }
}

/// The token alone stands for its claim.
impl TryFrom<&Sequencer> for Pass {
    type Error = PassError;

    fn try_from(sequencer: &Sequencer) -> Result<Self, PassError> {
        sequencer.pass(ClaimMark::BY_TOKEN)
    }
}

impl Sequencer {
    /// What the holder shows at a fence.
    ///
    /// # Errors
    /// [`PassError::NotExclusive`] when the hold gives no right to write.
    pub fn pass(&self, claim: ClaimMark) -> Result<Pass, PassError> {
        match self.mode() {
            Mode::Exclusive => Ok(Pass::new(self.token(), claim)),
            mode => Err(PassError::NotExclusive { mode }),
        }
    }
}

/// Token and mark with a point between them, like `8448.0123…`.
impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.token, self.claim)
    }
}

impl FromStr for Pass {
    type Err = PassError;

    fn from_str(text: &str) -> Result<Self, PassError> {
        let (token, claim) = text.split_once('.').ok_or(PassError::Shape)?;
        Ok(Self::new(token.parse()?, claim.parse()?))
    }
}

/// Why a fence refused a write. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A later holder has already been here.
    #[error(
        "token {offered} is stale: the resource has seen {highest}, so the lock was lost and somebody \
         else has it; nothing was written, stop this critical section"
    )]
    Stale {
        /// The token of this write.
        offered: Token,
        /// The highest token that the resource has seen.
        highest: Token,
    },
    /// The token is the highest that the resource has seen, but it came from another claim.
    #[error(
        "token {token} is the highest seen ({token}), but belongs to another claim: the lock engine \
         has handed out a number twice; nothing was written, check the engine for lost data"
    )]
    Taken {
        /// The token of this write, and the highest that the resource has seen.
        token: Token,
    },
}

impl Refusal {
    /// The token that was refused.
    pub fn offered(&self) -> Token {
        match *self {
            Self::Stale { offered, .. } => offered,
            Self::Taken { token } => token,
        }
    }

    /// The highest token that the resource has seen.
    pub fn highest(&self) -> Token {
        match *self {
            Self::Stale { highest, .. } => highest,
            Self::Taken { token } => token,
        }
    }
}

/// Why something is no pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassError {
    /// The text does not have the two parts.
    #[error("this is no pass: TOKEN.CLAIM was expected")]
    Shape,
    /// The mark of the claim is none.
    #[error("this is no mark of a claim: 32 hexadecimal digits in lower case were expected")]
    Mark,
    /// The token is none.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The hold is shared with others.
    #[error("a hold of mode {mode} gives no right to write: only an exclusive one (x) does")]
    NotExclusive {
        /// How the lock is held.
        mode: Mode,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Name;

    fn pass(order: u64, claim: u8) -> Pass {
        Pass::new(
            Token::new(order, 0).unwrap(),
            ClaimMark::from_bytes([claim; 16]),
        )
    }

    proptest! {
        // proves: F3
        /// Whoever is admitted one after the other, the tokens never fall and no number has two claims.
        #[test]
        fn admitted_tokens_never_fall(offers in prop::collection::vec((1u64..20, 0u8..3), 0..200)) {
            let mut highest: Option<Pass> = None;
            for offered in offers.into_iter().map(|(order, claim)| pass(order, claim)) {
                let before = highest;
                match offered.after(highest.as_ref()) {
                    Ok(()) => highest = Some(offered),
                    Err(refusal) => {
                        let seen = before.expect("nothing is refused by an empty resource");
                        prop_assert_eq!(refusal.offered(), offered.token());
                        prop_assert_eq!(refusal.highest(), seen.token());
                        let text = refusal.to_string();
                        prop_assert!(text.contains(&offered.token().to_string()));
                        prop_assert!(text.contains(&seen.token().to_string()));
                        prop_assert!(offered != seen && offered.token() <= seen.token());
                    }
                }
                prop_assert!(before.is_none_or(|before| highest.unwrap().token() >= before.token()));
            }
        }

        #[test]
        fn prints_and_parses(order in 1..=Token::MAX_ORDER, step: u8, mark: [u8; 16]) {
            let pass = Pass::new(Token::new(order, step).unwrap(), ClaimMark::from_bytes(mark));
            let text = pass.to_string();
            prop_assert!(text.len() <= Pass::MAX_BYTES);
            prop_assert_eq!(text.parse::<Pass>(), Ok(pass));
        }

        #[test]
        fn hostile_text_is_refused_or_canonical(text in "[0-9]{0,21}\\.?[0-9a-fA-F+ ]{0,40}") {
            if let Ok(pass) = text.parse::<Pass>() {
                prop_assert_eq!(pass.to_string(), text);
            }
        }
    }

    // proves: F3, F5
    #[test]
    fn only_exclusive_holds_give_a_pass() {
        let token = Token::new(7, 0).unwrap();
        let of = |mode| Pass::try_from(&Sequencer::new(Name::new("a").unwrap(), mode, token));
        assert_eq!(of(Mode::Exclusive), Ok(Pass::from(token)));
        for mode in [Mode::Shared, Mode::permits(1, 2).unwrap()] {
            assert_eq!(of(mode), Err(PassError::NotExclusive { mode }));
        }
    }
}
