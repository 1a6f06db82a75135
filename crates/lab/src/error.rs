//! What can go wrong in the lab itself, as opposed to in its stories.

/// Words for people: a server that is missing, a client that does not answer.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A result of the lab.
pub type Result<T> = std::result::Result<T, Error>;
