//! How long a call to the engine may take. The watchdog looks after all calls of a keeper together: a timer for each
//! would be set and taken back with every call, and the runtime be woken for the first of them.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use super::deadline::{Clock, Moment};
use super::watchdog::Watchdog;

/// The calls that are under way, by when each is overdue.
#[derive(Debug, Default)]
pub(super) struct Calls {
    under_way: BTreeMap<Key, Waker>,
    begun: u64,
}

/// A call that is under way. The number tells apart those that are overdue at the same moment.
type Key = (Moment, u64);

impl Calls {
    pub(super) fn begin(&mut self, until: Moment, waker: &Waker) -> Key {
        self.begun += 1;
        let key = (until, self.begun);
        self.under_way.insert(key, waker.clone());
        key
    }

    pub(super) fn end(&mut self, key: Key) {
        self.under_way.remove(&key);
    }

    /// When the next one is overdue.
    pub(super) fn first(&self) -> Moment {
        let first = self.under_way.first_key_value();
        first.map_or(Moment::NEVER, |((until, _), _)| *until)
    }

    /// Those that are overdue at this moment, to be woken.
    pub(super) fn overdue(&mut self, now: Moment) -> impl Iterator<Item = Waker> + use<> {
        let in_time = match now {
            Moment::NEVER => BTreeMap::new(),
            now => self.under_way.split_off(&(now, u64::MAX)),
        };
        std::mem::replace(&mut self.under_way, in_time).into_values()
    }
}

/// The limit of one call. It is on the watchdog's agenda from the first poll until it is dropped.
#[derive(Debug)]
pub(super) struct Limit<'a> {
    watchdog: &'a Watchdog,
    clock: &'a Clock,
    until: Moment,
    key: Option<Key>,
}

impl<'a> Limit<'a> {
    pub(super) fn new(watchdog: &'a Watchdog, clock: &'a Clock, until: Moment) -> Self {
        Self {
            watchdog,
            clock,
            until,
            key: None,
        }
    }

    /// Ready once the call is overdue.
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        let again = self.key.take();
        if let Some(key) = again {
            self.watchdog.call_ended(key);
            if self.clock.now() >= self.until {
                return Poll::Ready(());
            }
        }
        self.key = Some(self.watchdog.call_begins(self.until, cx.waker()));
        Poll::Pending
    }
}

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.watchdog.call_ended(key);
        }
    }
}
