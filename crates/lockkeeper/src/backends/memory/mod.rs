//! `memory:`, the reference backend: the lists live in this process and die with it.
//!
//! It is the shortest honest reading of the [`Backend`] trait, for tests and for programs that have one
//! process only. The keepers of one [`Memory`] see the same names; leases end by the boot-time clock.

mod backend;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::backend::{Backend, Bell};
use crate::claim::Claim;
use crate::guarantees::{Class, Guarantees};
use crate::lifecycle::deadline::{Clock, Moment};
use crate::{Mode, Name};

/// An engine in this process's memory.
#[derive(Debug, Clone)]
pub struct Memory {
    clock: Clock,
    lists: Arc<Mutex<Lists>>,
}

/// All lists, and the counter that numbers claims over all names.
#[derive(Debug, Default)]
struct Lists {
    last_order: u64,
    names: HashMap<Name, Vec<Listed>>,
    /// What operators broke, the newest first.
    broken: VecDeque<String>,
}

/// A claim in a list.
#[derive(Debug)]
struct Listed {
    claim: Claim,
    order: u64,
    since: Moment,
    ends: Moment,
    bell: Bell,
}

impl Listed {
    fn mode(&self) -> Mode {
        self.claim.mode
    }
}

impl Memory {
    /// An empty engine on the given clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            lists: Arc::default(),
        }
    }

    /// A connection to it, for one keeper.
    pub fn backend(&self) -> Arc<dyn Backend> {
        Arc::new(backend::MemoryBackend::new(self.clone()))
    }

    /// How many claims are in all lists: what a test of residue counts.
    pub fn claims(&self) -> usize {
        self.lists().names.values().map(Vec::len).sum()
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        // Every change below is made of steps that cannot panic half-way.
        self.lists
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(Clock::system())
    }
}

fn guarantees() -> Guarantees {
    Guarantees {
        class_reason: "nothing outlives this process".into(),
        survives: vec!["a cancelled or panicking task"],
        caveats: vec!["other processes see other lists".into()],
        clock: "the machine's boot-time clock",
        token: "a counter in memory; it starts anew with the process".into(),
        ..Guarantees::of("memory", Class::BestEffort)
    }
}
