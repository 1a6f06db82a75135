//! The name of a lock: any UTF-8 of 1 to 256 bytes. Each backend encodes it into its own key space.

use std::fmt;
use std::sync::Arc;

/// The name of a lock.
///
/// Any UTF-8 text of 1 to [`Name::MAX_BYTES`] bytes; nothing in it has a meaning, `/` included.
/// Cloning is cheap.
///
/// ```
/// use lockkeeper_fence::Name;
///
/// assert_eq!(Name::new("orders/42")?.as_str(), "orders/42");
/// assert!(Name::new("").is_err());
/// # Ok::<(), lockkeeper_fence::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 256;

    /// Checks the length and takes the text over.
    ///
    /// # Errors
    /// When the text is empty or longer than [`Name::MAX_BYTES`].
    pub fn new(text: impl Into<Arc<str>>) -> Result<Self, NameError> {
        let text = text.into();
        match text.len() {
            0 => Err(NameError::Empty),
            1..=Self::MAX_BYTES => Ok(Self(text)),
            bytes => Err(NameError::TooLong { bytes }),
        }
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl TryFrom<&str> for Name {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl std::str::FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

/// Why a text is no lock name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text is empty.
    #[error("a lock name must not be empty")]
    Empty,
    /// The text is longer than [`Name::MAX_BYTES`].
    #[error("a lock name has at most 256 bytes, this one has {bytes}: shorten it or hash its tail")]
    TooLong {
        /// The length found.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert!(Name::new("x".repeat(256)).is_ok());
        assert_eq!(
            Name::new("x".repeat(257)),
            Err(NameError::TooLong { bytes: 257 })
        );
        assert!(Name::new("é\u{202e}\0'; --").is_ok(), "any UTF-8 is a name");
    }
}
