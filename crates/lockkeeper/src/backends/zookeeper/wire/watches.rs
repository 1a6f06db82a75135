//! Who listens to which node. The servers tell of a change once, and only to whom has asked; so it is known for each
//! path who asked, whether the answer has come, and when nobody is left, so that the servers are told too.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::link::Link;

/// What happened to a node that is listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Event {
    Deleted,
    /// It has other data, or came to be.
    Changed,
    /// The session is over: nobody knows.
    Lost,
}

/// Whether a watch stands: it is set, and has not told anything. It changes before any answer is told that the server
/// gave after the change, so whoever has such an answer knows by this that nothing happened before.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct Ear(Arc<AtomicBool>);

impl Ear {
    pub(in super::super) fn stands(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    #[cfg(test)]
    pub(in super::super) fn that(stands: bool) -> Self {
        Self(Arc::new(AtomicBool::new(stands)))
    }

    fn put(&self, stands: bool) {
        self.0.store(stands, Ordering::Release);
    }
}

#[derive(Debug)]
struct Listener {
    id: u64,
    tell: oneshot::Sender<Event>,
    /// What is told before the server has said that it will tell is about an earlier question.
    ear: Ear,
    /// Its question itself may be answered by news, which come before the answer.
    eager: bool,
}

impl Listener {
    fn is_set(&self) -> bool {
        self.ear.stands()
    }

    fn tell(self, event: Event) {
        self.ear.put(false);
        let _nobody_listens = self.tell.send(event);
    }
}

/// How a watch that was asked for is known, and heard of.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: u64,
    pub(super) told: oneshot::Receiver<Event>,
    pub(super) ear: Ear,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    next: u64,
    paths: HashMap<String, Vec<Listener>>,
}

impl Watches {
    /// A question that sets a watch is about to be sent.
    pub(super) fn ask(&mut self, path: &str) -> Asked {
        self.add(path, false)
    }

    /// One that is answered by news too, if something happened before.
    pub(super) fn ask_for_news(&mut self, path: &str) -> Asked {
        self.add(path, true)
    }

    fn add(&mut self, path: &str, eager: bool) -> Asked {
        let (tell, told) = oneshot::channel();
        self.next += 1;
        let id = self.next;
        let ear = Ear::default();
        let listener = Listener {
            id,
            tell,
            ear: ear.clone(),
            eager,
        };
        match self.paths.get_mut(path) {
            Some(listeners) => listeners.push(listener),
            None => {
                self.paths.insert(path.to_owned(), vec![listener]);
            }
        }
        Asked { id, told, ear }
    }

    /// The server will tell; false if nobody wants to hear it any more.
    pub(super) fn set(&mut self, path: &str, id: u64) -> bool {
        let Some(listeners) = self.paths.get_mut(path) else {
            return false;
        };
        for listener in listeners.iter_mut().filter(|one| one.id == id) {
            listener.ear.put(true);
        }
        true
    }

    /// This one does not listen any more; true if the server tells, and nobody else listens.
    pub(super) fn remove(&mut self, path: &str, id: u64) -> bool {
        let Some(listeners) = self.paths.get_mut(path) else {
            return false;
        };
        let Some(place) = listeners.iter().position(|one| one.id == id) else {
            return false;
        };
        let removed = listeners.swap_remove(place);
        let last = listeners.is_empty();
        if last {
            self.paths.remove(path);
        }
        let set = removed.is_set();
        removed.ear.put(false);
        set && last
    }

    /// The server has told.
    pub(super) fn fire(&mut self, path: &str, event: Event) {
        let Some(listeners) = self.paths.get_mut(path) else {
            return;
        };
        let asking = std::mem::take(listeners).into_iter().filter_map(|one| {
            if !one.is_set() && !one.eager {
                return Some(one);
            }
            one.tell(event);
            None
        });
        *listeners = asking.collect();
        if listeners.is_empty() {
            self.paths.remove(path);
        }
    }

    /// The connection is lost: what was asked and not answered never will be.
    pub(super) fn disconnected(&mut self) {
        self.paths.retain(|_, listeners| {
            listeners.retain(Listener::is_set);
            !listeners.is_empty()
        });
    }

    /// The session is over.
    pub(super) fn end(&mut self) {
        for (_, listeners) in self.paths.drain() {
            for listener in listeners {
                listener.tell(Event::Lost);
            }
        }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.keys().map(String::as_str)
    }
}

/// Resolves with what happens to a node. When it is dropped before, the servers are told that nobody listens.
#[derive(Debug)]
pub(in super::super) struct Watcher {
    pub(super) link: Weak<Link>,
    pub(super) path: String,
    pub(super) id: u64,
    pub(super) told: oneshot::Receiver<Event>,
    pub(super) ear: Ear,
    pub(super) over: bool,
}

impl Watcher {
    pub(in super::super) fn ear(&self) -> Ear {
        self.ear.clone()
    }
}

impl Future for Watcher {
    type Output = Event;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        if self.over {
            return Poll::Ready(Event::Lost);
        }
        let told = std::task::ready!(Pin::new(&mut self.told).poll(context));
        self.over = true;
        // Nobody can tell any more once the session's task is gone.
        Poll::Ready(told.unwrap_or(Event::Lost))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.over
            && let Some(link) = self.link.upgrade()
        {
            link.unwatch(&self.path, self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_from_before_the_answer_are_for_those_who_asked_before() {
        let mut watches = Watches::default();
        let mut first = watches.ask("/a");
        assert!(!first.ear.stands());
        watches.set("/a", first.id);
        assert!(first.ear.stands());
        let mut second = watches.ask("/a");
        watches.fire("/a", Event::Changed);
        assert!(!first.ear.stands());
        assert_eq!(first.told.try_recv(), Ok(Event::Changed));
        assert!(second.told.try_recv().is_err());
        watches.set("/a", second.id);
        watches.fire("/a", Event::Deleted);
        assert_eq!(second.told.try_recv(), Ok(Event::Deleted));
        assert_eq!(watches.paths().count(), 0);
    }

    // Else the watch that somebody else has just asked for would be taken away too.
    #[test]
    fn only_the_last_one_takes_the_watch_away() {
        let mut watches = Watches::default();
        let first = watches.ask("/a").id;
        watches.set("/a", first);
        let second = watches.ask("/a").id;
        assert!(!watches.remove("/a", first), "another is asking");
        assert!(watches.set("/a", second));
        assert!(watches.remove("/a", second));
        assert!(!watches.remove("/a", second), "once");
        let third = watches.ask("/a").id;
        assert!(!watches.remove("/a", third), "it is not set yet");
        assert!(!watches.set("/a", third), "nobody wants it any more");
    }

    // Of a node that is gone there is no other word than the news.
    #[test]
    fn what_is_asked_for_all_at_once_hears_news_before_the_answer() {
        let mut watches = Watches::default();
        let mut asked = watches.ask_for_news("/a");
        watches.fire("/a", Event::Deleted);
        assert_eq!(asked.told.try_recv(), Ok(Event::Deleted));
        watches.set("/a", asked.id);
        assert!(!asked.ear.stands());
    }

    #[test]
    fn a_lost_connection_keeps_what_was_set_and_an_ended_session_tells_all() {
        let mut watches = Watches::default();
        let mut set = watches.ask("/a");
        watches.set("/a", set.id);
        let mut asked = watches.ask("/b");
        watches.disconnected();
        assert_eq!(watches.paths().collect::<Vec<_>>(), ["/a"]);
        watches.end();
        assert_eq!(set.told.try_recv(), Ok(Event::Lost));
        assert!(!set.ear.stands());
        assert!(asked.told.try_recv().is_err());
    }
}
