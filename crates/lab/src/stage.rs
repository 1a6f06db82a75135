//! What a part of a scenario plays on.

/// What a part of a scenario plays on.
#[derive(Debug)]
pub struct Stage {}
