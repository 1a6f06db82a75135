//! What a backend promises, as data: shown by the program, asserted by the conformance suite, and
//! weighed by a keeper whose purpose is correctness.

use std::time::Duration;

/// What a backend promises, and under which assumptions.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Guarantees {
    /// The backend's name, as in the URL.
    pub backend: &'static str,
    /// How far its grants can be trusted.
    pub class: Class,
    /// Why the class is not a better one; what a refusal of [`Purpose::Correctness`] says.
    pub class_reason: String,
    /// Faults that it survives without a double grant.
    pub survives: Vec<&'static str>,
    /// Faults that it does not survive, or whose effect the caller must know.
    pub caveats: Vec<String>,
    /// Which clock decides when a lease ends.
    pub clock: &'static str,
    /// How the fencing token is made, and under which assumption it rises.
    pub token: String,
    /// How a waiter learns that it holds.
    pub wake: WakeBy,
    /// In which order waiters are served.
    pub order: Order,
    /// Which modes it grants; all others are refused.
    pub modes: Modes,
    /// The shortest lease it keeps.
    pub shortest_lease: Duration,
    /// The longest lease it keeps.
    pub longest_lease: Duration,
    /// After so long without an answer a claim may be gone, however long its lease: where claims live by
    /// the keeper's session, its timeout. A hold is believed in for no longer.
    pub longest_silence: Duration,
    /// How soon the claims of a killed process are gone.
    pub dead_after: DeadAfter,
}

impl Guarantees {
    /// The promises of a backend that are alike nearly everywhere; the rest is set field by field.
    pub fn of(backend: &'static str, class: Class) -> Self {
        Self {
            backend,
            class,
            class_reason: String::new(),
            survives: Vec::new(),
            caveats: Vec::new(),
            clock: "",
            token: String::new(),
            wake: WakeBy::Push,
            order: Order::Arrival,
            modes: Modes::ALL,
            shortest_lease: Duration::from_millis(100),
            longest_lease: Duration::from_secs(24 * 3600),
            longest_silence: Duration::MAX,
            dead_after: DeadAfter::Lease,
        }
    }

    /// How long a hold with this lease may be believed in after an answer.
    pub(crate) fn believed(&self, lease: Duration) -> Duration {
        lease.min(self.longest_silence)
    }
}

/// How far a backend's grants can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Good for efficiency only: some single fault can make two holders.
    BestEffort,
    /// One durable store decides: grants and tokens survive its restart.
    Durable,
    /// A majority decides: grants and tokens survive the loss of a minority.
    Consensus,
}

/// What the caller needs the lock for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Purpose {
    /// To save work: two holders once in a while cost money, not data.
    #[default]
    Efficiency,
    /// To keep data right: backends of class best effort are refused.
    Correctness,
}

/// How a waiter learns that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeBy {
    /// The engine or the releasing process tells it.
    Push,
    /// It asks again and again, at a bounded rate.
    Poll,
}

/// In which order waiters are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// Strictly as they came.
    Arrival,
    /// As chance has it.
    Chance,
}

/// How soon the claims of a killed process are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadAfter {
    /// When their lease ends.
    Lease,
    /// At once.
    ProcessEnd,
}

/// Which modes a backend grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    /// Read-write locks.
    pub shared: bool,
    /// Semaphores.
    pub permits: bool,
}

impl Modes {
    /// Everything: exclusive, shared and permits.
    pub const ALL: Self = Self {
        shared: true,
        permits: true,
    };
}
