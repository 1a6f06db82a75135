//! Who listens to which node. The servers tell of a change once, and only to whom has asked; so it is known for each
//! path who asked, whether the answer has come, and when nobody is left, so that the servers are told too.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Weak;
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

#[derive(Debug)]
struct Listener {
    id: u64,
    tell: oneshot::Sender<Event>,
    /// Whether the server has said that it will tell. What is told before that is about an earlier question.
    set: bool,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    next: u64,
    paths: HashMap<String, Vec<Listener>>,
}

impl Watches {
    /// A question that sets a watch is about to be sent.
    pub(super) fn ask(&mut self, path: &str) -> (u64, oneshot::Receiver<Event>) {
        let (tell, told) = oneshot::channel();
        self.next += 1;
        let id = self.next;
        let listener = Listener {
            id,
            tell,
            set: false,
        };
        match self.paths.get_mut(path) {
            Some(listeners) => listeners.push(listener),
            None => {
                self.paths.insert(path.to_owned(), vec![listener]);
            }
        }
        (id, told)
    }

    /// The server will tell; false if nobody wants to hear it any more.
    pub(super) fn set(&mut self, path: &str, id: u64) -> bool {
        let Some(listeners) = self.paths.get_mut(path) else {
            return false;
        };
        for listener in listeners.iter_mut().filter(|one| one.id == id) {
            listener.set = true;
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
        removed.set && last
    }

    /// The server has told.
    pub(super) fn fire(&mut self, path: &str, event: Event) {
        let Some(listeners) = self.paths.get_mut(path) else {
            return;
        };
        let asking = std::mem::take(listeners).into_iter().filter_map(|one| {
            if !one.set {
                return Some(one);
            }
            let _nobody_listens = one.tell.send(event);
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
            listeners.retain(|listener| listener.set);
            !listeners.is_empty()
        });
    }

    /// The session is over.
    pub(super) fn end(&mut self) {
        for (_, listeners) in self.paths.drain() {
            for listener in listeners {
                let _nobody_listens = listener.tell.send(Event::Lost);
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
    pub(super) over: bool,
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
        let (first, mut told_first) = watches.ask("/a");
        watches.set("/a", first);
        let (second, mut told_second) = watches.ask("/a");
        watches.fire("/a", Event::Changed);
        assert_eq!(told_first.try_recv(), Ok(Event::Changed));
        assert!(told_second.try_recv().is_err());
        watches.set("/a", second);
        watches.fire("/a", Event::Deleted);
        assert_eq!(told_second.try_recv(), Ok(Event::Deleted));
        assert_eq!(watches.paths().count(), 0);
    }

    // Else the watch that somebody else has just asked for would be taken away too.
    #[test]
    fn only_the_last_one_takes_the_watch_away() {
        let mut watches = Watches::default();
        let (first, _told) = watches.ask("/a");
        watches.set("/a", first);
        let (second, _told) = watches.ask("/a");
        assert!(!watches.remove("/a", first), "another is asking");
        assert!(watches.set("/a", second));
        assert!(watches.remove("/a", second));
        assert!(!watches.remove("/a", second), "once");
        let (third, _told) = watches.ask("/a");
        assert!(!watches.remove("/a", third), "it is not set yet");
        assert!(!watches.set("/a", third), "nobody wants it any more");
    }

    #[test]
    fn a_lost_connection_keeps_what_was_set_and_an_ended_session_tells_all() {
        let mut watches = Watches::default();
        let (set, mut told) = watches.ask("/a");
        watches.set("/a", set);
        let (_asked, mut never) = watches.ask("/b");
        watches.disconnected();
        assert_eq!(watches.paths().collect::<Vec<_>>(), ["/a"]);
        watches.end();
        assert_eq!(told.try_recv(), Ok(Event::Lost));
        assert!(never.try_recv().is_err());
    }
}
