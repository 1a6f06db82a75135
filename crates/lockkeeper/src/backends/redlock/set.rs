//! All nodes of the set: questions to all of them at the same time.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use redis::Value;
use tokio::sync::Notify;

use super::config::Config;
use super::debts::Free;
use super::member::{Complaint, Member, Trouble, Verdict};
use super::quorum::{Quorum, above};
use super::wire::{BUCKETS, Keys};
use super::{REDLOCK, care, ear};
use crate::Name;
use crate::backend::{Bell, Wake};
use crate::backends::redis::link::Event;
use crate::backends::redis::packed::Packed;
use crate::error::Error;
use crate::lifecycle::deadline::Clock;

/// The nodes of one keeper.
pub(super) struct Set {
    pub(super) members: Arc<[Arc<Member>]>,
    pub(super) quorum: Quorum,
    pub(super) keys: Keys,
    pub(super) clock: Clock,
    /// The highest number heard of, for each bucket.
    seen: Vec<AtomicU64>,
    nudge: Arc<Notify>,
    /// The set in words.
    pub(super) words: String,
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&*self.members).finish()
    }
}

/// What a message does decides which nodes it goes to.
#[derive(Debug, Clone)]
pub(super) enum Message {
    /// Asks for the node's vote: only if it was greeted.
    Vote(Arc<Packed>),
    /// Looks: whatever the node's state.
    Look(Arc<Packed>),
    /// Frees: whatever the node's state, and later if it cannot be reached.
    Free(Free),
}

impl Set {
    /// Connects to all nodes and greets them; a majority must answer.
    pub(super) async fn connect(
        config: &Config,
        clock: &Clock,
        keeper: String,
        bell: &Bell,
    ) -> Result<Arc<Self>, Error> {
        let keys = Keys::new(&config.prefix, config.digest(), keeper);
        let nudge = Arc::new(Notify::new());
        let quorum = Quorum::of(config.nodes.len());
        let (tell, told) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(ear::listen(told, quorum, bell.clone(), clock.clone()));
        let start = |place: usize| {
            let (nudge, tell, bell) = (nudge.clone(), tell.clone(), bell.clone());
            let news = move |event: Event<'_>| match event {
                Event::Message { payload, .. } => ear::hear(&tell, place, payload),
                Event::Broken => nudge.notify_one(),
                Event::Up => {
                    nudge.notify_one();
                    // What was published since it broke is lost.
                    bell.ring(Wake::LookAll);
                }
            };
            Arc::new(Member::start(place, config, &keys, clock, news))
        };
        let members = (0..config.nodes.len()).map(start).collect();
        let set = Arc::new(Self {
            members,
            quorum,
            keys,
            clock: clock.clone(),
            seen: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            nudge,
            words: config.set(),
        });
        set.join_in(config.fresh).await?;
        tokio::spawn(care::tend(Arc::downgrade(&set), set.nudge.clone()));
        Ok(set)
    }

    /// A number for a grant of this name: above all that were heard of, and not offered before.
    pub(super) fn offer(&self, bucket: usize) -> u64 {
        above(self.seen[bucket].fetch_add(1, Ordering::Relaxed))
    }

    /// Learns the highest number that a node has seen.
    pub(super) fn learn(&self, bucket: usize, seen: u64) {
        self.seen[bucket].fetch_max(seen, Ordering::Relaxed);
    }

    /// Asks all nodes at the same time. `enough` is told each answer and says when to stop; the nodes that
    /// have not answered then carry it out in their own time, those that have not by `limit` have failed.
    /// Everything is sent before this first waits, so that what is sent later arrives later.
    pub(super) async fn ask(
        &self,
        message: Message,
        limit: Duration,
        mut enough: impl FnMut(usize, Result<Value, Trouble>) -> Wait,
    ) {
        let until = self.clock.now() + limit;
        let mut asked = Asked::all(&self.members, &message).await;
        let late = tokio::time::sleep(limit);
        tokio::pin!(late);
        loop {
            tokio::select! {
                biased;
                next = asked.next() => {
                    let Some((place, told)) = next else { return };
                    match enough(place, told) {
                        Wait::More => {}
                        Wait::NoMore => break,
                        Wait::ALittle(span) => {
                            let soon = (self.clock.now() + span).min(until);
                            late.set(tokio::time::sleep(soon - self.clock.now()));
                        }
                    }
                }
                () = &mut late => {
                    for place in asked.silent() {
                        if self.clock.now() >= until {
                            self.members[place].is_late();
                        }
                        enough(place, Err(Trouble::Late));
                    }
                    break;
                }
            }
        }
        if !asked.is_over() {
            // A question that nobody waits for any more would not even be sent.
            tokio::spawn(stragglers(asked, self.members.clone(), limit));
        }
    }

    /// Sends to the nodes that `which` names, now, and does not wait for the answers.
    pub(super) fn tell(&self, message: &Message, which: impl Fn(usize) -> bool) {
        for (place, member) in self.members.iter().enumerate() {
            if which(place) {
                let mut sending = Box::pin(answer(member.clone(), message.clone()).map(drop));
                // The first poll sends, so that whatever is sent from here on comes after it.
                if (&mut sending).now_or_never().is_none() {
                    tokio::spawn(sending);
                }
            }
        }
    }

    /// Somebody should look after the nodes.
    pub(super) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Too few nodes vote: each one's trouble.
    pub(super) fn trouble(&self, during: &str) -> Error {
        if let Err(refused) = self.foreign() {
            return refused;
        }
        let complaints: Vec<Complaint> =
            self.members.iter().filter_map(|m| m.complaint()).collect();
        let votes = self.members.len() - complaints.len();
        let texts: Vec<&str> = complaints.iter().map(|it| it.text.as_str()).collect();
        let mut all = texts.join("; ");
        if complaints.is_empty() {
            "the answers came too late".clone_into(&mut all);
        }
        let (nodes, needed) = (self.quorum.nodes(), self.quorum.size());
        let during = format!("{during}: {votes} of {nodes} nodes vote and {needed} are needed");
        // Of one mind they leave no majority to anybody, so the outcome is known.
        let agreed = [Verdict::Denied, Verdict::Refused, Verdict::Invalid]
            .into_iter()
            .find(|verdict| {
                let with = complaints.iter().filter(|it| it.verdict == *verdict);
                self.quorum.reached(with.count())
            });
        match agreed {
            Some(Verdict::Denied) => Error::Denied {
                backend: REDLOCK,
                what: format!("{all} (while {during}); check user, password and ACL"),
            },
            Some(Verdict::Refused) => Error::Refused {
                backend: REDLOCK,
                why: format!("{all} (while {during})"),
            },
            Some(Verdict::Invalid) => Error::invalid(format!("redlock: {all} (while {during})")),
            _ => Error::Unreachable {
                backend: REDLOCK,
                during,
                source: Some(Arc::new(Complaints(all))),
            },
        }
    }
}

/// A question to all nodes, and the answers as they come.
struct Asked {
    open: Vec<(usize, BoxFuture<'static, Answer>)>,
    /// Of those who answered before the last had been asked.
    early: Vec<(usize, Answer)>,
}

type Answer = Result<Value, Trouble>;

impl Asked {
    /// Asks them all before it returns: the first poll of each sends. Were the first to answer heard before the last
    /// was asked, the last would be asked only after whatever their majority leads to.
    async fn all(members: &[Arc<Member>], message: &Message) -> Self {
        let (mut open, mut early) = (Vec::with_capacity(members.len()), Vec::new());
        for (place, member) in members.iter().enumerate() {
            let mut answer = answer(member.clone(), message.clone()).boxed();
            match poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await {
                Poll::Ready(told) => early.push((place, told)),
                Poll::Pending => open.push((place, answer)),
            }
        }
        Self { open, early }
    }

    /// Who has not answered yet.
    fn silent(&self) -> impl Iterator<Item = usize> {
        self.open.iter().map(|(place, _)| *place)
    }

    fn is_over(&self) -> bool {
        self.open.is_empty() && self.early.is_empty()
    }

    /// The next answer, and whose it is; nothing when all have answered.
    async fn next(&mut self) -> Option<(usize, Answer)> {
        poll_fn(|cx| {
            if let Some(early) = self.early.pop() {
                return Poll::Ready(Some(early));
            }
            // They are few: to look at each costs less than to know which one it is.
            for at in 0..self.open.len() {
                if let Poll::Ready(told) = self.open[at].1.as_mut().poll(cx) {
                    let (place, _) = self.open.swap_remove(at);
                    return Poll::Ready(Some((place, told)));
                }
            }
            match self.open.is_empty() {
                true => Poll::Ready(None),
                false => Poll::Pending,
            }
        })
        .await
    }

    async fn rest(&mut self) {
        while self.next().await.is_some() {}
    }
}

async fn answer(member: Arc<Member>, message: Message) -> Answer {
    match message {
        Message::Vote(cmd) => member.ask(cmd).await,
        Message::Look(cmd) => member.ask_anyway(cmd).await,
        Message::Free(free) => member.free(free).await,
    }
}

/// Stays until the slower nodes have answered too. One that does not in good time is suspected.
async fn stragglers(mut asked: Asked, members: Arc<[Arc<Member>]>, limit: Duration) {
    if tokio::time::timeout(limit, asked.rest()).await.is_err() {
        for place in asked.silent() {
            members[place].link.suspect();
        }
        // Sent, and not taken back: only nobody listens.
        asked.rest().await;
    }
}

/// Whether a question goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    More,
    /// It is decided, but the others' answers are worth a moment.
    ALittle(Duration),
    NoMore,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Complaints(String);

/// The bucket that a name's numbers come from.
pub(super) fn bucket(name: &Name) -> usize {
    super::wire::bucket(name)
}
