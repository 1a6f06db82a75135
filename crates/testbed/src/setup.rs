//! How a server is to be started: what all kinds have in common.

/// Choices for a start; the default is the fastest server with the machine's own clock.
///
/// In a set of servers every node gets the same.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Setup {
    pub(crate) durable: bool,
    pub(crate) movable_clock: bool,
    pub(crate) settings: Vec<(String, String)>,
}

impl Setup {
    /// The default choices.
    #[must_use]
    pub fn new() -> Setup {
        Setup::default()
    }

    /// Every acknowledged write is on disk first. Without it data may live in memory only.
    #[must_use]
    pub fn durable(mut self) -> Setup {
        self.durable = true;
        self
    }

    /// The wall clock of each server can be moved with [`Server::clock`](crate::Server::clock).
    #[must_use]
    pub fn movable_clock(mut self) -> Setup {
        self.movable_clock = true;
        self
    }

    /// One setting in the server's own words, for example `("maxmemory", "2mb")` for Redis or
    /// `("max_connections", "5")` for PostgreSQL. Later ones win over this crate's own.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Setup {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }
}
