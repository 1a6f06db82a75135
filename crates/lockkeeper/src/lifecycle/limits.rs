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
    /// Nobody looks after them any more.
    over: bool,
}

/// A call that is under way. The number tells apart those that are overdue at the same moment.
type Key = (Moment, u64);

impl Calls {
    /// Nothing if nobody would ever wake whoever waits for it.
    pub(super) fn begin(&mut self, until: Moment, waker: &Waker) -> Option<Key> {
        if self.over {
            return None;
        }
        self.begun += 1;
        let key = (until, self.begun);
        self.under_way.insert(key, waker.clone());
        Some(key)
    }

    pub(super) fn end(&mut self, key: Key) -> Option<Waker> {
        self.under_way.remove(&key)
    }

    /// When the next one is overdue.
    pub(super) fn first(&self) -> Moment {
        let first = self.under_way.first_key_value();
        first.map_or(Moment::NEVER, |((until, _), _)| *until)
    }

    /// Those that are overdue at this moment, to be woken.
    pub(super) fn overdue(&mut self, now: Moment) -> impl Iterator<Item = Waker> + use<> {
        let in_time = self.under_way.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.under_way, in_time).into_values()
    }

    /// All of them, for the last time.
    pub(super) fn at_the_end(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.over = true;
        std::mem::take(&mut self.under_way).into_values()
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

    /// Ready once the call is overdue, or nobody is left to say so.
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if let Some(key) = self.key.take() {
            self.watchdog.call_ended(key);
            if self.clock.now() >= self.until {
                return Poll::Ready(());
            }
        }
        self.key = self.watchdog.call_begins(self.until, cx.waker());
        match self.key {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.watchdog.call_ended(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_overdue_at_its_moment_and_not_before() {
        let mut calls = Calls::default();
        let at = Moment::from_nanos;
        let [first, second, third] = [5, 5, 9].map(|until| calls.begin(at(until), Waker::noop()));
        assert!(first != second && third.is_some());
        assert_eq!(calls.first(), at(5));
        assert_eq!(calls.overdue(at(4)).count(), 0);
        assert!(calls.end(first.unwrap()).is_some());
        assert_eq!(calls.overdue(at(5)).count(), 1);
        assert_eq!(calls.first(), at(9));
    }

    // A caller that was woken at the end and polled before it can see why must not wait for another wake.
    #[test]
    fn after_the_end_nobody_waits() {
        let mut calls = Calls::default();
        assert!(calls.begin(Moment::NEVER, Waker::noop()).is_some());
        assert_eq!(calls.at_the_end().count(), 1);
        assert!(calls.begin(Moment::NEVER, Waker::noop()).is_none());
    }
}
